//! Whether a request may be answered from the cache at all, and whether what was found will do.
//!
//! Every way to answer a hit asks here: the front, which answers plain hits by itself, and the exchange.

use std::time::SystemTime;

use http::Method;
use tinaja_http::body::Framing;
use tinaja_http::control::RequestDirectives;
use tinaja_http::reuse;
use tinaja_http::status::Outcome;

use super::request::Request;
use crate::stored::Facts;

/// Why a request is not for the cache; nothing if it is.
pub(super) fn not_for_cache(method: &Method, framing: Framing, directives: &RequestDirectives) -> Option<Outcome> {
    match method {
        &Method::GET | &Method::HEAD if directives.no_store => Some(Outcome::Request),
        // The key does not cover a body.
        &Method::GET | &Method::HEAD => (framing != Framing::Length(0)).then_some(Outcome::Bypass),
        _ => Some(Outcome::Method),
    }
}

/// Whether a stored answer will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It will, or must be validated first.
    By(reuse::Reuse),
    /// The listener's rules keep it from this client.
    Denied,
}

/// Judges a stored answer for one request: by the rules of the listener it came in at, then by what request and answer
/// say of caching (RFC 9111 4 and 5.2.1).
pub(crate) fn judge(request: &Request, stored: &Facts, now: SystemTime) -> Reuse {
    let ticket = &request.ticket;
    if !ticket.listener.may_serve(ticket.asked(request.method()), stored.fetched_from) {
        return Reuse::Denied;
    }
    Reuse::By(reuse::reuse(&request.directives, &stored.state(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_the_cache() {
        let plain = RequestDirectives::default();
        let no_store = RequestDirectives { no_store: true, ..plain };
        let none = Framing::Length(0);
        for (method, framing, directives, why) in [
            (Method::GET, none, plain, None),
            (Method::HEAD, none, plain, None),
            (Method::GET, none, no_store, Some(Outcome::Request)),
            (Method::GET, Framing::Length(1), plain, Some(Outcome::Bypass)),
            (Method::GET, Framing::Chunked, plain, Some(Outcome::Bypass)),
            (Method::POST, none, plain, Some(Outcome::Method)),
            (Method::OPTIONS, none, no_store, Some(Outcome::Method)),
        ] {
            assert_eq!(not_for_cache(&method, framing, &directives), why, "{method} {framing:?} {directives:?}");
        }
    }
}
