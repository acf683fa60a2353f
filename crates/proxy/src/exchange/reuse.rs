//! Whether what was found will do.
//!
//! Every way to answer a hit asks here: the front, which answers plain hits by itself, and the exchange.

use std::time::SystemTime;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tinaja_http::control::RequestDirectives;
use tinaja_http::reuse;
use tinaja_store::{Lookup, Source, State};

use super::request::Request;
use crate::cache_rules::{CacheRule, Seen};
use crate::shared::Shared;
use crate::stored::{Found, StoredHead};

/// Whether a stored answer will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It will, or must be validated first.
    By(reuse::Reuse),
    /// It will not, and the origin is not asked for a better one.
    Withheld(reuse::Withheld),
    /// The listener's rules keep it from this client.
    Denied,
}

/// Judges a stored answer for one request: by the rules of the listener it came in at, then by what request and answer
/// say of caching (RFC 9111 4 and 5.2.1).
pub(crate) fn judge(request: &Request, stored: &StoredHead, now: SystemTime) -> Reuse {
    let ticket = &request.ticket;
    if !ticket.may_serve(request.method(), stored.facts.fetched_from) {
        return Reuse::Denied;
    }
    let (directives, state) = (heeded(request, stored), stored.facts.state(now));
    // A neighbour may be online: it gets nothing stale for its clients that it did not ask for.
    if ticket.is_offline() && !ticket.neighbour {
        return reuse::disconnected(&directives, &state).map_or_else(Reuse::Withheld, Reuse::By);
    }
    Reuse::By(reuse::reuse(&directives, &state))
}

/// What counts of what a request says of caching. Rules are read for those alone that want something validated, so that a plain hit
/// reads none.
pub(super) fn heeded(request: &Request, stored: &StoredHead) -> RequestDirectives {
    let directives = request.directives;
    if !(directives.revalidate && request.ticket.may_ignore_reload()) {
        return directives;
    }
    let ignored = rule_for(request, stored).is_some_and(|rule| rule.orders.ignores_reload);
    if ignored { reuse::without_reload(&directives) } else { directives }
}

/// The rule about storing that fits what is stored.
pub(crate) fn rule_for<'a>(request: &'a Request, stored: &StoredHead) -> Option<&'a CacheRule> {
    let ticket = &request.ticket;
    let fields = stored.fields(|line| line.is(&CONTENT_TYPE) || line.is(&CONTENT_LENGTH))?;
    let (host, path) = (ticket.host_name(), &ticket.path);
    ticket.cache_rule(Seen { host, path, status: stored.status(), response: &fields })
}

/// Whether what was found is a copy that this proxy kept while it was the object's home, which it is no longer: those that are may have a newer one, so they
/// are asked. What lies in the memory of all is told of newer versions, and is nobody's alone.
pub(crate) fn is_left_over(shared: &Shared, request: &Request, found: &Found) -> bool {
    let Some(neighbours) = &shared.neighbours else { return false };
    let ticket = &request.ticket;
    // Who may ask nobody, and a neighbour that takes this proxy for a home, get what there is.
    let asks_nobody = request.directives.only_if_cached || ticket.is_offline();
    if asks_nobody || ticket.neighbour || ticket.mirror.is_some() || found.hit.state != State::Whole {
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
