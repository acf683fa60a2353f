//! Whether what was found will do.
//!
//! Every way to answer a hit asks here: the front, which answers plain hits by itself, and the exchange.

use std::time::SystemTime;

use tinaja_http::reuse;
use tinaja_store::{Lookup, Source, State};

use super::request::Request;
use crate::shared::Shared;
use crate::stored::{Facts, Found};

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
    if !ticket.listener.may_serve(ticket.asked(request.method()), stored.fetched_from, &ticket.own) {
        return Reuse::Denied;
    }
    Reuse::By(reuse::reuse(&request.directives, &stored.state(now)))
}

/// Whether what was found is a copy that this proxy kept while it was the object's home, which it is no longer: those that are may have a newer one, so they
/// are asked. What lies in the memory of all is told of newer versions, and is nobody's alone.
pub(crate) fn is_left_over(shared: &Shared, request: &Request, found: &Found) -> bool {
    let Some(neighbours) = &shared.neighbours else { return false };
    let ticket = &request.ticket;
    // Who may ask nobody, and a neighbour that takes this proxy for a home, get what there is.
    if request.directives.only_if_cached || ticket.neighbour || found.hit.state != State::Whole {
        return false;
    }
    let is_own = || match found.hit.source {
        Source::Disk => true,
        // The store's own memory answers at once; that of all does not.
        Source::Memory => (neighbours.disk)()
            .is_some_and(|disk| matches!(disk.lookup(&found.place, shared.clock.now()), Lookup::Here(_))),
        Source::Fill | Source::Peer => false,
    };
    !(neighbours.way)(&ticket.name.place()).keeps && is_own()
}
