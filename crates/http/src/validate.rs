//! Asking the origin whether stored responses still hold, and what its answer changes (RFC 9111 4.3 and 3.2).

use std::time::SystemTime;

use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName};

use crate::conditional::etag;
use crate::edits::Edits;
use crate::{dates, hops};

/// Fields of a 304 that a stored response does not take over, besides those that are not stored: they say how the
/// stored bytes are framed and coded, and no 304 changes bytes (RFC 9111 3.2).
const BOUND_TO_BYTES: [HeaderName; 4] = [CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_RANGE, TRANSFER_ENCODING];

/// The changes that make a client's request validate a stored response (RFC 9111 4.3.1): its validators replace the
/// client's conditions, which are evaluated against the outcome ([`crate::conditional::evaluate`]) and not lost. So a
/// 304 can only be about the stored response. Range and If-Range stay: they count only if the response has changed.
///
/// `None` where the stored response has no validator: pass the request on as it is.
pub fn validation(request: &HeaderMap, stored: &HeaderMap) -> Option<Edits> {
    let tag = etag(stored).and(stored.get(ETAG));
    let mut lines = stored.get_all(LAST_MODIFIED).iter();
    // Sent back as it came: the origin knows its own dates, whatever their form.
    let modified = lines.next().filter(|_| lines.next().is_none());
    if tag.is_none() && modified.is_none() {
        return None;
    }
    let mut edits = Edits::default();
    for name in [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
        edits.remove(name);
    }
    edits.added.extend(tag.map(|tag| (IF_NONE_MATCH, tag.clone())));
    // With a part asked for, a date alone may be weak (RFC 9111 4.3.1); with a tag it adds nothing.
    if tag.is_none() || !request.contains_key(RANGE) {
        edits.added.extend(modified.map(|modified| (IF_MODIFIED_SINCE, modified.clone())));
    }
    Some(edits)
}

/// Which of the stored responses that could have answered the request a 304 is about (RFC 9111 4.3.4), by their
/// places in `stored`, where the most recent comes last.
///
/// A strong tag picks all that have it, a weak tag or a date the most recent that has it, and nothing if none has.
/// A 304 without any validator is about the only one that was asked for.
pub fn selected(stored: &[&HeaderMap], response: &HeaderMap) -> Vec<usize> {
    let places = |matches: &dyn Fn(&HeaderMap) -> bool| -> Vec<usize> {
        stored.iter().enumerate().filter(|(_, stored)| matches(stored)).map(|(at, _)| at).collect()
    };
    let last = |places: Vec<usize>| places.last().copied().into_iter().collect();
    match etag(response) {
        Some(new) if !new.weak => places(&|stored| etag(stored).is_some_and(|old| old.matches_strongly(&new))),
        Some(new) => last(places(&|stored| etag(stored).is_some_and(|old| old.matches_weakly(&new)))),
        None if response.contains_key(LAST_MODIFIED) => {
            let modified = |headers: &HeaderMap| headers.get(LAST_MODIFIED).cloned();
            last(places(&|stored| modified(stored) == modified(response)))
        }
        None if stored.len() == 1 => vec![0],
        None => Vec::new(),
    }
}

/// The changes that a 304 (or a HEAD's 200) makes in a stored response that it is about (RFC 9111 3.2). Fields it
/// does not name stay. Age is the new answer's alone, and Date is `received` where it has none.
///
/// The outcome is a response like any other: [`crate::storable::keep`] says anew whether it may stay, for how long and
/// without which fields; a 304 can bring `private`, or a cookie.
pub fn update(response: &HeaderMap, received: SystemTime) -> Edits {
    let dropped = hops::not_stored(response);
    let mut edits = Edits::default();
    edits.remove(AGE);
    for name in response.keys().filter(|name| !BOUND_TO_BYTES.contains(name) && !dropped.contains(name)) {
        edits.remove(name.clone());
        edits.added.extend(response.get_all(name).iter().map(|value| (name.clone(), value.clone())));
    }
    // A Date that Connection names ends at its hop like any other field.
    if !response.contains_key(DATE) || dropped.contains(&DATE) {
        edits.set(DATE, dates::format(received));
    }
    edits
}

/// What a 200 in answer to a HEAD says of a stored answer to GET (RFC 9111 4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadEffect {
    /// It is still the same: [`update`] it.
    Update,
    /// Its validators or its length are others now: it counts as stale.
    Stale,
    /// It has neither: nothing says which answer to GET it is about.
    Nothing,
}

/// Compares the validators and the length of a HEAD's answer with a stored response. `stored_length` is the stored
/// body's length in bytes.
pub fn head_effect(response: &HeaderMap, stored: &HeaderMap, stored_length: u64) -> HeadEffect {
    let same = |name: &HeaderName| !response.contains_key(name) || response.get(name) == stored.get(name);
    let length = response.get(CONTENT_LENGTH).map(|length| length.as_bytes().to_vec());
    let same_length = length.is_none_or(|length| length == stored_length.to_string().as_bytes());
    // Other bytes of the same length come with another coding.
    let same_coding = response.get(CONTENT_ENCODING) == stored.get(CONTENT_ENCODING);
    let tells = [ETAG, LAST_MODIFIED, CONTENT_LENGTH].iter().any(|name| response.contains_key(name));
    match same(&ETAG) && same(&LAST_MODIFIED) && same_length && same_coding {
        true if tells => HeadEffect::Update,
        true => HeadEffect::Nothing,
        false => HeadEffect::Stale,
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
