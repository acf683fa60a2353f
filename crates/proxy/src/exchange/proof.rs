//! What is stored of a mirror, held to what an index says of it: while it is sent for the first time since the index said so.
//!
//! What is fetched is checked on its way into the store (`fill`). But it may have been stored before the index was known to this process, or
//! was fetched past the mirror, or its file was replaced at the source since. To hash it once, while it is read anyway, costs little; to
//! store the digest with it would not tell whether the index has changed. That it was right is remembered with the digest.

use bytes::Bytes;
use http::Method;
use tinaja_store::{Key, State};

use super::fill::is_plain;
use super::plan::Plan;
use super::request::Request;
use crate::mirrors::{Checking, Learned};
use crate::stored::{Found, PieceList};

/// A stored body that is hashed while it is sent. Its last piece is held back.
pub(super) struct Proving {
    checking: Checking,
    learned: Learned,
    place: Key,
    /// It stands there as one object.
    is_whole: bool,
    last: Bytes,
}

/// Whether the index says by now that a file is another than the one that was stored and checked. It is no answer then, stale or not.
pub(super) fn is_outdated(request: &Request, found: &Found) -> bool {
    let learned = request.ticket.learned();
    // What is just being fetched is checked where that is done.
    learned.is_some_and(Learned::is_outdated) && found.hit.state == State::Whole && is_plain(&found.head)
}

impl Proving {
    /// Begins, if all of what was found is sent, and it is not known yet whether it is right. What this request has `fetched` is checked
    /// elsewhere. Rare, so it is boxed: each answer would hold the room for it.
    pub fn of(request: &Request, found: &Found, plan: &Plan, fetched: bool) -> Option<Box<Proving>> {
        let learned = request.ticket.learned()?;
        let is_sent = !fetched && matches!(plan, Plan::Whole) && request.method() == Method::GET;
        // Pieces may be others the next time.
        let is_pieces = PieceList::of(&found.head).is_some();
        if !is_sent || !is_plain(&found.head) || !is_pieces && learned.is_proved(found.place.digest()) {
            return None;
        }
        let (checking, learned, place) = (learned.check(), learned.clone(), found.place.clone());
        let is_whole = !is_pieces && found.hit.state == State::Whole;
        Some(Box::new(Proving { checking, learned, place, is_whole, last: Bytes::new() }))
    }

    /// Takes the next piece, and gives the one before it.
    pub fn hold(&mut self, piece: Bytes) -> Bytes {
        if piece.is_empty() {
            return piece;
        }
        self.checking.update(&piece);
        std::mem::replace(&mut self.last, piece)
    }

    /// The last piece, if all was right; else where the wrong one stands, which is no answer from now on.
    pub fn end(self) -> Result<Bytes, Key> {
        match self.checking.finish() {
            Some(proof) => {
                if self.is_whole {
                    proof.note_stored_at(self.place.digest());
                }
                Ok(self.last)
            }
            None => {
                self.learned.disprove();
                Err(self.place)
            }
        }
    }
}
