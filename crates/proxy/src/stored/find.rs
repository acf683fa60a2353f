//! Finding what is stored for a request.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use tinaja_clock::Clock;
use tinaja_store::{Body, FIND_DEADLINE, Hit, Key, Lookup, State};

use super::family::Family;
use super::head::{Kind, StoredHead};
use super::name::Name;
use super::old_head::is_unread;
use super::pieces::{Piece, PieceList};
use crate::bans::{Bans, Verdict};
use crate::storage::Storage;

/// A stored response, or one that is just being fetched.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where it stands in the store.
    pub place: Key,
    pub head: StoredHead,
    pub hit: Hit,
    /// By how much the clock had been put back in all when it was found.
    pub put_back: Duration,
}

impl Found {
    /// The length of the whole body, if it is known.
    pub fn length(&self) -> Option<u64> {
        match self.head.kind {
            Kind::Pieces => PieceList::of(&self.head).map(|(_, length)| length),
            _ => self.hit.body.len(),
        }
    }

    /// Makes it older by as much as the clock was put back since it was found. For whoever has waited meanwhile: what was stale must not
    /// become fresh by that.
    pub fn catch_up(&mut self, clock: &Clock) {
        let put_back = clock.put_back();
        let since = put_back.saturating_sub(self.put_back);
        if !since.is_zero() {
            self.head.facts = self.head.facts.older_by(since);
        }
        self.put_back = put_back;
    }
}

/// What is stored for a request.
#[derive(Debug)]
pub(crate) enum Looked {
    Found(Box<Found>),
    /// There are answers to the URL, but not to such a request; and where one would stand.
    OtherVariants(Key),
    /// One that was taken back, by a ban of this kind; and where it stands.
    Banned(Key, &'static str),
    /// Nothing.
    Nothing,
}

/// Looks for the answer to a request with these headers (RFC 9111 4.1). Reads the disk once or, where answers vary,
/// twice. What was taken back softly is found stale.
pub(crate) async fn find(store: &Storage, bans: &Bans, name: &Name, request: &HeaderMap) -> Looked {
    let place = name.place();
    let Some((head, hit)) = look(store, name, &place).await else {
        return Looked::Nothing;
    };
    if matches!(head.kind, Kind::Whole | Kind::Pieces) {
        // A variant is never stored under the URL itself; and what stands there is for nobody in particular.
        if name.added().is_some() {
            return Looked::Nothing;
        }
        return judged(store, bans, name, (place, head, hit));
    }
    let Some((family, variant)) =
        Family::of(&head).and_then(|family| Some((family.began, family.variant(name, request)?)))
    else {
        return Looked::Nothing;
    };
    let place = name.variant_place(&variant);
    match look(store, name, &place).await {
        Some((head, hit)) if head.facts.variant == Some(variant) && head.facts.family == family => {
            judged(store, bans, name, (place, head, hit))
        }
        _ => Looked::OtherVariants(place),
    }
}

/// What was found, unless it was taken back.
fn judged(store: &Storage, bans: &Bans, name: &Name, (place, head, hit): (Key, StoredHead, Hit)) -> Looked {
    let clock = store.clock();
    let now = clock.wall();
    let hidden = clock.put_back_since(head.facts.received);
    let mut found = Box::new(Found { place, head, hit, put_back: clock.put_back_so_far() });
    if !hidden.is_zero() {
        // What came before the cache may have missed a removal came then by the present time, too.
        found.head.facts = found.head.facts.older_by(hidden).trusted_from(store.distrusted_before());
    }
    match verdict(bans, name, &found.place, &found.head) {
        Verdict::Counts => {}
        // The clock may be behind that time, if it was put back. The purge is as long ago all the same: else the object would be stale since
        // now until the clock has caught up.
        Verdict::Stale(since, _) => {
            bans.count_found(false);
            let since = since.checked_sub(clock.put_back_since(since)).unwrap_or(SystemTime::UNIX_EPOCH);
            found.head.facts = found.head.facts.stale_since(since.min(now));
        }
        Verdict::Unknown(since) => {
            bans.count_found(false);
            found.head.facts = found.head.facts.distrusted_since(since.min(now));
        }
        Verdict::Gone(by) => {
            bans.count_found(true);
            return Looked::Banned(found.place, by);
        }
    }
    Looked::Found(found)
}

/// What bans say of a stored object.
pub(crate) fn verdict(bans: &Bans, name: &Name, place: &Key, head: &StoredHead) -> Verdict {
    bans.judge(place, head.facts.stamp, head.tags(), || name.subject())
}

/// The variants of a name, if its answers vary.
pub(crate) async fn family(store: &Storage, name: &Name) -> Option<Family> {
    let (head, _) = look(store, name, &name.place()).await?;
    Family::of(&head)
}

/// A piece of an object, if it is still there as it was listed. Whether it is stale its list says.
pub(crate) async fn find_piece(store: &Storage, bans: &Bans, name: &Name, piece: &Piece) -> Option<Body> {
    let place = name.piece_place(&piece.mark());
    let (head, hit) = look(store, name, &place).await?;
    let whole = hit.state == State::Whole && hit.body.len() == Some(piece.last - piece.first + 1);
    let counts = !matches!(verdict(bans, name, &place, &head), Verdict::Gone(_));
    (piece.is_of(&head) && whole && counts).then_some(hit.body)
}

/// The object at one place, if it is of that name. What cannot be read is removed, or nothing else could ever stand
/// there for a store that keeps the first.
pub(super) async fn look(store: &Storage, name: &Name, place: &Key) -> Option<(StoredHead, Hit)> {
    let hit = match store.lookup(place, store.clock().now() + FIND_DEADLINE) {
        Lookup::Absent => None,
        Lookup::Here(hit) => Some(hit),
        Lookup::Wait(pending) => pending.await,
    }?;
    let Some(mut head) = StoredHead::decode(&hit.head) else {
        if is_unread(&hit.head) {
            tracing::debug!("removing an object that an earlier version stored: {place:?}");
        } else {
            tracing::warn!("removing an object whose head cannot be read: {place:?}");
        }
        if let Err(error) = store.remove(place).await {
            tracing::warn!("an object whose head cannot be read was not removed: {error}");
        }
        return None;
    };
    head.facts = head.facts.trusted_from(store.distrusted_before());
    head.belongs_to(name.primary()).then_some((head, hit))
}
