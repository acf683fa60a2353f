//! For how long is a response fresh? (RFC 9111 4.2.1 and 4.2.2)

use std::time::SystemTime;

use http::header::{DATE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};

use crate::dates;
use crate::limits::{MAX_HEURISTIC_SECONDS, MAX_SECONDS};
use crate::policy::{Orders, Override, Overrides, Policy, Storing};
use crate::targeted::Chosen;

/// Freshness lifetime in seconds: `s-maxage`, then `max-age`, then Expires unless a targeted field stands in for it
/// (RFC 9213 2.2), then what the operator gives, then a guess; within the operator's bounds. `None` where nothing allows to keep
/// the response; 0 where it is to be validated each time. `answered` is when the response came.
pub fn lifetime_seconds(
    status: StatusCode,
    chosen: &Chosen,
    response: &HeaderMap,
    policy: &Policy,
    (orders, overruled): (&Orders, &mut Overrides),
    answered: SystemTime,
) -> Option<u64> {
    let control = &chosen.control;
    let given = given_seconds(chosen, response, answered);
    if let Some(seconds) = given
        && !orders.overrides.lift(Override::Lifetime, true, overruled)
    {
        return Some(orders.bounded(seconds));
    }
    let may_be_kept = heuristically_cacheable(status)
        || control.has("public")
        || (orders.store == Storing::Shared && is_careful(status))
        || orders.overrides.lift(Override::Status, true, overruled);
    if !may_be_kept {
        return None;
    }
    if control.is_malformed() {
        // What the origin meant to say is not known: nothing is guessed, and it is validated each time.
        return heuristic_seconds(response, answered).map(|_| 0);
    }
    if let Some(seconds) = orders.ttl_seconds {
        return Some(orders.bounded(seconds));
    }
    let negative = is_negative(status) && policy.negative_seconds > 0;
    if negative {
        return Some(policy.negative_seconds.min(MAX_SECONDS));
    }
    heuristic_seconds(response, answered).map(|guess| orders.bounded(guess.min(policy.max_heuristic_seconds)))
}

/// The lifetime that a response comes with.
fn given_seconds(chosen: &Chosen, response: &HeaderMap, answered: SystemTime) -> Option<u64> {
    let control = &chosen.control;
    let seconds = control.seconds("s-maxage").or_else(|| control.seconds("max-age"));
    if seconds.is_some() || chosen.targeted {
        return seconds;
    }
    let expires = dates::expires(response, answered)?;
    let date = dates::earliest(response, &DATE, answered).unwrap_or(answered);
    Some(expires.duration_since(date).unwrap_or_default().as_secs().min(MAX_SECONDS))
}

/// Guessed lifetime (RFC 9111 4.2.2): a tenth of the time since Last-Modified, at most [`MAX_HEURISTIC_SECONDS`].
/// Without Last-Modified there is no guess: 0 if the response can be validated by ETag, nothing otherwise.
pub fn heuristic_seconds(response: &HeaderMap, now: SystemTime) -> Option<u64> {
    let Some(modified) = dates::single(response, &LAST_MODIFIED, now) else {
        return response.contains_key(ETAG).then_some(0);
    };
    let date = dates::earliest(response, &DATE, now).unwrap_or(now).min(now);
    let since = date.duration_since(modified).unwrap_or_default().as_secs();
    Some((since / 10).min(MAX_HEURISTIC_SECONDS))
}

/// Statuses whose lifetime may be guessed (RFC 9110 15.1), without those that a client can bring about by an odd
/// method or a long URL (405, 414, 501): nobody's request may leave an error page behind for the others.
pub fn heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 410)
}

/// Statuses whose lifetime could be guessed too (RFC 9110 15.1), but for the clients that bring them about.
fn is_careful(status: StatusCode) -> bool {
    matches!(status.as_u16(), 405 | 414 | 501)
}

/// Statuses that say that something is not there.
fn is_negative(status: StatusCode) -> bool {
    matches!(status.as_u16(), 404 | 410)
}

#[cfg(test)]
#[path = "freshness_tests.rs"]
mod tests;
