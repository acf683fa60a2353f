//! Keeping the part of an object that a client gets, on its way to the client (RFC 9111 3.3).
//!
//! Nothing is fetched for it that the client did not ask for, and what has come when the client leaves is kept too.
//!
//! A part comes at its client's own pace, and only whole objects are fetched by a task of their own. Players ask for parts
//! without an end and leave: to read ahead of them would move what nobody wants.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_RANGE};
use http::{HeaderMap, Method, StatusCode};
use tinaja_clock::Clock;
use tinaja_http::message::ResponseHead;
use tinaja_http::partial::Version;
use tinaja_http::range::ContentRange;
use tinaja_store::{Commit, Hint, Key, State, Updated, Writer};
use tracing::Instrument as _;

use super::entry::media_type;
use super::keep::{Keeper, Received, announced, facts, header, hint, keep};
use super::plan::random;
use super::refresh::restamped;
use super::reply::Reply;
use super::request::Request;
use crate::bans::{Tags, Verdict};
use crate::crowd::Crowd;
use crate::stored::{Facts, Kind, Name, Piece, PieceList, StoredHead, verdict};

/// How long a client waits for the store, once; then its part is not kept. Usually this takes no time that could be
/// felt, and where the disk stalls no client is to wait for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A part that is being kept.
pub(super) struct Keeping {
    name: Name,
    place: Key,
    /// The list that it is to be in.
    list: [u8; 16],
    first: u64,
    id: [u8; 16],
    writer: Writer,
    written: u64,
    /// How many bytes the part has, as its head says.
    announced: u64,
    /// All that was given was taken.
    sound: bool,
    clock: Clock,
}

impl Keeping {
    /// Takes the next bytes. Where the store takes them too slowly, the part is given up.
    pub async fn write(&mut self, bytes: &Bytes) {
        if std::mem::take(&mut self.sound) {
            self.sound = self.clock.timeout(PATIENCE, self.writer.write(bytes.clone())).await.is_ok();
            self.written += bytes.len() as u64;
            self.sound &= self.written <= self.announced;
        }
    }
}

/// What a part is a part of.
struct Object {
    name: Name,
    place: Key,
    facts: Facts,
    tags: Tags,
    header: ResponseHead,
    length: u64,
    /// The header is all that a whole answer's would be. One that was asked for with If-Range may be less
    /// (RFC 9110 15.3.7).
    complete: bool,
}

/// What keeps parts of objects, and the lists that say which parts there are.
pub(super) struct Pieces {
    clock: Clock,
    keeper: Arc<Keeper>,
    /// Parts that are being ended by themselves.
    apart: Crowd,
}

impl Pieces {
    pub fn new(clock: Clock, keeper: Arc<Keeper>, apart: Crowd) -> Pieces {
        Pieces { clock, keeper, apart }
    }

    /// Begins to keep a part that has just been answered with; `None` where it is not to be kept.
    pub async fn begin(&self, request: &Request, reply: &Reply, if_range: bool) -> Option<Keeping> {
        let (part, length) = part_of(&reply.head, reply.answered)?;
        let (first, announced) = (*part.start(), part.end() - part.start() + 1);
        if *request.method() != Method::GET || request.directives.no_store || length > i64::MAX as u64 {
            return None;
        }
        // Whoever has the object on its disk keeps its pieces. Of a part alone nobody can tell whether it is what its name says.
        let is_checked = request.ticket.names_bytes() || request.ticket.learned().is_some();
        if !request.ticket.is_kept(&self.keeper.shared) || is_checked {
            return None;
        }
        let head = head_of_whole(&reply.head, length)?;
        let received = Received { head: &head, ..reply.received() };
        let keep = keep(request, &received).ok()?;
        self.clock
            .timeout(PATIENCE, async {
                let (place, variant) = self.keeper.place(request, &head.headers, reply.removals).await?;
                let object = Object {
                    name: request.ticket.name.clone(),
                    place,
                    facts: facts(&keep, &received, variant, self.keeper.store.distrusted_before()),
                    tags: reply.tags.clone(),
                    header: header(&keep, &head),
                    length,
                    complete: !if_range && !request.head.headers.contains_key(IF_RANGE),
                };
                let list = self.list_for(&object, reply.removals).await?;
                if self.keeper.shared.bans.was_removed(&object.name.place(), reply.removals) {
                    // The list may have come behind the removal, which then has to be made again.
                    let _ = self.keeper.store.remove(&object.place).await;
                    return None;
                }
                let id = random().to_le_bytes();
                let mark = Piece { first, last: first, id }.mark();
                let none = ResponseHead::new(StatusCode::PARTIAL_CONTENT);
                let Object { name, place, facts, tags, header, .. } = object;
                let head = StoredHead::encode_pieces(Kind::Piece, &facts, name.primary(), &mark, &tags, &none)?;
                let hint = hint(&facts, &header);
                let writer = name.put(&*self.keeper.store, &name.piece_place(&mark), head, hint);
                Some(Keeping {
                    name,
                    place,
                    list,
                    first,
                    id,
                    writer,
                    written: 0,
                    announced,
                    sound: true,
                    clock: self.clock.clone(),
                })
            })
            .await
            .ok()?
    }

    /// The list that pieces of an object are to be in: the one that there is, or a new one. What is stored already and
    /// is whole, or newer, stays. None is written for what was purged since there had been so many removals.
    async fn list_for(&self, object: &Object, removals: u64) -> Option<[u8; 16]> {
        let _turn = self.keeper.families.turn(&object.name).await?;
        if self.keeper.shared.bans.was_removed(&object.name.place(), removals) {
            return None;
        }
        let hit = self.keeper.store.find(&object.place).await;
        let whole = hit.as_ref().is_none_or(|hit| hit.state == State::Whole);
        let old = hit.map(|hit| hit.head);
        let before = old.as_ref().and_then(StoredHead::decode);
        let bans = &self.keeper.shared.bans;
        let counts = |head: &StoredHead| !matches!(verdict(bans, &object.name, &object.place, head), Verdict::Gone(_));
        let before = before.filter(|head| head.belongs_to(object.name.primary()) && counts(head));
        let newer = |head: &StoredHead| head.facts.received > object.facts.received;
        let list = match before {
            Some(head) if is_about(&head, object) => {
                let (list, _) = PieceList::of(&head)?;
                if !object.complete || newer(&head) {
                    return Some(list.id);
                }
                list
            }
            Some(head) if !whole || newer(&head) || has_same_bytes(&head, object) => return None,
            _ if !object.complete => return None,
            _ => PieceList::new(random().to_le_bytes()),
        };
        self.put_list(&object.name, &object.place, (&object.facts, &object.tags), &object.header, (&list, old)).await?;
        Some(list.id)
    }

    /// Puts a list in the place of what is there, `old`. One whose own body is the object's beginning keeps that.
    async fn put_list(
        &self,
        name: &Name,
        place: &Key,
        (facts, tags): (&Facts, &Tags),
        header: &ResponseHead,
        (list, old): (&PieceList, Option<Bytes>),
    ) -> Option<()> {
        let head = StoredHead::encode_pieces(Kind::Pieces, facts, name.primary(), &list.bytes(), tags, header)?;
        if list.begins_with() > 0 {
            let edit = move |present: &Bytes| (Some(present) == old.as_ref()).then_some(head);
            return match self.keeper.store.update_head(place, Box::new(edit)).await {
                Ok(Updated::Done) => Some(()),
                other => {
                    tracing::debug!("which parts there are of an object is not stored: {other:?}");
                    None
                }
            };
        }
        let hint = Hint { expected_bytes: Some(0), ..hint(facts, header) };
        let writer = name.put(&*self.keeper.store, place, head, hint);
        match writer.commit().await {
            Commit::Stored { .. } => Some(()),
            Commit::NotStored(why) => {
                tracing::debug!("which parts there are of an object is not stored: {why}");
                None
            }
        }
    }

    /// Ends a part: stores what has come of it. By itself, so that its client need not wait.
    pub fn end_apart(self: &Arc<Self>, keeping: Keeping) {
        let pieces = self.clone();
        let place = self.apart.enter();
        self.clock.start(
            async move {
                pieces.end(keeping).await;
                drop(place);
            }
            .in_current_span(),
        );
    }

    async fn end(&self, keeping: Keeping) -> Option<()> {
        let Keeping { name, place, list: id, first, writer, written, sound, .. } = keeping;
        let last = first.checked_add(written.checked_sub(1)?)?;
        if !sound {
            return None;
        }
        if let Commit::NotStored(why) = writer.commit().await {
            tracing::debug!("a part of an object was not stored: {why}");
            return None;
        }
        let piece = Piece { first, last, id: keeping.id };
        let _turn = self.keeper.families.turn(&name).await?;
        // Gone, if the object was purged or changed meanwhile: then nothing finds the piece, and it is evicted in time.
        let old = self.keeper.store.find(&place).await?.head;
        let head = StoredHead::decode(&old)?;
        let (mut list, _) = PieceList::of(&head).filter(|(list, _)| list.id == id)?;
        let gone = list.add(piece);
        let facts = restamped(&self.keeper.shared.bans, &place, &head);
        self.put_list(&name, &place, (&facts, head.tags()), &head.header()?, (&list, Some(old))).await?;
        for piece in gone.into_iter().filter(|piece| !list.is_beginning(piece)) {
            // What is not forgotten is never found again all the same.
            let _ = self.keeper.store.remove(&name.piece_place(&piece.mark())).await;
        }
        Some(())
    }
}

/// Whether a stored list is of an object's pieces.
fn is_about(head: &StoredHead, object: &Object) -> bool {
    let same_length = PieceList::of(head).is_some_and(|(_, length)| length == object.length);
    let same_variant = (head.facts.variant, head.facts.family) == (object.facts.variant, object.facts.family);
    same_length && same_variant && has_same_bytes(head, object)
}

/// Whether a stored answer is of the same version as an object.
fn has_same_bytes(head: &StoredHead, object: &Object) -> bool {
    let stored = head.fields(|_| true).unwrap_or_default();
    same_bytes(&stored, &object.header.headers, object.facts.received)
}

/// Whether two heads are of the same version of an object, beyond doubt.
pub(super) fn same_bytes(one: &HeaderMap, other: &HeaderMap, now: SystemTime) -> bool {
    let versions = Version::of(one, now).zip(Version::of(other, now));
    versions.is_some_and(|(one, other)| one == other)
}

/// The bytes of the one part in a 206, and the length of the whole, if it can be told which object it is of
/// (RFC 9111 3.3 and 3.4).
fn part_of(head: &ResponseHead, now: SystemTime) -> Option<(RangeInclusive<u64>, u64)> {
    let several = head.headers.get(CONTENT_TYPE).is_some_and(|value| media_type(value).starts_with("multipart/"));
    if head.status != StatusCode::PARTIAL_CONTENT || several || Version::of(&head.headers, now).is_none() {
        return None;
    }
    let mut lines = head.headers.get_all(CONTENT_RANGE).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let ContentRange::Part { bytes, whole: Some(whole) } = ContentRange::parse(line)? else { return None };
    let count = bytes.end() - bytes.start() + 1;
    announced(&head.headers).is_none_or(|length| length == count).then_some((bytes, whole))
}

/// The head of the whole that a part is of.
fn head_of_whole(part: &ResponseHead, length: u64) -> Option<ResponseHead> {
    let mut head = part.clone();
    head.headers.remove(&CONTENT_RANGE);
    head.status = StatusCode::OK;
    head.headers.insert(CONTENT_LENGTH, length).ok()?;
    Some(head)
}
