//! May a shared cache store a response, and what of it? (RFC 9111 3)

use std::time::SystemTime;

use http::header::{AUTHORIZATION, CONTENT_RANGE, COOKIE, ETAG, LAST_MODIFIED, SET_COOKIE};
use http::{HeaderMap, HeaderName, Method, StatusCode};

use crate::age::initial_age;
use crate::control::{CacheControl, Scope, request_directives};
use crate::encoding::{Codings, may_encode};
use crate::freshness::lifetime_seconds;
use crate::limits::MAX_ERROR_SECONDS;
pub use crate::policy::{Orders, Override, Overrides, Policy, Storing};
use crate::targeted::{Chosen, choose};
use crate::{hops, range, vary};

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStorable {
    /// Only answers to GET are stored.
    #[error("the method is not GET")]
    Method,
    /// A status that needs more than storing: informational, partial, not modified, or one that `must-understand` is
    /// about and that is not known here.
    #[error("the status cannot be stored")]
    Status,
    /// The response says `no-store` or `private`.
    #[error("the origin forbids it")]
    Forbidden,
    /// The request says `no-store`.
    #[error("the client forbids it")]
    ClientForbids,
    /// The request carried Authorization, and the response does not allow sharing it (RFC 9111 3.5).
    #[error("the request was authorised")]
    Authorization,
    /// The response sets a cookie, and does not allow sharing it explicitly.
    #[error("the response sets a cookie")]
    SetCookie,
    /// The request carried a cookie inside what was decrypted, and the response does not allow sharing it explicitly.
    #[error("the request carried a cookie")]
    Cookie,
    /// `Vary: *`, or more fields than we compare.
    #[error("the response varies beyond what we compare")]
    Vary,
    /// It varies by Cookie, the request had one, and no operator says which cookies count ([`Policy::cookies_named`]).
    #[error("the response varies by Cookie, and no key rule names the cookies that count")]
    VaryCookie,
    /// The operator says that it is not stored.
    #[error("a rule forbids it")]
    Rule,
    /// No freshness is given, none can be guessed, and it cannot be validated.
    #[error("the response has neither a lifetime nor a validator")]
    NoLifetime,
}

/// One request and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The request's method.
    pub method: &'a Method,
    /// The request's headers.
    pub request: &'a HeaderMap,
    /// The answer's status.
    pub status: StatusCode,
    /// The answer's headers.
    pub response: &'a HeaderMap,
    /// When the request was sent to the origin.
    pub asked: SystemTime,
    /// When the head of the answer came.
    pub answered: SystemTime,
}

/// A response that may be stored, and what to store with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Seconds from now for which it may be served without asking; 0 means it must be validated each time.
    pub fresh_seconds: u64,
    /// Seconds for which it was stale already when it came, by its age (RFC 9111 4.2.4).
    pub stale_seconds: u64,
    /// Its age on arrival, in seconds (RFC 9111 4.2.3).
    pub age_seconds: u64,
    /// Seconds past its freshness for which it may be served while it is being validated (RFC 5861 3).
    pub stale_while_revalidate_seconds: u64,
    /// Seconds past its freshness for which it may be served if the origin fails (RFC 5861 4).
    pub stale_if_error_seconds: u64,
    /// Whether a request may ask for it stale (`max-stale`); see [`may_be_stale`].
    pub may_be_stale: bool,
    /// Fields to store it without: those that end at this hop (RFC 9111 3.1), and those that a qualified `private`
    /// or `no-cache` names (5.2.2.7, 5.2.2.4). All of them are in the response.
    pub without: Vec<HeaderName>,
    /// What the response says and the operator overrules ([`Orders::overrides`]).
    pub overruled: Overrides,
    /// The codings in which it may be sent, the best first ([`Orders::encode`]): none for what may be for one client alone, or must stay
    /// as it is.
    pub encodings: Codings,
    /// The request said who asks, and the response does not say that it is for all. What is fetched so is not encoded: its bytes may hold a
    /// secret of that client beside what somebody else chose, and then their length tells of the secret (BREACH).
    pub of_one: bool,
    /// The response says that it is for all, whoever asked for it: `public` or `s-maxage`.
    pub shared: bool,
}

/// May a shared cache store this answer, and how? One call decides all of RFC 9111 3.
///
/// `immutable` (RFC 8246) changes nothing here: what is fresh is validated only where a client asks for it.
pub fn keep(exchange: &Exchange<'_>, policy: &Policy) -> Result<Keep, NotStorable> {
    let Exchange { method, request, status, response, asked, answered } = *exchange;
    if method != Method::GET && method != Method::HEAD {
        return Err(NotStorable::Method);
    }
    let (orders, mut overruled) = (policy.orders.for_request(request), Overrides::default());
    if orders.store == Storing::Never {
        return Err(NotStorable::Rule);
    }
    let chosen = choose(response, &policy.targets);
    check_status(status, response, &chosen.control, policy)?;
    let no_store = chosen.control.has("no-store") && !chosen.control.has("must-understand");
    if no_store && !orders.overrides.lift(Override::NoStore, true, &mut overruled) {
        return Err(NotStorable::Forbidden);
    }
    if request_directives(request).no_store {
        return Err(NotStorable::ClientForbids);
    }
    check_sharing(request, response, &chosen.control, (&orders, &mut overruled))?;
    if policy.decrypted {
        check_decrypted(request, response, &chosen.control)?;
    }
    if vary::fields(response).is_none() {
        return Err(NotStorable::Vary);
    }
    let age_seconds = initial_age(response, asked, answered);
    let lifetime = lifetime_seconds(status, &chosen, response, policy, (&orders, &mut overruled), answered);
    let lifetime = lifetime.ok_or(NotStorable::NoLifetime)?;
    let no_cache = chosen.control.scope("no-cache") == Scope::All;
    let validated_always = no_cache && !orders.overrides.lift(Override::NoCache, true, &mut overruled);
    let is_brief = is_brief(status);
    let lifetime = if is_brief { lifetime.min(age_seconds.saturating_add(MAX_ERROR_SECONDS)) } else { lifetime };
    let must_revalidate = has_must_revalidate(&chosen.control);
    let lifted = orders.overrides.lift(Override::MustRevalidate, must_revalidate, &mut overruled);
    let stays = !validated_always && (!must_revalidate || lifted) && !is_brief;
    let stale = |name| match orders.grace_seconds {
        _ if !stays => 0,
        Some(seconds) => seconds,
        None => chosen.control.seconds(name).unwrap_or(0),
    };
    let mut without = not_stored(response, &chosen.control);
    if (orders.without_cookies || policy.decrypted)
        && response.contains_key(SET_COOKIE)
        && !without.contains(&SET_COOKIE)
    {
        without.push(SET_COOKIE);
    }
    let shared = chosen.control.has("public") || chosen.control.has("s-maxage");
    let names_client = [COOKIE, AUTHORIZATION].iter().any(|name| request.contains_key(name));
    // What was for one client by the origin's word stays as it is, whatever an order makes of it.
    let forced = [Override::Private, Override::NoStore, Override::Authorization];
    let was_shared = !forced.into_iter().any(|one| overruled.has(one)) && !policy.decrypted;
    let encodes = !orders.encode.is_empty() && was_shared && may_encode(status, response, policy.typed);
    let keep = Keep {
        fresh_seconds: if validated_always { 0 } else { lifetime.saturating_sub(age_seconds) },
        stale_seconds: age_seconds.saturating_sub(lifetime),
        age_seconds,
        stale_while_revalidate_seconds: stale("stale-while-revalidate"),
        stale_if_error_seconds: stale("stale-if-error"),
        may_be_stale: stays,
        without,
        overruled,
        encodings: if encodes { orders.encode } else { Codings::NONE },
        of_one: names_client && !shared,
        shared,
    };
    let ever_served = keep.fresh_seconds + keep.stale_while_revalidate_seconds + keep.stale_if_error_seconds > 0;
    if !ever_served && !response.contains_key(ETAG) && !response.contains_key(LAST_MODIFIED) {
        // It could never be served: storing it would only wear the disk.
        return Err(NotStorable::NoLifetime);
    }
    // The last of all reasons: it is told to who can change it by naming cookies, and then nothing else must be in the way.
    let by_cookie = !policy.cookies_named && orders.store != Storing::Shared;
    if by_cookie && vary::is_of_one_cookie(response, request) {
        return Err(NotStorable::VaryCookie);
    }
    Ok(keep)
}

/// Whether stored responses with these headers may be served stale on request, or where the origin fails
/// (RFC 9111 4.2.4): not after `must-revalidate`, `proxy-revalidate`, `s-maxage` or `no-cache`.
pub fn may_be_stale(stored: &HeaderMap, policy: &Policy) -> bool {
    !forbids_stale(&choose(stored, &policy.targets))
}

fn forbids_stale(chosen: &Chosen) -> bool {
    has_must_revalidate(&chosen.control) || chosen.control.scope("no-cache") == Scope::All
}

fn has_must_revalidate(control: &CacheControl) -> bool {
    ["must-revalidate", "proxy-revalidate", "s-maxage"].iter().any(|name| control.has(name))
}

/// The status is one whose caching we know. `no-store` beside `must-understand` is for caches that do not, so it does not count
/// here (RFC 9111 5.2.2.3).
fn check_status(
    status: StatusCode,
    response: &HeaderMap,
    control: &CacheControl,
    policy: &Policy,
) -> Result<(), NotStorable> {
    let must_understand = control.has("must-understand");
    let known = is_known(status);
    let stored_as_part = status != StatusCode::PARTIAL_CONTENT || (policy.parts && is_storable_part(response));
    if !is_whole_answer(status) || is_of_one_client(status) || !stored_as_part || (must_understand && !known) {
        return Err(NotStorable::Status);
    }
    Ok(())
}

/// A part that can be kept and later found to belong to others (RFC 9111 3.3): one range of a known place.
fn is_storable_part(response: &HeaderMap) -> bool {
    let content_range = response.get(CONTENT_RANGE).and_then(range::ContentRange::parse);
    matches!(content_range, Some(range::ContentRange::Part { .. }))
        && crate::conditional::strong_etag(response).is_some()
}

/// Final, and not about one moment's condition.
fn is_whole_answer(status: StatusCode) -> bool {
    !status.is_informational() && !matches!(status.as_u16(), 304 | 412 | 416)
}

/// What RFC 6585 says must not be stored: it is about one client, or about the network that it is in.
fn is_of_one_client(status: StatusCode) -> bool {
    matches!(status.as_u16(), 428 | 429 | 431 | 511)
}

/// Statuses of RFC 9110 15, all of whose caching rules are kept here.
fn is_known(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200..=206 | 300..=303 | 305 | 307 | 308 | 400..=411 | 413..=415 | 417 | 421 | 422 | 426
        | 500..=505)
}

/// Errors that one odd request can bring about, or one bad moment of the origin: they are kept for [`MAX_ERROR_SECONDS`] at the
/// most, whatever lifetime they come with, so that nobody takes a page away from the others for long.
fn is_brief(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 400 | 408 | 413 | 414)
}

/// What keeps a response from being shared: `private`, an authorised request (RFC 9111 3.5), a cookie.
fn check_sharing(
    request: &HeaderMap,
    response: &HeaderMap,
    control: &CacheControl,
    (orders, overruled): (&Orders, &mut Overrides),
) -> Result<(), NotStorable> {
    let private = control.scope("private");
    if private == Scope::All && !orders.overrides.lift(Override::Private, true, overruled) {
        return Err(NotStorable::Forbidden);
    }
    let shared = control.has("public") || control.has("s-maxage");
    let of_one = request.contains_key(AUTHORIZATION) && !shared && !control.has("must-revalidate");
    if of_one && !orders.overrides.lift(Override::Authorization, true, overruled) {
        return Err(NotStorable::Authorization);
    }
    let cookie_left_out = [private, control.scope("no-cache")]
        .iter()
        .any(|scope| matches!(scope, Scope::Fields(fields) if fields.contains(&SET_COOKIE)));
    let may_have_cookie = shared || cookie_left_out || orders.without_cookies || orders.store == Storing::Shared;
    if response.contains_key(SET_COOKIE) && !may_have_cookie {
        return Err(NotStorable::SetCookie);
    }
    Ok(())
}

/// The same for what was decrypted, whose ends did not think of a cache between them.
fn check_decrypted(request: &HeaderMap, response: &HeaderMap, control: &CacheControl) -> Result<(), NotStorable> {
    let shared = control.has("public") || control.has("s-maxage");
    let of_one = [
        (request, AUTHORIZATION, NotStorable::Authorization),
        (request, COOKIE, NotStorable::Cookie),
        (response, SET_COOKIE, NotStorable::SetCookie),
    ];
    let found = of_one.into_iter().find(|(fields, name, _)| !shared && fields.contains_key(name));
    found.map_or(Ok(()), |(_, _, why)| Err(why))
}

/// See [`Keep::without`].
fn not_stored(response: &HeaderMap, control: &CacheControl) -> Vec<HeaderName> {
    let mut names = hops::not_stored(response);
    for scope in [control.scope("private"), control.scope("no-cache")] {
        if let Scope::Fields(fields) = scope {
            names.extend(fields.into_iter().filter(|name| response.contains_key(name)));
        }
    }
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    names
}

#[cfg(test)]
#[path = "storable_tests.rs"]
mod tests;
