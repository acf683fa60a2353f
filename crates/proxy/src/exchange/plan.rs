//! What of an object an answer sends: by the request's conditions and ranges, and by what of it is stored.

use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::time::SystemTime;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};
use tinaja_http::conditional::{self, Answer};
use tinaja_http::message::ResponseHead;
use tinaja_http::multipart::Multipart;
use tinaja_http::range::{Wanted, part_edits, unsatisfied_edits, wanted};

use super::headers;
use super::request::Request;
use super::transaction::Ended;
use crate::stored::{Found, PieceList};

/// What is sent of an answer.
pub(super) enum Plan {
    NotModified,
    Whole,
    Part(RangeInclusive<u64>),
    Parts(Multipart, Vec<RangeInclusive<u64>>),
    Unsatisfied,
}

/// What a request wants of a stored object.
pub(super) enum Wants {
    /// Nothing that is missing.
    Here,
    /// These bytes; and from where to where some of them are missing.
    Missing(RangeInclusive<u64>, RangeInclusive<u64>),
    /// Several parts, of which some are missing; or only the origin can say.
    Elsewhere,
}

/// What a request wants of an object, and whether it is there.
pub(super) fn wants(request: &Request, found: &Found, now: SystemTime) -> Wants {
    let Some((list, length)) = PieceList::of(&found.head) else { return Wants::Here };
    // Pieces may be there under the same name, of requests that did not come by the mirror: nobody has checked them.
    if request.ticket.names_bytes() {
        return Wants::Elsewhere;
    }
    let plan = found.head.header().and_then(|head| plan(request, &head, found, false, now));
    // Of these the whole alone can be checked.
    let is_checked = request.ticket.learned().is_some();
    let wanted = match plan {
        None => return Wants::Elsewhere,
        Some(Plan::NotModified | Plan::Unsatisfied) => return Wants::Here,
        Some(_) if *request.method() == Method::HEAD => return Wants::Here,
        Some(Plan::Part(_) | Plan::Parts(..)) if is_checked => return Wants::Elsewhere,
        Some(Plan::Part(part)) => part,
        Some(Plan::Whole) if length == 0 => return Wants::Here,
        Some(Plan::Whole) => 0..=length - 1,
        Some(Plan::Parts(_, parts)) => {
            let here = parts.iter().all(|part| list.gap(part).is_none());
            return if here { Wants::Here } else { Wants::Elsewhere };
        }
    };
    list.gap(&wanted).map_or(Wants::Here, |gap| Wants::Missing(wanted, gap))
}

/// What to send; nothing if it cannot be told here.
pub(super) fn plan(
    request: &Request,
    head: &ResponseHead,
    found: &Found,
    fetched: bool,
    now: SystemTime,
) -> Option<Plan> {
    let stored =
        conditional::Stored { status: head.status, headers: &head.headers, received: found.head.facts.received };
    let fields = &request.head.headers;
    match conditional::evaluate(request.method(), fields, stored, now) {
        Answer::AskOrigin => None,
        Answer::NotModified => Some(Plan::NotModified),
        Answer::Serve { ranges: false } => Some(Plan::Whole),
        Answer::Serve { ranges: true } => match found.length() {
            // A part of what has no known length is the origin's to give, unless all of it is on its way.
            None => fetched.then_some(Plan::Whole),
            Some(length) => Some(match wanted(request.method(), fields, length) {
                Wanted::Whole => Plan::Whole,
                Wanted::None => Plan::Unsatisfied,
                Wanted::Parts(mut parts) if parts.len() == 1 => Plan::Part(parts.remove(0)),
                Wanted::Parts(parts) => Plan::Parts(Multipart::new(&head.headers, length, random()), parts),
            }),
        },
    }
}

/// Two draws of the system's randomness, as each hasher is keyed anew.
pub(super) fn random() -> u128 {
    let draw = || u128::from(RandomState::new().hash_one(0));
    draw() << 64 | draw()
}

/// Makes of the head of a whole answer the one of what is sent.
pub(super) fn shape(head: &mut ResponseHead, plan: &Plan, length: Option<u64>) -> Result<(), Ended> {
    match plan {
        Plan::NotModified => headers::not_modified(head),
        Plan::Whole => {
            if let Some(length) = length
                && head.status != StatusCode::NO_CONTENT
                && !says(&head.headers, length)
            {
                head.headers.insert(CONTENT_LENGTH, length)?;
            }
        }
        Plan::Part(part) => {
            head.status = StatusCode::PARTIAL_CONTENT;
            head.headers.edit(&part_edits(part, length.unwrap_or_default()))?;
        }
        Plan::Parts(multipart, parts) => {
            head.status = StatusCode::PARTIAL_CONTENT;
            head.headers.edit(&multipart.edits(parts))?;
        }
        Plan::Unsatisfied => {
            head.status = StatusCode::RANGE_NOT_SATISFIABLE;
            head.headers.edit(&unsatisfied_edits(length.unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// Whether a header says this length already, as it mostly does.
fn says(headers: &HeaderMap, length: u64) -> bool {
    let said = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    said.is_some_and(|said| said.parse() == Ok(length))
}
