//! Whether what was found will do.
//!
//! Every way to answer a hit asks here: the front, which answers plain hits by itself, and the exchange.

use std::time::SystemTime;

use tinaja_http::reuse;

use super::request::Request;
use crate::stored::Facts;

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
