//! Keeping what has come of an object whose fetch ended early, so that the next request pays for the rest alone (RFC 9111
//! 3.3 and 3.4).
//!
//! The bytes are with the store already: they become the body of the object's list of pieces, as its first piece, and
//! are neither held nor written again. A client that asks and leaves can have no more kept than it let come, and of one
//! object no more than that.
//!
//! What may not be combined with a later answer is thrown away: without a strong validator or a known length nobody
//! could tell whether the rest is of the same.
//!
//! A beginning never takes the place of a whole object, nor of what says which variants there are: these may serve somebody as they are,
//! stale or not, and anybody could undo them by asking anew and leaving. What stands there is looked at when the fetch has ended,
//! for the request may have looked elsewhere, or been allowed less. What is committed between that look and the beginning, the
//! store keeps.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tinaja_http::partial::Version;
use tinaja_store::{Commit, Key, Updated, Writer};

use super::keep::{Keeper, announced};
use super::piece::same_bytes;
use super::plan::random;
use crate::bans::Verdict;
use crate::storage::Storage;
use crate::stored::{Kind, Name, PieceList, StoredHead, verdict};

/// The shortest beginning that is kept. As much is on its way when an origin is told to stop, so that asking for the rest
/// of less saves nothing.
const LEAST_BYTES: u64 = 64 * 1024;

/// How long the disk may take to keep a beginning. Others wait meanwhile who store something under the same URL.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends a write to a place, of which so many bytes have come, and keeps them if they may be of use. How many are kept.
pub(super) async fn keep_beginning(keeper: &Keeper, place: &Key, mut writer: Writer, written: u64) -> u64 {
    // Those who follow go on at the origin, and need not wait for the disk.
    writer.break_off();
    let Some(beginning) = Beginning::of(&writer, written) else { return 0 };
    let kept = keeper.shared.clock.timeout(PATIENCE, beginning.keep(keeper, place, writer)).await;
    let why = match kept {
        Ok(Ok(())) => return written,
        Ok(Err(why)) => why,
        Err(_) => "the disk was too slow".to_owned(),
    };
    tracing::debug!("what had come of an object is not kept: {why}");
    0
}

/// Whether pieces stand at a place where nobody writes.
pub(super) async fn has_pieces(store: &Storage, place: &Key) -> bool {
    let head = standing(store, place).await.ok().flatten();
    head.as_ref().and_then(StoredHead::decode).is_some_and(|head| head.kind == Kind::Pieces)
}

/// What has come of an object and may be combined with what comes later.
struct Beginning {
    name: Name,
    /// As it would be of the whole.
    head: StoredHead,
    fields: HeaderMap,
    length: u64,
    written: u64,
}

impl Beginning {
    fn of(writer: &Writer, written: u64) -> Option<Beginning> {
        let head = StoredHead::decode(&writer.follow().head)?;
        let fields = head.fields(|_| true)?;
        let length = announced(&fields).filter(|length| written < *length)?;
        let is_told_apart = Version::of(&fields, head.facts.received).is_some();
        let may = head.kind == Kind::Whole && head.status() == StatusCode::OK && is_told_apart;
        let name = Name::from_primary(head.primary());
        (may && written >= LEAST_BYTES).then_some(Beginning { name, head, fields, length, written })
    }

    async fn keep(self, keeper: &Keeper, place: &Key, writer: Writer) -> Result<(), String> {
        let _turn = keeper.families.turn(&self.name).await;
        let present = standing(&keeper.store, place).await?;
        let list = self.list_over(present.as_ref(), |head| {
            matches!(verdict(&keeper.shared.bans, &self.name, place, head), Verdict::Gone(_))
        });
        let mut list = list.ok_or("what is stored already is worth more")?;
        let gone = list.begin(self.written);
        let head = self.head_with(&list).ok_or("its head is too large")?;
        if let Commit::NotStored(why) = writer.commit_beginning(head).await {
            return Err(why.to_string());
        }
        for piece in gone.iter().filter(|piece| !list.is_beginning(piece)) {
            // What is not forgotten is never found again all the same.
            let _ = keeper.store.remove(&self.name.piece_place(&piece.mark())).await;
        }
        Ok(())
    }

    /// The list that it is to be in, where this head stands: the one that there is, if that is of the same object. `None` if what
    /// stands there is to stay.
    fn list_over(&self, present: Option<&Bytes>, is_gone: impl Fn(&StoredHead) -> bool) -> Option<PieceList> {
        let present = present.and_then(StoredHead::decode).filter(|head| head.belongs_to(self.head.primary()));
        match present {
            Some(head) if head.kind == Kind::Family => None,
            Some(head) if !is_gone(&head) => match PieceList::of(&head) {
                Some((list, length)) if self.is_of(&head, length) => Some(list).filter(|list| self.is_longer(list)),
                _ if head.kind == Kind::Pieces => Some(new_list()),
                _ => None,
            },
            _ => Some(new_list()),
        }
    }

    /// Whether it is of the same version of the same object as pieces with this head.
    fn is_of(&self, head: &StoredHead, length: u64) -> bool {
        let variant = |head: &StoredHead| (head.facts.variant, head.facts.family);
        let fields = head.fields(|_| true).unwrap_or_default();
        length == self.length
            && variant(head) == variant(&self.head)
            && same_bytes(&fields, &self.fields, self.head.facts.received)
    }

    fn is_longer(&self, list: &PieceList) -> bool {
        list.begins_with() < self.written
    }

    fn head_with(&self, list: &PieceList) -> Option<Bytes> {
        let (facts, header) = (&self.head.facts, self.head.header()?);
        let (name, tags) = (self.head.primary(), self.head.tags());
        StoredHead::encode_pieces(Kind::Pieces, facts, name, &list.bytes(), tags, &header)
    }
}

fn new_list() -> PieceList {
    PieceList::new(random().to_le_bytes())
}

/// The head of what is stored at a place, below whatever is being written there.
async fn standing(store: &Storage, place: &Key) -> Result<Option<Bytes>, String> {
    let seen = Arc::new(Mutex::new(None));
    let to = seen.clone();
    let look = move |present: &Bytes| {
        *to.lock() = Some(present.clone());
        None
    };
    match store.update_head(place, Box::new(look)).await {
        Ok(Updated::Absent) => Ok(None),
        Ok(_) => Ok(seen.lock().take()),
        Err(error) => Err(error.to_string()),
    }
}
