//! Fetching a body into the store, apart from the clients that read along; and when that is given up.
//!
//! A fetch is a task of its own, unless it is short and all of it has come, and its client reads along like any other. Slow or departing clients never block it: it goes
//! on for the store and for those who follow. What the store cannot keep is relayed to the clients that keep up, and the
//! others take up the rest at the origin (`read`).
//!
//! Once nobody follows any more, the fetch goes on only if it is nearly done. On a thin link, what nobody reads takes from
//! those who read. The store counts who follows, so that no reader is cut off. What has come by then is not lost (`beginning`), nor is what has
//! come when the process is stopped.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_ENCODING;
use tinaja_http::message::ResponseHead;
use tinaja_http::storable::Keep;
use tinaja_store::{Commit, Hit, Key, Writer};
use tracing::Instrument as _;

use super::ask::Asker;
use super::beginning::{has_pieces, keep_beginning};
use super::encode::{Encoder, Wanted};
use super::keep::{Keeper, announced};
use super::read::{Reader, Source};
use super::refresh::forget_at;
use super::reply::Reply;
use super::request::Request;
use crate::boxed::boxed;
use crate::crowd::Crowd;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::mirrors::{Checking, Proof};
use crate::origin::Connection;
use crate::shared::Shared;
use crate::storage::Storage;
use crate::stored::{Found, StoredHead};

/// Those who waited for the origin's head join within this time after it; until then nobody can be told to be the
/// last. On a link of 1 Mbit/s this lets 32 KiB pass that may be of use to nobody.
const JOINING: Duration = Duration::from_millis(250);

/// The shortest object whose rest is asked for if the origin breaks off, where its length is known. Of a shorter one, the next request gets all.
const TAKEN_UP_BYTES: u64 = 256 * 1024;

/// The longest answer that may be stored on the way to its client, where nothing makes it wait.
const SHORT_BYTES: u64 = 64 * 1024;

/// One fetch into the store.
pub(super) struct Fill {
    pub place: Key,
    pub writer: Writer,
    pub feed: Feed,
    /// The length that the origin announced.
    pub length: Option<u64>,
    /// Read from the origin already.
    pub first: Option<Bytes>,
    /// It is known what the bytes must be.
    pub checking: Option<Checking>,
    /// Asks for the rest, should the origin break off.
    pub again: Option<Box<Request>>,
    /// An object of up to so many bytes is fetched whether or not anybody reads along.
    pub unwatched_bytes: u64,
    /// What has come is kept, should this end early.
    pub leaves: bool,
    /// Bytes that the writer has taken.
    pub written: u64,
    /// What is to be made of it once it is stored.
    pub encode: Option<Box<Wanted>>,
}

/// Where the bytes come from.
pub(super) enum Feed {
    Origin(Box<Connection>),
    /// From pieces that are stored, and from the origin where some are missing, for this request.
    Pieces(Box<(Request, Source)>),
}

/// Why a fetch was given up.
#[derive(Debug, thiserror::Error)]
enum GivenUp {
    #[error("{0}")]
    Origin(Failure),
    #[error("its bytes are not those that its name or its index says")]
    Digest,
    #[error("nobody reads it any more, and the rest is not worth fetching")]
    NobodyReads,
    #[error("this process ends")]
    Leaving,
}

impl Fill {
    /// Writes a piece, or, where bytes are checked, the one before it.
    async fn write(&mut self, piece: Bytes, last: &mut Option<Bytes>) {
        let piece = match &mut self.checking {
            None => piece,
            Some(checking) => {
                checking.update(&piece);
                match last.replace(piece) {
                    Some(before) => before,
                    None => return,
                }
            }
        };
        self.written += piece.len() as u64;
        self.writer.write(piece).await;
    }

    /// What checks the bytes of an answer of which it is known which they must be.
    pub fn checking(request: &Request, head: &StoredHead) -> Option<Checking> {
        let mirror = request.ticket.mirror.as_ref()?;
        if is_plain(head) { mirror.check() } else { None }
    }

    /// The request by which the rest of such an answer could be asked for.
    pub fn again(request: &Request, head: &StoredHead, length: Option<u64>) -> Option<Box<Request>> {
        let long = length.is_none_or(|length| length >= TAKEN_UP_BYTES);
        (long && head.status() == StatusCode::OK).then(|| Box::new(request.clone()))
    }
}

/// Whether an answer's body is what digests are of: all of it, and not encoded.
pub(super) fn is_plain(head: &StoredHead) -> bool {
    let encoded = head.fields(|line| line.is(&CONTENT_ENCODING)).is_none_or(|fields| !fields.is_empty());
    head.status() == StatusCode::OK && !encoded
}

/// What fetches bodies into the store.
pub(super) struct Filler {
    pub shared: Arc<Shared>,
    pub store: Storage,
    pub asker: Arc<Asker>,
    pub keeper: Arc<Keeper>,
    pub reader: Arc<Reader>,
    pub encoder: Arc<Encoder>,
    /// Fetches that go on by themselves.
    pub apart: Crowd,
}

impl Filler {
    /// Whether the store takes an object of the announced length. What is larger passes through, rather than through a
    /// store that does not keep it.
    pub fn fits(&self, request: &Request, reply: &Reply) -> bool {
        announced(&reply.head.headers).is_none_or(|length| length <= self.most_bytes(request))
    }

    /// The largest object that is worth a place in the store.
    pub fn most_bytes(&self, request: &Request) -> u64 {
        let elsewhere = self.shared.neighbours.as_ref().filter(|_| !request.ticket.is_kept(&self.shared));
        elsewhere.map_or(u64::MAX, |neighbours| neighbours.shared_bytes).min(self.store.max_object_bytes())
    }

    /// Begins to store an answer; what a reader finds of it, the head as it came, and what is left to do. The reply comes
    /// back if it cannot be stored.
    pub async fn begin(
        &self,
        request: &Request,
        keep: &Keep,
        mut reply: Box<Reply>,
    ) -> Result<(Box<Found>, Box<ResponseHead>, Box<Fill>), Box<Reply>> {
        let bodiless = matches!(reply.head.status, StatusCode::NO_CONTENT);
        let length = if bodiless { Some(0) } else { announced(&reply.head.headers) };
        let Some((place, writer)) = self.keeper.begin(request, keep, &reply.received(), length).await else {
            return Err(reply);
        };
        let hit: Hit = writer.follow();
        let Some(head) = StoredHead::decode(&hit.head) else {
            return Err(reply);
        };
        // What has come with the head is there for the first reader at once. An error comes again.
        let first = tokio::select! {
            biased;
            piece = reply.connection.read() => piece.ok().flatten(),
            () = std::future::ready(()) => None,
        };
        let unwatched_bytes = self.shared.limits.fill_range_below;
        let Reply { head: came, connection, .. } = *reply;
        let feed = Feed::Origin(Box::new(connection));
        let again = Fill::again(request, &head, length);
        let checking = Fill::checking(request, &head);
        let (leaves, written) = (false, 0);
        let encode = self.encoder.wanted_of(request, &place, &head);
        let fill = Box::new(Fill {
            place: place.clone(),
            writer,
            feed,
            length,
            first,
            checking,
            again,
            unwatched_bytes,
            leaves,
            written,
            encode,
        });
        let put_back = self.shared.clock.put_back_so_far();
        Ok((Box::new(Found { place, head, hit, put_back }), Box::new(came), fill))
    }

    /// Fetches by itself, apart from the request that caused it. A short answer whose bytes are all there is stored when this returns: it
    /// needs no task. A long one would keep its client waiting.
    pub async fn fill_apart(self: &Arc<Self>, fill: Box<Fill>) {
        let is_short = fill.length.is_some_and(|length| length <= SHORT_BYTES);
        let filler = self.clone();
        // There is room for as many as there can be; whoever stops the proxy waits for them.
        let place = self.apart.enter();
        let mut filling = boxed(|| async move {
            filler.fill(fill).await;
            drop(place);
        });
        if !is_short || poll_fn(|cx| Poll::Ready(filling.as_mut().poll(cx))).await.is_pending() {
            self.shared.clock.start(filling.in_current_span());
        }
    }

    /// Fetches to the end, or until it is of no use. Of what is not whole the beginning may be kept, and those who follow fail. Whether
    /// all of it is stored.
    pub async fn fill(&self, mut fill: Box<Fill>) -> bool {
        match self.fetch_all(&mut fill).await {
            Ok(proof) => {
                // The next request need not wait for the disk.
                if let Feed::Origin(connection) = fill.feed {
                    self.asker.release(*connection);
                }
                match fill.writer.commit().await {
                    Commit::NotStored(why) => {
                        tracing::debug!("an object was not stored: {why}");
                        false
                    }
                    Commit::Stored { .. } => {
                        if let Some(proof) = proof {
                            proof.note_stored_at(fill.place.digest());
                        }
                        if let Some(wanted) = fill.encode {
                            self.encoder.begin(*wanted);
                        }
                        true
                    }
                }
            }
            Err(why @ GivenUp::Digest) => {
                tracing::warn!(
                    "a source sent something else than it was asked for, and nothing of it is stored: {why}"
                );
                self.shared.metrics.as_ref().inspect(|metrics| metrics.fetches.wrong.inc());
                // What there was of it may be what is wrong.
                drop(fill.writer);
                if has_pieces(&self.store, &fill.place).await {
                    forget_at(&self.store, &fill.place).await;
                }
                false
            }
            Err(why) => {
                tracing::debug!("a fetch was given up: {why}");
                // The origin need not wait for the disk to be told.
                drop(fill.feed);
                if fill.leaves {
                    let bytes = keep_beginning(&self.keeper, &fill.place, fill.writer, fill.written).await;
                    self.shared.count_beginning(bytes);
                }
                false
            }
        }
    }

    async fn fetch_all(&self, fill: &mut Fill) -> Result<Option<Proof>, GivenUp> {
        let clock = &self.shared.clock;
        let began = clock.now();
        let mut arrived = 0;
        // Of what is checked nobody gets the last piece before it is known to be right.
        let mut last = None;
        if let Some(first) = fill.first.take() {
            arrived = first.len() as u64;
            fill.write(first, &mut last).await;
        }
        // Counting readers takes a lock that is not worth taking for each piece.
        let mut due = began + JOINING;
        let mut look = pin!(clock.timer(JOINING));
        loop {
            let id = fill.writer.id();
            let goes_on = |arrived| {
                let wanted = fill.length.unwrap_or(arrived) <= fill.unwatched_bytes;
                let watched = wanted || self.store.followers(&fill.place, id) > 0;
                watched || nearly_done(&self.shared.limits, arrived, fill.length)
            };
            let piece = {
                let mut read = pin!(self.next_to_store(&mut fill.feed));
                loop {
                    // Time goes on as well where the next piece is always there already.
                    if clock.now() >= due {
                        if self.shared.is_leaving() {
                            return Err(GivenUp::Leaving);
                        }
                        if !goes_on(arrived) {
                            return Err(GivenUp::NobodyReads);
                        }
                        due = clock.now() + JOINING;
                        look.as_mut().reset(due);
                    }
                    // In this order: what is there at once needs no timer.
                    tokio::select! {
                        biased;
                        piece = &mut read => break piece,
                        () = &mut look => due = clock.now(),
                    }
                }
            };
            match piece {
                Ok(Some(piece)) => {
                    arrived += piece.len() as u64;
                    fill.write(piece, &mut last).await;
                }
                Ok(None) if fill.length.is_none_or(|length| length == arrived) => {
                    let proof = match fill.checking.take() {
                        Some(checking) => Some(checking.finish().ok_or(GivenUp::Digest)?),
                        None => None,
                    };
                    if let Some(last) = last {
                        fill.writer.write(last).await;
                    }
                    return Ok(proof);
                }
                Ok(None) => return Err(GivenUp::Origin(Failure::Origin("its answer ended early".into()))),
                Err(failure) => self.take_up(fill, arrived, failure)?,
            }
        }
    }

    async fn next_to_store(&self, feed: &mut Feed) -> Result<Option<Bytes>, Failure> {
        match feed {
            Feed::Origin(connection) => connection.read().await,
            Feed::Pieces(pieces) => {
                let (request, source) = &mut **pieces;
                self.reader.next(request, source).await
            }
        }
    }

    /// Goes on where an origin broke off, if that is worth it; the failure comes back if not. Whether the origin still
    /// has the same is seen when it is asked.
    fn take_up(&self, fill: &mut Fill, arrived: u64, failure: Failure) -> Result<(), GivenUp> {
        let head = StoredHead::decode(&fill.writer.follow().head);
        let (Some(request), Some(head)) = (fill.again.take(), head) else {
            return Err(GivenUp::Origin(failure));
        };
        tracing::debug!("an origin broke off at byte {arrived}, and is asked for the rest: {failure}");
        let mut rest = Source::rest(head, arrived, fill.length, failure.to_string());
        rest.is_checked = fill.checking.is_some();
        fill.feed = Feed::Pieces(Box::new((*request, rest)));
        Ok(())
    }
}

fn nearly_done(limits: &Limits, arrived: u64, length: Option<u64>) -> bool {
    let Some(length) = length else { return false };
    let left = length.saturating_sub(arrived);
    let percent = u128::from(limits.quick_abort_percent);
    left <= limits.quick_abort_bytes || u128::from(arrived) * 100 >= u128::from(length) * percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly() {
        let limits = Limits { quick_abort_bytes: 1000, quick_abort_percent: 90, ..Limits::default() };
        for (arrived, length, done) in [
            (0, 1000, true),
            (0, 1001, false),
            (99_000, 100_000, true),
            (89_999, 100_000, false),
            (90_000, 100_000, true),
            (u64::MAX / 2, u64::MAX, false),
            (u64::MAX, u64::MAX, true),
            (5, 0, true),
        ] {
            assert_eq!(nearly_done(&limits, arrived, Some(length)), done, "{arrived} of {length}");
        }
        assert!(!nearly_done(&limits, u64::MAX, None));
        let never = Limits { quick_abort_bytes: 0, quick_abort_percent: 101, ..limits };
        assert!(!nearly_done(&never, 99, Some(100)) && nearly_done(&never, 100, Some(100)));
    }
}
