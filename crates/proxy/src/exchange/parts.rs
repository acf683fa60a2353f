//! Answering from an object of which pieces are stored: only what is missing is fetched (RFC 9111 3.4).
//!
//! The origin is asked for what is missing, if the object is still the one that the pieces are of (If-Range). One
//! request brings all from the first missing byte to the last, with what is stored between them.
//!
//! Bytes that came over a thin link are kept, whether or not they are all. Nothing is fetched that no client asked for, and
//! parts of two versions are never put together. The fetch that completes an object writes it anew as one: other clients read
//! along as with any fetch, and the next reader needs one read.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE};
use http::{HeaderMap, StatusCode};
use tinaja_http::message::{BadField, RequestHead};
use tinaja_http::partial::{Version, fits, left_out};
use tinaja_http::validate::{selected, validation};
use tinaja_logs::CacheResult;
use tinaja_store::{Key, Writer};

use super::ask::{Asker, With};
use super::fill::{Feed, Fill, Filler};
use super::flights::{Landed, Pilot, land_failed};
use super::give::{Giver, is_error};
use super::keep::{Keeper, Received, keep};
use super::pass::Passer;
use super::piece::Pieces;
use super::pieced::Gap;
use super::plan::{Wants, wants};
use super::read::Source;
use super::refresh::{forget, refresh};
use super::reply::Reply;
use super::request::Request;
use super::serve::Given;
use super::transaction::{Ended, Transaction};
use crate::boxed::boxed;
use crate::failure::Failure;
use crate::shared::Shared;
use crate::stored::{Found, StoredHead};

/// What answers from objects in pieces.
pub(super) struct Parts {
    pub shared: Arc<Shared>,
    pub asker: Arc<Asker>,
    pub keeper: Arc<Keeper>,
    pub pieces: Arc<Pieces>,
    pub filler: Arc<Filler>,
    pub passer: Arc<Passer>,
    pub giver: Arc<Giver>,
}

impl Parts {
    /// Answers a request for a part of an object of which something is stored that does not do: it is stale, or does not
    /// hold all of the part.
    pub async fn part(&self, transaction: &mut Transaction<'_>, found: Box<Found>) -> Result<(), Ended> {
        let request = transaction.request;
        let fields = &request.head.headers;
        let conditions = [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().any(|name| fields.contains_key(name));
        if conditions || request.asks_origin() {
            return self.passer.pass(transaction, Some(found)).await;
        }
        match wants(request, &found, self.shared.clock.wall()) {
            Wants::Here => self.validated_part(transaction, found).await,
            Wants::Missing(wanted, gap) if wanted != gap && !wants_whole(request, &found, &wanted) => {
                self.completed_part(transaction, found, gap).await
            }
            _ => self.passer.pass(transaction, Some(found)).await,
        }
    }

    /// All of the part is stored, and stale: the part is asked for in case it has changed.
    async fn validated_part(&self, transaction: &mut Transaction<'_>, mut found: Box<Found>) -> Result<(), Ended> {
        let Transaction { request, client, entry } = transaction;
        let mut head = request.head.clone();
        let stored = found.head.fields(|_| true).unwrap_or_default();
        let Some(edits) = validation(&head.headers, &stored) else {
            return self.passer.pass(transaction, Some(found)).await;
        };
        head.headers.edit(&edits)?;
        entry.result = CacheResult::Refetched;
        let asked = self.asker.ask(request, head, true, With::Client(client), entry).await;
        found.catch_up(&self.shared.clock);
        let reply = match asked {
            Ok(reply) => reply,
            Err(failure) => return self.giver.instead(transaction, Some(found), failure).await,
        };
        match reply.head.status {
            StatusCode::NOT_MODIFIED if !selected(&[&stored], &reply.head.headers).is_empty() => {
                let found = refresh(&self.keeper.store, &self.shared.bans, request, found, &reply).await?;
                self.asker.release(reply.connection);
                entry.result = CacheResult::Revalidated;
                self.giver.serve_or_pass(transaction, found, Given::Stored).await
            }
            // About something else: no answer.
            StatusCode::NOT_MODIFIED => self.passer.pass(transaction, None).await,
            status if is_error(status) && self.giver.may_help(request, &found) => {
                drop(reply.connection);
                let failure = Failure::Origin(format!("it answered {status}"));
                self.giver.instead(transaction, Some(found), failure).await
            }
            _ => self.passer.hand_on(transaction, reply, true).await,
        }
    }

    /// Some of the part is stored: the client gets that, and what is missing from the origin.
    async fn completed_part(
        &self,
        transaction: &mut Transaction<'_>,
        found: Box<Found>,
        gap: RangeInclusive<u64>,
    ) -> Result<(), Ended> {
        let Transaction { request, client, entry } = transaction;
        let stored = found.head.fields(|_| true).unwrap_or_default();
        let mut reply = self
            .asker
            .ask(request, missing(request, &stored, &gap, self.shared.clock.wall())?, true, With::Client(client), entry)
            .await?;
        if !brings(&mut reply, &stored, &found, &gap)? {
            return match reply.head.status {
                StatusCode::OK => {
                    // It has changed, or the origin gives no parts. The client may get all of it.
                    forget(&self.keeper.store, &found).await;
                    self.passer.hand_on(transaction, reply, true).await
                }
                // Whatever this says is no answer to what the client asked for.
                _ => self.passer.pass(transaction, None).await,
            };
        }
        let keeping = self.pieces.begin(request, &reply, true).await;
        let found = refresh(&self.keeper.store, &self.shared.bans, request, found, &reply).await?;
        entry.stored = keeping.is_some();
        let gap = Gap { span: gap, connection: reply.connection };
        self.giver.serve_or_pass(transaction, found, Given::Completed(Box::new(gap), keeping.map(Box::new))).await
    }

    /// Answers a request for the whole of an object of which some is stored. What is missing is fetched, and the whole
    /// stored in the place of its pieces. Others wait for it as for any fetch.
    pub async fn complete(
        &self,
        transaction: &mut Transaction<'_>,
        found: Box<Found>,
        gap: RangeInclusive<u64>,
        pilot: Option<Pilot>,
    ) -> Result<(), Ended> {
        let Transaction { request, client, entry } = transaction;
        let stored = found.head.fields(|_| true).unwrap_or_default();
        let asked = self
            .asker
            .ask(request, missing(request, &stored, &gap, self.shared.clock.wall())?, true, With::Client(client), entry)
            .await;
        let mut reply = match asked {
            Ok(reply) => reply,
            Err(failure) => {
                land_failed(pilot, &failure);
                return Err(failure.into());
            }
        };
        if !brings(&mut reply, &stored, &found, &gap)? {
            let reply = match reply.head.status {
                StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::RANGE_NOT_SATISFIABLE => {
                    forget(&self.keeper.store, &found).await;
                    boxed(|| self.asker.ask(request, request.whole(), true, With::Client(client), entry)).await?
                }
                _ => reply,
            };
            return self.giver.store_and_answer(transaction, reply, pilot).await;
        }
        let found = refresh(&self.keeper.store, &self.shared.bans, request, found, &reply).await?;
        let Some((place, writer)) = self.begin_whole(request, &found, &reply).await else {
            drop(pilot);
            let gap = Gap { span: gap, connection: reply.connection };
            return self.giver.serve_or_pass(transaction, found, Given::Completed(Box::new(gap), None)).await;
        };
        let (hit, length) = (writer.follow(), found.length());
        let head = StoredHead::decode(&hit.head).unwrap_or_else(|| found.head.clone());
        let gap = Gap { span: gap, connection: reply.connection };
        let mut source = Source::of(found, request.ticket.name.clone(), Some(gap));
        let checking = Fill::checking(request, &head);
        source.is_checked = checking.is_some();
        let encode = self.filler.encoder.wanted_of(request, &place, &head);
        let feed = Feed::Pieces(Box::new((request.clone(), source)));
        let unwatched_bytes = self.shared.limits.fill_range_below;
        self.filler
            .fill_apart(Box::new(Fill {
                place: place.clone(),
                writer,
                feed,
                length,
                first: None,
                checking,
                again: None,
                unwatched_bytes,
                leaves: !request.ticket.names_bytes(),
                written: 0,
                encode,
            }))
            .await;
        entry.stored = true;
        if let Some(pilot) = pilot {
            pilot.land(Landed::Stored);
        }
        let found = Box::new(Found { place, head, hit, put_back: self.shared.clock.put_back() });
        self.giver.serve_or_pass(transaction, found, Given::Filling).await
    }

    /// Begins to store the whole of an object of which there are pieces, with the head that these have now.
    async fn begin_whole(&self, request: &Request, found: &Found, reply: &Reply) -> Option<(Key, Writer)> {
        let header = found.head.header()?;
        // As old as its pieces, and called what they are: a part may come without fields of the whole (RFC 9110 15.3.7).
        let (stamp, tags) = (found.head.facts.stamp, found.head.tags());
        let received = Received { head: &header, stamp, tags, ..reply.received() };
        let length = found.length().filter(|length| *length <= self.keeper.store.max_object_bytes())?;
        let mut keep = keep(request, &received).ok()?;
        // Nothing says whose requests brought the pieces (BREACH).
        keep.of_one |= !keep.shared;
        self.keeper.begin(request, &keep, &received, Some(length)).await
    }
}

/// Whether a request with a Range gets the whole all the same, for its If-Range is not what is stored: perhaps it is
/// what the origin has.
fn wants_whole(request: &Request, found: &Found, wanted: &RangeInclusive<u64>) -> bool {
    let all = found.length().is_some_and(|length| *wanted == (0..=length.saturating_sub(1)));
    all && request.head.headers.contains_key(IF_RANGE)
}

/// A request for what is missing, if the rest is still the same.
fn missing(
    request: &Request,
    stored: &HeaderMap,
    gap: &RangeInclusive<u64>,
    now: SystemTime,
) -> Result<RequestHead, Ended> {
    let mut head = request.whole();
    head.headers.insert(RANGE, format!("bytes={}-{}", gap.start(), gap.end()))?;
    if let Some(version) = Version::of(stored, now) {
        head.headers.insert(IF_RANGE, version.validator().clone())?;
    }
    Ok(head)
}

/// Whether an answer brings exactly what is missing, of the same object (RFC 9111 3.4). What it was asked by and leaves out, it says
/// from then on.
fn brings(reply: &mut Reply, stored: &HeaderMap, found: &Found, gap: &RangeInclusive<u64>) -> Result<bool, BadField> {
    if reply.head.status != StatusCode::PARTIAL_CONTENT {
        return Ok(false);
    }
    if let Some(date) = left_out(stored, found.length(), &reply.head.headers, reply.answered) {
        reply.head.headers.insert(LAST_MODIFIED, date.clone())?;
    }
    let part = fits(stored, found.length(), &reply.head.headers, reply.answered);
    Ok(part.as_ref() == Some(gap))
}
