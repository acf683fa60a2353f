//! The bytes of an answer that is being sent: from the store, and from the origin where the store has no more of them.
//!
//! A stored object can be evicted, or turn out damaged, while it is read; a fetch can break off, or, where the store
//! cannot keep what it brings, go on without readers that are too slow for it. The client has its head by then. Where
//! a strong validator says that the origin still has the same bytes, the rest of them is fetched by a Range, and the
//! client never knows; otherwise its connection is cut, so that it sees that its answer is not whole.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Buf, Bytes};
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE};
use http::{HeaderMap, StatusCode};
use tinaja_http::partial::{Version, left_out};
use tinaja_http::range::ContentRange;
use tinaja_store::{Body, Key, ReadError, State};

use super::ask::{Asker, With};
use super::entry::Entry;
use super::keep::announced;
use super::piece::Keeping;
use super::pieced::{Gap, Pieced};
use super::reply::Reply;
use super::request::Request;
use crate::boxed::boxed;
use crate::failure::Failure;
use crate::origin::Connection;
use crate::shared::Shared;
use crate::storage::Storage;
use crate::stored::{Found, Kind, Name, PieceList, StoredHead};

/// Times that the rest of one answer is fetched, each of which brings the client further: an origin that breaks off every answer is not
/// asked for ever.
const MOST_RESUMES: u32 = 8;

/// Why there is nothing more of an object, where nothing says it better.
const NO_MORE: &str = "there was no more of it";

/// Where the bytes of an answer come from.
pub(super) struct Source {
    head: StoredHead,
    state: State,
    from: From,
    /// Of the whole object, if it is known.
    length: Option<u64>,
    /// The next byte to send, and the one after the last.
    at: u64,
    end: u64,
    resumes: u32,
    /// Where the last of these began.
    resumed_at: Option<u64>,
    /// Where it stands in the store, to be forgotten if it cannot be read to its end: then it stands there whole.
    place: Option<Key>,
    /// What keeps the bytes that come from the origin.
    pub kept: Option<Keeping>,
    /// Whoever reads it checks all of it.
    pub is_checked: bool,
}

enum From {
    Store(Body),
    /// Pieces in the store, and the origin for those between.
    Pieces(Box<Pieced>),
    /// The origin, which may have to be read past bytes that were sent already.
    Origin {
        connection: Box<Connection>,
        skip: u64,
    },
    /// Nowhere any more, and why not.
    Lost(String),
    /// All of it has been sent, which nobody knew.
    Ended,
}

/// What an origin has of an object from a byte on.
pub(super) enum Remainder {
    /// A connection brings it, behind bytes that are to be skipped. The whole object is so long, where anything says so.
    Follows { connection: Box<Connection>, skip: u64, length: Option<u64> },
    /// The object ends there.
    Nothing,
}

impl Source {
    /// A stored object, or one that is being fetched. Where pieces of it are stored, `gap` may bring what is missing.
    pub fn of(found: Box<Found>, name: Name, gap: Option<Gap>) -> Source {
        let Found { place, head, hit, .. } = *found;
        let state = hit.state;
        let (from, length) = match PieceList::of(&head) {
            Some((list, length)) => (From::Pieces(Box::new(Pieced::new(name, (list, hit.body), gap))), Some(length)),
            None => (From::Store(hit.body), None),
        };
        let length = match &from {
            From::Store(body) => body.len(),
            _ => length,
        };
        let end = length.unwrap_or(u64::MAX);
        let is_whole = state == State::Whole && matches!(from, From::Store(_));
        let place = is_whole.then_some(place);
        Source {
            head,
            state,
            from,
            length,
            at: 0,
            end,
            resumes: 0,
            resumed_at: None,
            place,
            kept: None,
            is_checked: false,
        }
    }

    /// The rest of an object, from a byte on, that only the origin has: `why` the store has it no more.
    pub fn rest(head: StoredHead, at: u64, length: Option<u64>, why: String) -> Source {
        let (state, from, end) = (State::Filling, From::Lost(why), length.unwrap_or(u64::MAX));
        Source {
            head,
            state,
            from,
            length,
            at,
            end,
            resumes: 0,
            resumed_at: None,
            place: None,
            kept: None,
            is_checked: false,
        }
    }

    /// The rest of a stored object that could not be read from a byte on.
    pub fn broken(found: &Found, at: u64, length: Option<u64>, error: ReadError) -> Source {
        let place = is_damage(error).then(|| found.place.clone());
        Source { place, ..Source::rest(found.head.clone(), at, length, error.to_string()) }
    }

    /// Goes on with these bytes.
    pub fn seek(&mut self, part: &RangeInclusive<u64>) {
        (self.at, self.end) = (*part.start(), part.end().saturating_add(1));
        let sought = match &mut self.from {
            From::Store(body) => body.seek(self.at..self.end).is_ok(),
            From::Pieces(pieced) => {
                pieced.leave();
                true
            }
            _ => false,
        };
        if !sought {
            self.place = None;
            self.from = From::Lost(NO_MORE.to_owned());
        }
    }

    /// The stored body, and whether it is whole.
    pub fn body(&mut self) -> Option<(&mut Body, State)> {
        match &mut self.from {
            From::Store(body) => Some((body, self.state)),
            _ => None,
        }
    }

    /// Notes bytes that were read from [`Source::body`].
    pub fn has_read(&mut self, bytes: u64) {
        self.at += bytes;
    }

    /// The next byte to send, by what was read of it.
    pub fn sent(&self) -> u64 {
        self.at
    }

    /// Seconds of freshness that are left; negative once it is stale.
    pub fn ttl_seconds(&self, now: SystemTime) -> i64 {
        let whole = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        match self.head.facts.fresh_until.duration_since(now) {
            Ok(left) => whole(left),
            Err(past) => -whole(past.duration()),
        }
    }
}

/// What reads the bytes of answers.
pub(super) struct Reader {
    shared: Arc<Shared>,
    store: Storage,
    asker: Arc<Asker>,
}

impl Reader {
    pub fn new(shared: Arc<Shared>, store: Storage, asker: Arc<Asker>) -> Reader {
        Reader { shared, store, asker }
    }

    /// The next piece to send; `None` at the end. Dropped before it is ready, nothing is lost.
    pub async fn next(&self, request: &Request, source: &mut Source) -> Result<Option<Bytes>, Failure> {
        loop {
            let piece = match &mut source.from {
                From::Store(body) => body.next(self.shared.held.piece_bytes()).await.map_err(|error| {
                    source.place.take_if(|_| !is_damage(error));
                    error.to_string()
                }),
                From::Pieces(pieced) => {
                    let (stored, piece_bytes) = ((&self.store, &*self.shared.bans), self.shared.held.piece_bytes());
                    let piece = pieced.next(stored, piece_bytes, source.at..source.end, &mut source.kept).await;
                    if let Some(connection) = pieced.finished() {
                        self.asker.release(connection);
                    }
                    piece
                }
                From::Origin { .. } if source.at == source.end => Ok(None),
                From::Origin { connection, skip } => match connection.read().await {
                    Ok(Some(mut piece)) => {
                        let past = usize::try_from(*skip).unwrap_or(usize::MAX).min(piece.len());
                        piece.advance(past);
                        *skip -= past as u64;
                        if piece.is_empty() {
                            continue;
                        }
                        piece.truncate(usize::try_from(source.end - source.at).unwrap_or(usize::MAX));
                        Ok(Some(piece))
                    }
                    Ok(None) if source.end == u64::MAX && *skip == 0 => Ok(None),
                    Ok(None) => Err("the origin's answer ended early".to_owned()),
                    Err(failure) => Err(failure.to_string()),
                },
                From::Lost(why) => Err(std::mem::take(why)),
                From::Ended => Ok(None),
            };
            match piece {
                Ok(piece) => {
                    source.at += piece.as_ref().map_or(0, |piece| piece.len() as u64);
                    return Ok(piece);
                }
                Err(why) => {
                    tracing::debug!("an answer broke off at byte {}, and is taken up at its origin: {why}", source.at);
                    self.forget(&mut source.place).await;
                    source.from = From::Lost(why.clone());
                    // Rare, and held by each answer otherwise.
                    source.from = boxed(|| self.resume(request, source)).await.map_err(|failure| match failure {
                        Failure::ClientLeft => failure,
                        _ => Failure::BrokeOff { at: source.at, why, rest: failure.to_string() },
                    })?;
                }
            }
        }
    }

    /// Forgets an object that cannot be read to its end, or is not what it should be. Where the origin has another by now, each answer from it would break off as
    /// long as it is fresh.
    pub async fn forget(&self, place: &mut Option<Key>) {
        if let Some(damaged) = &*place {
            if let Err(error) = self.store.remove(damaged).await {
                tracing::warn!(%error, "an object that cannot be read could not be removed from the cache");
            }
            *place = None;
        }
    }

    /// Asks the origin for the rest of what is being sent.
    async fn resume(&self, request: &Request, source: &mut Source) -> Result<From, Failure> {
        let lost = |why: &str| Failure::Origin(format!("the rest of the object was lost, and {why}"));
        source.resumes += 1;
        let is_further = source.resumed_at.replace(source.at) != Some(source.at);
        // What is known of its bytes is checked to the end where it is stored, and nowhere else: the rest may be what made it fail.
        let is_known = request.ticket.names_bytes() || request.ticket.learned().is_some();
        let is_checked = is_known && !source.is_checked;
        // The origin has no bytes of a form that was made here.
        let is_encoded = source.head.kind == Kind::Form;
        let may =
            source.resumes <= MOST_RESUMES && is_further && !is_checked && !is_encoded && !self.shared.is_leaving();
        if !may {
            return Err(lost("it cannot be asked for"));
        }
        let stored = source.head.fields(|_| true).unwrap_or_default();
        Ok(match self.rest(request, &stored, source.at..source.end, source.length).await? {
            Remainder::Nothing => From::Ended,
            Remainder::Follows { connection, skip, length } => {
                source.length = length;
                source.end = source.end.min(length.unwrap_or(u64::MAX));
                From::Origin { connection, skip }
            }
        })
    }

    /// Asks for bytes of an object with these fields and of this length; up to [`u64::MAX`] where nobody knows how many there are.
    ///
    /// Errors: nothing tells whether there still is the same, or it is another by now.
    pub async fn rest(
        &self,
        request: &Request,
        stored: &HeaderMap,
        bytes: Range<u64>,
        length: Option<u64>,
    ) -> Result<Remainder, Failure> {
        let lost = |why: &str| Failure::Origin(format!("the rest of the object was lost, and {why}"));
        let now = self.shared.clock.wall();
        let Some(version) = Version::of(stored, now) else {
            return Err(lost("nothing tells whether the origin still has the same"));
        };
        let mut head = request.whole();
        let range = match bytes.end {
            u64::MAX => format!("bytes={}-", bytes.start),
            end => format!("bytes={}-{}", bytes.start, end.saturating_sub(1)),
        };
        let set =
            head.headers.insert(RANGE, range).and_then(|()| head.headers.insert(IF_RANGE, version.validator().clone()));
        set.map_err(|error| Failure::Internal(error.to_string()))?;
        let reply = self.asker.ask(request, head, true, With::Rest, &mut Entry::default()).await?;
        let another = || lost("the origin has another by now");
        if !is_same(&reply, stored, version, length, now) {
            return Err(another());
        }
        let (skip, length) = brings(&reply, &bytes, length).ok_or_else(another)?;
        if length == Some(bytes.start) {
            return Ok(Remainder::Nothing);
        }
        let connection = Box::new(reply.connection);
        if length.is_none() && connection.ends_with_answer() {
            return Err(lost("nobody could tell where it ends"));
        }
        Ok(Remainder::Follows { connection, skip, length })
    }
}

/// Whether the next answer from the same object would break off there too.
fn is_damage(error: ReadError) -> bool {
    matches!(error, ReadError::Corrupt | ReadError::Device)
}

/// Whether a reply is about the object with these fields, of this version and length, and in the same coding: the bytes of another count from
/// elsewhere, whatever the reply says of its version.
fn is_same(reply: &Reply, stored: &HeaderMap, version: Version<'_>, length: Option<u64>, now: SystemTime) -> bool {
    let new = &reply.head.headers;
    let is_part = reply.head.status == StatusCode::PARTIAL_CONTENT;
    let is_version = match version {
        Version::Tag(tag) => new.get(ETAG) == Some(tag),
        Version::Date(date) if !new.contains_key(ETAG) => {
            new.get(LAST_MODIFIED) == Some(date) || is_part && left_out(stored, length, new, now).is_some()
        }
        Version::Date(_) => false,
    };
    // A part need not say again what the whole had said. Where the whole length is known and the same, it is the same coding.
    let left_out = is_part && length.is_some() && !new.contains_key(CONTENT_ENCODING);
    is_version && (left_out || new.get(CONTENT_ENCODING) == stored.get(CONTENT_ENCODING))
}

/// How many bytes of a reply come before those that are wanted of an object of this length, and how long that is, where the reply says so
/// that did not; `None` if the reply does not have them all.
fn brings(reply: &Reply, wanted: &Range<u64>, length: Option<u64>) -> Option<(u64, Option<u64>)> {
    let new = &reply.head.headers;
    let range = || ContentRange::parse(new.get(CONTENT_RANGE)?);
    let (first, end, said) = match reply.head.status {
        StatusCode::PARTIAL_CONTENT => match range()? {
            ContentRange::Part { bytes, whole } => (*bytes.start(), bytes.end().saturating_add(1), whole),
            ContentRange::Unsatisfied(_) => return None,
        },
        StatusCode::OK => {
            let said = announced(new);
            (0, said.or(length).unwrap_or(u64::MAX), said)
        }
        // There is nothing from there on, for there it ends.
        StatusCode::RANGE_NOT_SATISFIABLE if range()? == ContentRange::Unsatisfied(wanted.start) => {
            (wanted.start, wanted.start, Some(wanted.start))
        }
        _ => return None,
    };
    if length.zip(said).is_some_and(|(length, said)| length != said) {
        return None;
    }
    let length = length.or(said);
    let all = end >= wanted.end.min(length.unwrap_or(u64::MAX));
    (all && end >= wanted.start).then(|| wanted.start.checked_sub(first)).flatten().map(|skip| (skip, length))
}
