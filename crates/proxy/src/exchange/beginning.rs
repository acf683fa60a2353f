//! Keeping what has come of an object whose fetch ended early, so that the next request pays for the rest alone (RFC 9111
//! 3.3 and 3.4).
//!
//! The bytes are with the store already: they become the body of the object's list of pieces, as its first piece, and
//! are neither held nor written again. A client that asks and leaves can have no more kept than it let come, and of one
//! object no more than that.
//!
//! What may not be combined with a later answer is thrown away: without a strong validator or a known length nobody
//! could tell whether the rest is of the same.

use bytes::Bytes;
use http::StatusCode;
use tinaja_http::partial::Version;
use tinaja_store::{Commit, Writer};

use super::keep::{Keeper, announced};
use super::piece::same_bytes;
use super::plan::random;
use super::reply::Reply;
use crate::stored::{Kind, Name, Piece, PieceList, StoredHead};

/// The shortest beginning that is kept. As much is on its way when an origin is told to stop, so that asking for the rest
/// of less saves nothing.
const LEAST_BYTES: u64 = 64 * 1024;

/// The list that what comes of an answer is to be the beginning of: with the pieces that there are of the same object. `None` if it
/// is to leave nothing: what was found before may stand in while the origin fails, which a beginning cannot.
pub(super) fn list_of(before: Option<&StoredHead>, reply: &Reply) -> Option<PieceList> {
    let new = || PieceList::new(random().to_le_bytes());
    let Some(head) = before else { return Some(new()) };
    match PieceList::of(head) {
        None if head.facts.stale_if_error_seconds > 0 => None,
        Some((list, length)) => {
            let stored = head.fields(|_| true).unwrap_or_default();
            let same = same_bytes(&stored, &reply.head.headers, reply.answered)
                && announced(&reply.head.headers) == Some(length);
            Some(if same { list } else { new() })
        }
        None => Some(new()),
    }
}

/// Ends a write of which so many bytes have come, and keeps them if they may be of use. How many are kept.
pub(super) async fn keep_beginning(keeper: &Keeper, writer: Writer, list: PieceList, written: u64) -> u64 {
    let Some((name, list, head)) = begun(&writer, list, written) else { return 0 };
    let Some(_turn) = keeper.families.turn(&name).await else { return 0 };
    let (list, gone) = list;
    match writer.commit_beginning(head).await {
        Commit::Stored { .. } => {
            for piece in gone.iter().filter(|piece| !list.is_beginning(piece)) {
                // What is not forgotten is never found again all the same.
                let _ = keeper.store.remove(&name.piece_place(&piece.mark())).await;
            }
            written
        }
        Commit::NotStored(why) => {
            tracing::debug!("what had come of an object is not kept: {why}");
            0
        }
    }
}

/// What is begun: its name, its list with the pieces that are of no use any more, and its head.
type Begun = (Name, (PieceList, Vec<Piece>), Bytes);

/// The head of what has come, if that may be combined with what comes later.
fn begun(writer: &Writer, mut list: PieceList, written: u64) -> Option<Begun> {
    let head = StoredHead::decode(&writer.follow().head)?;
    let fields = head.fields(|_| true)?;
    let version = Version::of(&fields, head.facts.received);
    let is_short = announced(&fields).is_some_and(|length| written < length);
    let may = head.kind == Kind::Whole && head.status() == StatusCode::OK && version.is_some();
    if !may || !is_short || written < LEAST_BYTES || list.begins_with() >= written {
        return None;
    }
    let gone = list.begin(written);
    let (facts, header) = (&head.facts, head.header()?);
    let new = StoredHead::encode_pieces(Kind::Pieces, facts, head.primary(), &list.bytes(), head.tags(), &header)?;
    Some((Name::from_primary(head.primary()), (list, gone), new))
}
