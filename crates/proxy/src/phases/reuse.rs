//! Whether a request may be answered from the cache at all, and whether what was found will do.
//!
//! Both ways to answer a hit ask here: Pingora's steps, and the front, which answers plain hits by itself.

use std::net::IpAddr;

use http::Method;
use tinaja_http::body::Framing;
use tinaja_http::control::RequestDirectives;
use tinaja_http::status::Outcome;

use super::context::Ticket;

/// Why a request is not for the cache; nothing if it is.
pub(crate) fn not_for_cache(method: &Method, framing: Framing, directives: &RequestDirectives) -> Option<Outcome> {
    match method {
        &Method::GET | &Method::HEAD if directives.no_store => Some(Outcome::Request),
        // The key does not cover a body.
        &Method::GET | &Method::HEAD => (framing != Framing::Length(0)).then_some(Outcome::Miss),
        _ => Some(Outcome::Method),
    }
}

/// Whether a stored answer will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It may be served as it is.
    Serve,
    /// The client wants it validated first.
    Insists,
    /// It is stale.
    Stale,
    /// The listener's rules keep it from this client.
    Denied,
}

/// What is asked about a stored answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// The address that it came from.
    pub fetched_from: Option<IpAddr>,
    pub age_seconds: u64,
    pub is_fresh: bool,
}

/// Judges a stored answer for one request: by the rules of the listener it came in at, by what it says of caching
/// (RFC 9111 5.2.1), and by its freshness (4.2).
pub(crate) fn reuse(ticket: &Ticket, method: &Method, directives: &RequestDirectives, stored: Stored) -> Reuse {
    if !ticket.listener.may_serve(ticket.asked(method), stored.fetched_from) {
        return Reuse::Denied;
    }
    will_do(directives, stored)
}

fn will_do(directives: &RequestDirectives, stored: Stored) -> Reuse {
    if directives.revalidate || directives.max_age.is_some_and(|most| stored.age_seconds > most) {
        return Reuse::Insists;
    }
    if stored.is_fresh { Reuse::Serve } else { Reuse::Stale }
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
            (Method::GET, Framing::Length(1), plain, Some(Outcome::Miss)),
            (Method::GET, Framing::Chunked, plain, Some(Outcome::Miss)),
            (Method::POST, none, plain, Some(Outcome::Method)),
            (Method::OPTIONS, none, no_store, Some(Outcome::Method)),
        ] {
            assert_eq!(not_for_cache(&method, framing, &directives), why, "{method} {framing:?} {directives:?}");
        }
    }

    #[test]
    fn what_will_do() {
        let plain = RequestDirectives::default();
        let young = RequestDirectives { max_age: Some(10), ..plain };
        let again = RequestDirectives { revalidate: true, ..plain };
        for (directives, age, fresh, expected) in [
            (plain, 5, true, Reuse::Serve),
            (plain, 5, false, Reuse::Stale),
            (young, 10, true, Reuse::Serve),
            (young, 11, true, Reuse::Insists),
            (young, 11, false, Reuse::Insists),
            (again, 0, true, Reuse::Insists),
        ] {
            let stored = Stored { fetched_from: None, age_seconds: age, is_fresh: fresh };
            assert_eq!(will_do(&directives, stored), expected, "{directives:?} {age} {fresh}");
        }
    }
}
