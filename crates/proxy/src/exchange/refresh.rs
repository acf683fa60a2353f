//! A stored answer that its origin says still holds (RFC 9111 4.3.4), or no more.

use bytes::Bytes;
use http::HeaderMap;
use tinaja_http::age::initial_age;
use tinaja_http::message::BadField;
use tinaja_http::validate::update;
use tinaja_http::vary;
use tinaja_store::{Key, Updated};

use super::keep::{Received, facts, keep, unencoded};
use super::reply::Reply;
use super::request::Request;
use crate::bans::{Bans, Verdict};
use crate::storage::Storage;
use crate::stored::{Facts, Forms, Found, Kind, Name, StoredHead, verdict};

/// Updates a stored answer by a 304 or a HEAD's answer that is about it. The outcome is what is served now. It is
/// stored if it still may be, and forgotten if not: a 304 can bring `private`, a cookie, or a Vary by which it would have another
/// name.
///
/// That it still holds does not undo that it was taken back meanwhile: it keeps its stamp then, by which it is gone.
pub(super) async fn refresh(
    store: &Storage,
    bans: &Bans,
    request: &Request,
    mut found: Box<Found>,
    reply: &Reply,
) -> Result<Box<Found>, BadField> {
    let Some(mut header) = found.head.header() else { return Ok(found) };
    // As they were named when they were stored.
    let varying = |headers: &HeaderMap| match unencoded(&request.ticket, headers) {
        Some(unencoded) => vary::fields(&unencoded),
        None => vary::fields(headers),
    };
    let before = varying(header.headers.as_map());
    header.headers.edit(&update(&reply.head.headers, reply.answered))?;
    let has_its_name = match (before, varying(header.headers.as_map())) {
        (Some(before), Some(now)) => now.iter().all(|name| before.contains(name)),
        _ => false,
    };
    let stamp = match verdict(bans, &request.ticket.name, &found.place, &found.head) {
        Verdict::Gone(_) => found.head.facts.stamp,
        Verdict::Counts | Verdict::Stale(..) | Verdict::Unknown(_) => reply.stamp,
    };
    let received = Received { head: &header, stamp, ..reply.received() };
    // Tags only add up while it is validated: by the ones that it had it may have been purged a moment ago.
    let tags = &found.head.tags().with(&reply.tags);
    let variant = found.head.facts.variant.map(|variant| (found.head.facts.family, variant));
    let kept = keep(request, &received).ok().filter(|_| has_its_name);
    let new = kept.and_then(|keep| {
        let facts = facts(&keep, &received, variant, store.distrusted_before());
        let header = super::keep::header(&keep, &header);
        let Some(Forms { id, .. }) = Forms::of(&found.head) else { return found.head.again(&facts, tags, &header) };
        // Its bytes are the same, and so are its forms, if there may still be any.
        let forms = Forms { id, codings: keep.encodings }.bytes();
        let forms = if keep.encodings.is_empty() { &[][..] } else { &forms };
        StoredHead::encode_pieces(Kind::Whole, &facts, found.head.primary(), forms, tags, &header)
    });
    let Some(new) = new else {
        if let Err(error) = store.remove(&found.place).await {
            tracing::warn!("an answer that may no longer be stored was not removed: {error}");
        }
        // It is this client's all the same, with the fields of the answer, and as old as their Date says.
        let head = found.head.again(&of_one_client(&found.head.facts, &received), tags, &header);
        if let Some(head) = head.as_ref().and_then(StoredHead::decode) {
            found.head = head;
        }
        return Ok(found);
    };
    let is_there = replace_head(store, &found, new.clone()).await;
    let mut head = StoredHead::decode(&new).unwrap_or_else(|| found.head.clone());
    if !is_there {
        // It was replaced, forgotten or purged while its origin was asked, and no purge is known any more that it may have gone by. So it is no younger than it
        // was, for whoever stores it once more.
        head.facts.stamp = found.head.facts.stamp;
    }
    found.head = head;
    Ok(found)
}

/// The facts of what is stored, as of what is asked for now if no ban fits it: so it may be stored once more, with another head, when those are forgotten that it
/// was compared with.
pub(super) fn restamped(bans: &Bans, place: &Key, head: &StoredHead) -> Facts {
    // Before it is compared with them.
    let stamp = bans.now();
    match verdict(bans, &Name::from_primary(head.primary()), place, head) {
        Verdict::Counts if stamp.book() != 0 => Facts { stamp, ..head.facts },
        _ => head.facts,
    }
}

/// The facts of an answer that is given once: it is as old as what came, and nothing may be served from it again.
fn of_one_client(stored: &Facts, received: &Received<'_>) -> Facts {
    let age = initial_age(&received.head.headers, received.asked, received.answered);
    Facts {
        received: received.answered,
        fresh_until: received.answered,
        age_seconds: u32::try_from(age).unwrap_or(u32::MAX),
        stale_while_revalidate_seconds: 0,
        stale_if_error_seconds: 0,
        may_be_stale: false,
        fetched_from: Some(received.from),
        ..*stored
    }
}

/// Puts a new head in the place of the one that was found, and of no other: that would be another body's. Whether it stands there now.
async fn replace_head(store: &Storage, found: &Found, new: Bytes) -> bool {
    let old = found.hit.head.clone();
    let edit = move |present: &Bytes| (*present == old).then_some(new);
    match store.update_head(&found.place, Box::new(edit)).await {
        Ok(Updated::Done) => return true,
        Ok(Updated::Unchanged | Updated::Absent) => {}
        Ok(Updated::NotStored(why)) => tracing::debug!("a validated answer was not stored: {why}"),
        Err(error) => tracing::warn!("a validated answer was not stored: {error}"),
    }
    false
}

/// Marks a stored answer stale, so that it is validated before it is served again.
pub(super) async fn make_stale(store: &Storage, bans: &Bans, found: &Found) {
    let facts = restamped(bans, &found.place, &found.head);
    let facts = Facts { fresh_until: found.head.facts.received, may_be_stale: false, ..facts };
    let header = found.head.header();
    match header.and_then(|header| found.head.again(&facts, found.head.tags(), &header)) {
        Some(new) => _ = replace_head(store, found, new).await,
        None => {
            // Better forgotten than served for what it is no more; a store that cannot forget says so itself.
            let _ = store.remove(&found.place).await;
        }
    }
}

/// Forgets what is stored of an object that its origin has changed.
pub(super) async fn forget(store: &Storage, found: &Found) {
    forget_at(store, &found.place).await;
}

/// Forgets what is stored at a place, which its origin does not have, or no more.
pub(super) async fn forget_at(store: &Storage, place: &Key) {
    if let Err(error) = store.remove(place).await {
        tracing::warn!("an object that was changed at its origin was not removed: {error}");
    }
}
