//! Sending a stored answer, or one that is just being stored: its conditions, its ranges, its bytes.

use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::task::Poll;
use std::time::SystemTime;

use bytes::Bytes;
use http::Method;
use pingora_http::ResponseHeader;
use tinaja_http::age::age_field;
use tinaja_http::conditional::{self, Answer};
use tinaja_http::multipart::Multipart;
use tinaja_http::range::{Wanted, part_edits, unsatisfied_edits, wanted};
use tinaja_http::status::Outcome;
use tinaja_logs::CacheResult;
use tinaja_store::{Body, ReadError, State};

use super::entry::Entry;
use super::resume::Source;
use super::ticket::Request;
use super::{Ended, Exchange, headers};
use crate::client::Client;
use crate::stored::Found;

/// How many bytes of a body are read at a time: one read of this size costs a disk little more than one of a few KiB,
/// and a client gets it in a few packets.
pub(crate) const READ_PIECE_BYTES: usize = 128 * 1024;

/// Whether the client has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Answered,
    /// What the client wants of it cannot be had here: it has not been fetched yet, cannot be read, or the origin alone
    /// can judge the request's conditions. Nothing has been sent.
    NotHere,
}

/// Where an answer comes from.
pub(super) enum Given {
    /// From the cache.
    Stored,
    /// This request has fetched it, and this is the head that came: what is stored may lack fields of it.
    Fetched(Box<ResponseHeader>),
}

/// What is sent of an answer.
enum Plan {
    NotModified,
    Whole,
    Part(RangeInclusive<u64>),
    Parts(Multipart, Vec<RangeInclusive<u64>>),
    Unsatisfied,
}

impl Exchange {
    /// Answers with what was found. Nothing is sent before the first bytes are there.
    pub(super) async fn serve(
        &self,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        found: Found,
        given: Given,
    ) -> Result<Sent, Ended> {
        let now = SystemTime::now();
        let fetched = matches!(given, Given::Fetched(_));
        let (mut head, age) = match given {
            Given::Fetched(head) => (*head, None),
            Given::Stored => match found.head.header() {
                Some(head) => (head, Some(found.head.facts.age(now))),
                None => return Ok(Sent::NotHere),
            },
        };
        let age = age.or_else(|| Some(age_field(&head.headers)).filter(|age| *age > 0));
        let Some(plan) = plan(request, &head, &found, fetched, now) else {
            return Ok(Sent::NotHere);
        };
        let length = found.hit.body.len();
        let must_wait = fetched && !matches!(plan, Plan::Parts(..));
        let mut source = Source::stored(found, length);
        let first = match first_piece(request, &plan, &mut source, must_wait).await {
            Ok(first) => first,
            Err(NotThere) => return Ok(Sent::NotHere),
        };
        if entry.outcome == Outcome::Hit || entry.result == CacheResult::Stale {
            entry.ttl = Some(source.ttl_seconds(now));
        }
        shape(&mut head, &plan, length)?;
        if matches!(plan, Plan::NotModified) && entry.result == CacheResult::Hit {
            entry.result = CacheResult::NotModified;
        }
        headers::to_client(&self.shared, &mut head, age, entry)?;
        entry.note(&head);
        client.begin(&head, first).await?;
        if request.method() != Method::HEAD {
            self.send_content(request, client, &plan, &mut source).await?;
        }
        client.end().await?;
        Ok(Sent::Answered)
    }

    async fn send_content(
        &self,
        request: &Request,
        client: &mut Client,
        plan: &Plan,
        source: &mut Source,
    ) -> Result<(), Ended> {
        match plan {
            Plan::NotModified | Plan::Unsatisfied => Ok(()),
            Plan::Whole | Plan::Part(_) => self.pump(request, client, source).await,
            Plan::Parts(multipart, parts) => {
                for (number, part) in parts.iter().enumerate() {
                    // The first part has begun.
                    if number > 0 {
                        client.piece(Bytes::from(multipart.before(part))).await?;
                        source.seek(part);
                    }
                    self.pump(request, client, source).await?;
                }
                Ok(client.piece(Bytes::from(multipart.end())).await?)
            }
        }
    }

    /// Sends what is left of a source, and notices when the client leaves.
    async fn pump(&self, request: &Request, client: &mut Client, source: &mut Source) -> Result<(), Ended> {
        loop {
            let piece = tokio::select! {
                biased;
                piece = self.next_of(request, source) => piece?,
                () = client.gone() => return Err(Ended::Left),
            };
            match piece {
                Some(piece) => client.piece(piece).await?,
                None => return Ok(()),
            }
        }
    }
}

/// What to send; nothing if it cannot be told here.
fn plan(request: &Request, head: &ResponseHeader, found: &Found, fetched: bool, now: SystemTime) -> Option<Plan> {
    let stored =
        conditional::Stored { status: head.status, headers: &head.headers, received: found.head.facts.received };
    let fields = &request.head.headers;
    match conditional::evaluate(request.method(), fields, stored, now) {
        Answer::AskOrigin => None,
        Answer::NotModified => Some(Plan::NotModified),
        Answer::Serve { ranges: false } => Some(Plan::Whole),
        Answer::Serve { ranges: true } => match found.hit.body.len() {
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
fn random() -> u128 {
    let draw = || u128::from(RandomState::new().hash_one(0));
    draw() << 64 | draw()
}

/// Makes of the head of a whole answer the one of what is sent.
fn shape(head: &mut ResponseHeader, plan: &Plan, length: Option<u64>) -> Result<(), Ended> {
    match plan {
        Plan::NotModified => headers::not_modified(head)?,
        Plan::Whole => {
            if let Some(length) = length
                && head.status != http::StatusCode::NO_CONTENT
            {
                head.insert_header(http::header::CONTENT_LENGTH, length)?;
            }
        }
        Plan::Part(part) => {
            head.set_status(206)?;
            headers::edit(head, &part_edits(part, length.unwrap_or_default()))?;
        }
        Plan::Parts(multipart, parts) => {
            head.set_status(206)?;
            headers::edit(head, &multipart.edits(parts))?;
        }
        Plan::Unsatisfied => {
            head.set_status(416)?;
            headers::edit(head, &unsatisfied_edits(length.unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// What is wanted cannot be had here and now.
struct NotThere;

/// The first bytes to send: an object that cannot be read must become a miss, not an answer that breaks off. Of an
/// object that is still being fetched there may be none yet; `may_wait` says that this will do.
async fn first_piece(request: &Request, plan: &Plan, source: &mut Source, may_wait: bool) -> Result<Bytes, NotThere> {
    let part = match plan {
        Plan::NotModified | Plan::Unsatisfied => return Ok(Bytes::new()),
        _ if request.method() == Method::HEAD => return Ok(Bytes::new()),
        Plan::Whole => None,
        Plan::Part(part) => Some(part),
        Plan::Parts(_, parts) => parts.first(),
    };
    if let Some(part) = part {
        source.seek(part);
    }
    let Some((body, state)) = source.body() else { return Err(NotThere) };
    let piece = match state {
        State::Whole => Some(body.next(READ_PIECE_BYTES).await),
        State::Filling => there_is(body).await,
    };
    let piece = match piece {
        Some(Ok(piece)) => piece.unwrap_or_default(),
        // Others who are at its beginning read along.
        None if may_wait || part.is_none() => Bytes::new(),
        None => return Err(NotThere),
        // This request's own fetch has broken off already. The error comes again, and the rest is taken up, or the
        // client sees the cut: the same as if it had come a moment later, and never a second request for the whole.
        Some(Err(_)) if may_wait => Bytes::new(),
        Some(Err(error)) => {
            tracing::debug!("a stored object counts as a miss: {error}");
            return Err(NotThere);
        }
    };
    source.has_read(piece.len() as u64);
    match plan {
        Plan::Parts(multipart, parts) => {
            let before = parts.first().map(|part| multipart.before(part)).unwrap_or_default();
            Ok([before.as_bytes(), &piece].concat().into())
        }
        _ => Ok(piece),
    }
}

/// The next piece of a body, if it is there already.
async fn there_is(body: &mut Body) -> Option<Result<Option<Bytes>, ReadError>> {
    std::future::poll_fn(|cx| {
        Poll::Ready(match body.poll_next(cx, READ_PIECE_BYTES) {
            Poll::Ready(piece) => Some(piece),
            Poll::Pending => None,
        })
    })
    .await
}
