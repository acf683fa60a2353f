//! What an origin's answer to a request past the cache changes in the cache (RFC 9111 4.4 and 4.3.5).

use http::{Method, StatusCode};
use tinaja_http::authority::Authority;
use tinaja_http::invalidate::{Url, invalidated};
use tinaja_http::message::BadField;
use tinaja_http::validate::{HeadEffect, head_effect};

use super::refresh::{make_stale, refresh};
use super::reply::Reply;
use super::request::Request;
use crate::bans::Bans;
use crate::shared::Shared;
use crate::storage::Storage;
use crate::stored::Found;

/// Forgets what is stored under the URLs that a request has just changed, and what their origin was asked for before: it may have
/// answered that before the change, though it comes later. The request goes on whatever becomes of it; a store that cannot forget
/// says so in the program's log.
pub(super) async fn invalidate(shared: &Shared, store: &Storage, request: &Request, reply: &Reply) {
    let ticket = &request.ticket;
    // Whoever is at the address that a client chose changes nothing of the host that it names, nor of the address's own.
    if ticket.is_unproved() {
        return;
    }
    let Ok(authority) = Authority::parse(ticket.host.as_bytes()) else { return };
    // What a reverse proxy's clients see, unless something before it has ended their TLS.
    let tls = if ticket.is_reverse() { ticket.tls } else { ticket.destination.tls };
    let url = Url { tls, authority: &authority, path: &ticket.path };
    for path in invalidated(request.method(), reply.head.status, url, &reply.head.headers) {
        for name in ticket.name_at(&path).into_iter().chain(ticket.own_name_at(&path)) {
            // As a purge: who changes a list has read it before.
            let _turn = shared.families.turn(&name).await;
            shared.bans.note_removal(&name.place());
            if let Err(error) = store.remove(&name.place()).await {
                tracing::warn!(%error, "an object that was changed at its origin could not be removed from the cache");
            }
        }
    }
}

/// Updates or makes stale what is stored, by the answer to a HEAD.
pub(super) async fn note_head(
    store: &Storage,
    bans: &Bans,
    request: &Request,
    found: Box<Found>,
    reply: &Reply,
) -> Result<(), BadField> {
    if request.method() != Method::HEAD || reply.head.status != StatusCode::OK {
        return Ok(());
    }
    let (Some(stored), Some(length)) = (found.head.fields(|_| true), found.length()) else {
        return Ok(());
    };
    match head_effect(&reply.head.headers, &stored, length) {
        HeadEffect::Update => drop(refresh(store, bans, request, found, reply).await?),
        HeadEffect::Stale => make_stale(store, bans, &found).await,
        HeadEffect::Nothing => {}
    }
    Ok(())
}
