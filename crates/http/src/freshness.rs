//! May a response be stored by a shared cache, and for how long is it fresh? (RFC 9111 3 and 4.2)

use std::time::{Duration, SystemTime};

use http::header::{AGE, AUTHORIZATION, DATE, ETAG, LAST_MODIFIED, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};

use crate::control::CacheControl;
use crate::dates;
use crate::limits::{MAX_HEURISTIC_SECONDS, MAX_SECONDS};
use crate::text;
use crate::vary;

/// How long a response that may be stored is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storable {
    /// Seconds from now for which it may be served without asking; 0 means it must be validated each time.
    pub fresh_seconds: u64,
    /// Its age on arrival, in seconds (RFC 9111 4.2.3).
    pub age_seconds: u64,
    /// Seconds past its freshness for which it may be served if the origin fails (RFC 5861 4); 0 unless the origin
    /// said otherwise.
    pub stale_if_error_seconds: u64,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStorable {
    /// Only answers to GET are stored.
    #[error("the method is not GET")]
    Method,
    /// A status that needs more than storing: informational, partial, not modified.
    #[error("the status cannot be stored")]
    Status,
    /// The response says `no-store` or `private`.
    #[error("the origin forbids it")]
    Forbidden,
    /// The request carried Authorization, and the response does not allow sharing it (RFC 9111 3.5).
    #[error("the request was authorised")]
    Authorization,
    /// The response sets a cookie, and does not allow sharing it explicitly.
    #[error("the response sets a cookie")]
    SetCookie,
    /// `Vary: *`, or more fields than we compare.
    #[error("the response varies beyond what we compare")]
    Vary,
    /// No freshness is given, none can be guessed, and it cannot be validated.
    #[error("the response has neither a lifetime nor a validator")]
    NoLifetime,
}

/// May a shared cache store this response to this request, and for how long is it fresh (RFC 9111 3)?
pub fn storable(
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
    now: SystemTime,
) -> Result<Storable, NotStorable> {
    if method != Method::GET && method != Method::HEAD {
        return Err(NotStorable::Method);
    }
    if !understood(status) {
        return Err(NotStorable::Status);
    }
    let control = CacheControl::of(response);
    if control.has("no-store") || control.has("private") {
        return Err(NotStorable::Forbidden);
    }
    let shared = control.has("public") || control.has("s-maxage");
    if request.contains_key(AUTHORIZATION) && !shared && !control.has("must-revalidate") {
        return Err(NotStorable::Authorization);
    }
    if response.contains_key(SET_COOKIE) && !shared {
        return Err(NotStorable::SetCookie);
    }
    if vary::fields(response).is_none() {
        return Err(NotStorable::Vary);
    }
    let age_seconds = age_on_arrival(response, now);
    let lifetime = lifetime_seconds(status, &control, response, now).ok_or(NotStorable::NoLifetime)?;
    let fresh_seconds = if control.has("no-cache") { 0 } else { lifetime.saturating_sub(age_seconds) };
    let stale_if_error_seconds = stale_if_error_seconds(&control);
    let validator = response.contains_key(ETAG) || response.contains_key(LAST_MODIFIED);
    if fresh_seconds == 0 && stale_if_error_seconds == 0 && !validator {
        // It could never be served: storing it would only wear the disk.
        return Err(NotStorable::NoLifetime);
    }
    Ok(Storable { fresh_seconds, age_seconds, stale_if_error_seconds })
}

/// Statuses whose caching we know (RFC 9111 3): final, whole, and not about one moment's condition.
fn understood(status: StatusCode) -> bool {
    !status.is_informational()
        && !matches!(
            status,
            StatusCode::PARTIAL_CONTENT
                | StatusCode::NOT_MODIFIED
                | StatusCode::PRECONDITION_FAILED
                | StatusCode::RANGE_NOT_SATISFIABLE
        )
}

/// Freshness lifetime in seconds (RFC 9111 4.2.1): `s-maxage`, then `max-age`, then Expires, then a guess. A response
/// with none of these but a validator is stored stale, to be validated; without one it is not stored.
fn lifetime_seconds(status: StatusCode, control: &CacheControl, response: &HeaderMap, now: SystemTime) -> Option<u64> {
    let explicit = control.seconds("s-maxage").or_else(|| control.seconds("max-age"));
    if let Some(seconds) = explicit {
        return Some(seconds);
    }
    if let Some(expires) = dates::expires(response, now) {
        let date = dates::earliest(response, &DATE, now).unwrap_or(now);
        return Some(expires.duration_since(date).unwrap_or_default().as_secs().min(MAX_SECONDS));
    }
    if !heuristically_cacheable(status) && !control.has("public") {
        return None;
    }
    heuristic_seconds(response, now)
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

/// Whether an answer to such a request makes what is stored under its URL invalid (RFC 9111 4.4): an unsafe method
/// that did not fail.
pub fn invalidates(method: &Method, status: StatusCode) -> bool {
    !method.is_safe() && (status.is_success() || status.is_redirection())
}

/// Statuses whose lifetime may be guessed (RFC 9110 15.1), without 206, which is not stored here.
pub fn heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// The age a response has when it arrives (RFC 9111 4.2.3, without the response delay): the larger of its Age field
/// and the time since its Date.
pub fn age_on_arrival(response: &HeaderMap, now: SystemTime) -> u64 {
    let apparent = dates::earliest(response, &DATE, now)
        .and_then(|date| now.duration_since(date).ok())
        .map_or(0, |since| since.as_secs().min(MAX_SECONDS));
    age_field(response).max(apparent)
}

/// The Age field in seconds: the first member that is a number (RFC 9111 5.1), 0 without one.
pub fn age_field(response: &HeaderMap) -> u64 {
    let Some(value) = response.get(AGE) else { return 0 };
    let first = text(value).split(',').next().unwrap_or_default().trim();
    if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    first.parse().unwrap_or(MAX_SECONDS).min(MAX_SECONDS)
}

/// The age to send with a stored response (RFC 9111 4.2.3): its age on arrival and the time it has been here.
pub fn current_age(age_on_arrival: u64, stored_for: Duration) -> u64 {
    age_on_arrival.saturating_add(stored_for.as_secs()).min(MAX_SECONDS)
}

/// `stale-if-error` (RFC 5861 4), unless the response must not be served stale (RFC 9111 4.2.4).
fn stale_if_error_seconds(control: &CacheControl) -> u64 {
    let forbidden = ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage"];
    if forbidden.iter().any(|name| control.has(name)) {
        return 0;
    }
    control.seconds("stale-if-error").unwrap_or(0)
}

#[cfg(test)]
#[path = "freshness_tests.rs"]
mod tests;
