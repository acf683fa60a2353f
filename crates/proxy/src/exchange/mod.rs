//! What happens between a judged request and its answer.
//!
//! - `mod`: which way a request goes: a stored answer, a fetch that others wait for, or past the cache
//! - `reuse`: may a stored answer be used? `plan`: what of it; `serve`: sending it; `resume`: when it cannot be read to
//!   its end
//! - `count`: what was asked, counted; `ask`: sending a request and reading the answer's head; `flights`: one asks, the others wait
//! - `fetch`: an answer that may be stored; `keep`: storing it; `fill`: its body; `refresh`: a stored answer that the
//!   origin says still holds; `change`: what an unsafe method makes invalid
//! - `parts`: an object of which pieces are stored; `piece`: storing one; `pieced`: reading them
//! - `pass`: everything that is not for the cache; `errand`: what the proxy fetches of its own accord
//! - `headers`: what a proxy adds and removes; `entry`: what logs and Cache-Status say; `pages`: its own answers
//!
//! The rules are `tinaja-http`'s; this room carries them out.
//!
//! # Decisions
//!
//! - A fetch is a task of its own, and its client reads along. Filled by the task that serves the client, the cache would
//!   get an object as slowly as its first client does.
//! - A miss that asks for a head or a range moves no more than that: one `curl -I` must not pull 2 GB over a thin link.
//! - A Range of `bytes=0-` counts as a request for the whole. It moves the same bytes, so they may as well be stored.
//! - The client's Range comes first, and a small object is fetched whole behind it (`errand`): its length is known only then,
//!   and the other parts usually follow.

mod ask;
mod change;
mod count;
mod entry;
mod errand;
mod fetch;
mod fill;
mod flights;
mod headers;
mod keep;
mod pages;
mod parts;
mod pass;
mod piece;
mod pieced;
mod plan;
mod refresh;
mod request;
mod resume;
mod reuse;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{IF_MATCH, IF_UNMODIFIED_SINCE, RANGE};
use tinaja_http::message::BadField;
use tinaja_http::reuse as rules;
use tinaja_http::status::Outcome;
use tinaja_logs::CacheResult;
use tracing::Instrument as _;

use entry::Entry;
pub(crate) use entry::record_of;
use errand::Errands;
use flights::{Flights, Grounded, Landed};
use plan::{Wants, wants};
pub(crate) use request::{Request, Ticket};
pub(crate) use reuse::{Reuse, judge};
pub(crate) use serve::READ_PIECE_BYTES;
use serve::{Given, Sent};

use crate::client::{Client, Left};
use crate::crowd::Crowd;
use crate::failure::Failure;
use crate::group::Groups;
use crate::metrics::Source;
use crate::origin::Origins;
use crate::shared::Shared;
use crate::storage::Storage;
use crate::storage::Switch;
use crate::stored::{Families, Found, Looked, find};

/// Fetches of other clients that one request waits for, one after the other.
const COLLAPSE_TRIES: usize = 4;
/// Connections to origins that are kept for later, for each worker.
const KEPT_CONNECTIONS: usize = 128;

/// What carries requests out; one for a proxy.
pub(crate) struct Exchange {
    pub shared: Arc<Shared>,
    pub store: Storage,
    /// The same, where it matters whether it is there.
    pub switch: Arc<Switch>,
    pub origins: Arc<Origins>,
    flights: Flights,
    families: Families,
    groups: Groups,
    errands: Errands,
    /// Fetches that go on by themselves.
    fills: Crowd,
}

/// Why a request has no answer, or only the beginning of one.
#[derive(Debug)]
enum Ended {
    /// The proxy says why.
    Failed(Failure),
    /// Nobody is there to be told.
    Left,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        match failure {
            Failure::ClientLeft => Ended::Left,
            failure => Ended::Failed(failure),
        }
    }
}

impl From<Left> for Ended {
    fn from(_: Left) -> Ended {
        Ended::Left
    }
}

impl From<BadField> for Ended {
    /// A field of ours that cannot stand in a head.
    fn from(error: BadField) -> Ended {
        Ended::Failed(Failure::Internal(error.to_string()))
    }
}

impl Exchange {
    pub fn new(shared: Arc<Shared>, switch: Arc<Switch>, workers: usize) -> Exchange {
        let store: Storage = switch.clone();
        let origins = Arc::new(Origins::new(KEPT_CONNECTIONS * workers, shared.limits, shared.clock.clone()));
        let (flights, families, groups) = (Flights::new(shared.clock.clone()), Families::default(), Groups::default());
        let errands = Errands::new();
        let fills = Crowd::new(usize::MAX);
        Exchange { shared, store, switch, origins, flights, families, groups, errands, fills }
    }

    /// Waits until the fetches that go on by themselves have ended, at most for `limit`. Whether they have.
    pub async fn finished(&self, limit: Duration) -> bool {
        self.fills.emptied(&self.shared.clock, limit).await
    }

    /// Answers one request, or cuts its client off, and writes the access log's line. `looked` is what was found on the
    /// way here, if somebody looked.
    pub async fn answer(self: &Arc<Self>, request: &Request, client: &mut Client, looked: Option<Looked>) {
        let mut entry = Entry { id: Some(request.ticket.id.clone()), ..Entry::default() };
        let span = tracing::error_span!("request", id = %request.ticket.id);
        let carried_out = self.carry_out(request, client, &mut entry, looked).instrument(span.clone()).await;
        if let Err(ended) = carried_out {
            client.close_after();
            if let Ended::Failed(failure) = ended {
                if failure.is_denial() {
                    entry.result = CacheResult::Denied;
                }
                if !client.has_begun() {
                    entry.source = Some(Source::Proxy);
                }
                self.give_up(request, client, &mut entry, &failure).instrument(span).await;
            }
        }
        self.shared.count(&entry.result, entry.source(), entry.status, client.sent_bytes(), request.ticket.began);
        if self.shared.log.is_on() {
            self.shared.log.write(entry.record(request, client.sent_bytes(), &self.shared.clock));
        }
    }

    async fn carry_out(
        self: &Arc<Self>,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        looked: Option<Looked>,
    ) -> Result<(), Ended> {
        if request.is_loop {
            return Err(Failure::Loop.into());
        }
        if let Some(outcome) = request.not_for_cache {
            entry.outcome = outcome;
            return if request.directives.only_if_cached && request.method().is_safe() {
                Err(Failure::NotCached.into())
            } else {
                self.pass(request, client, entry, None).await
            };
        }
        if self.switch.is_away() {
            return self.pass_by(request, client, entry).await;
        }
        self.from_cache(request, client, entry, looked).await
    }

    /// A request that may be answered from the cache.
    async fn from_cache(
        self: &Arc<Self>,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        mut looked: Option<Looked>,
    ) -> Result<(), Ended> {
        let name = &request.ticket.name;
        let (mut stale, mut looking) = (None, request.ticket.began);
        for attempt in 0..=COLLAPSE_TRIES {
            let found = match looked.take() {
                Some(looked) => looked,
                None => {
                    looking = self.shared.clock.now();
                    find(&self.store, name, &request.head.headers).await
                }
            };
            let mut place = name.place();
            (entry.outcome, stale) = match found {
                Looked::Nothing => (Outcome::UriMiss, None),
                Looked::OtherVariants(variant) => {
                    place = variant;
                    (Outcome::VaryMiss, None)
                }
                Looked::Found(found) => {
                    place = found.place.clone();
                    match self.use_found(request, client, entry, *found).await? {
                        None => return Ok(()),
                        Some(missed) => missed,
                    }
                }
            };
            if request.directives.only_if_cached {
                return Err(Failure::NotCached.into());
            }
            // A part of an object or its head alone is not worth a fetch of the whole that others wait for, and some
            // conditions are the origin's to judge.
            if wants_part(request) || asks_origin(request) {
                entry.collapsed = false;
                return match stale {
                    Some(found) if *request.method() == Method::GET => self.part(request, client, entry, found).await,
                    stale => self.pass(request, client, entry, stale).await,
                };
            }
            if attempt == COLLAPSE_TRIES {
                break;
            }
            match self.flights.board(&place, looking) {
                Ok(pilot) => return self.fetch(request, client, entry, stale, Some(pilot)).await,
                Err(Grounded::LookAgain) => entry.collapsed = true,
                Err(Grounded::Wait(passenger)) => {
                    match self.shared.waiting(passenger.wait(self.shared.limits.collapse)).await {
                        Landed::Stored => entry.collapsed = true,
                        Landed::NotShared => break,
                        Landed::Failed(failure) => return Err(failure.into()),
                    }
                }
            }
        }
        self.fetch(request, client, entry, stale, None).await
    }

    /// Answers with what is stored, if it will do. Otherwise says why not, and gives back what may be validated.
    async fn use_found(
        self: &Arc<Self>,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        found: Found,
    ) -> Result<Option<(Outcome, Option<Found>)>, Ended> {
        let now = self.shared.clock.wall();
        let verdict = judge(request, &found.head.facts, now);
        let outcome = if found.head.facts.state(now).ttl_seconds > 0 { Outcome::Request } else { Outcome::Stale };
        match verdict {
            // On the way to the origin the rules refuse the request with their reason, or find it at another address.
            Reuse::Denied => return Ok(Some((Outcome::Stale, None))),
            Reuse::By(rules::Reuse::NotCached) => return Err(Failure::NotCached.into()),
            Reuse::By(rules::Reuse::Validate) => return Ok(Some((outcome, Some(found)))),
            _ if !matches!(wants(request, &found, now), Wants::Here) => {
                return Ok(Some((Outcome::Partial, Some(found))));
            }
            Reuse::By(rules::Reuse::ServeAndValidate) => self.validate_later(request, &found),
            Reuse::By(rules::Reuse::Serve | rules::Reuse::ServeStale) => {}
        }
        // Of a fetch that this request waited for, its client hears that it had to be asked for.
        entry.outcome = if entry.collapsed { Outcome::Miss } else { Outcome::Hit };
        entry.result = if entry.collapsed { CacheResult::Collapsed } else { CacheResult::Hit };
        match self.serve(request, client, entry, found, Given::Stored).await? {
            Sent::Answered => Ok(None),
            Sent::NotHere => {
                entry.result = CacheResult::Miss;
                Ok(Some((Outcome::Miss, None)))
            }
        }
    }
}

/// Whether a request has conditions that only the origin can judge (RFC 9111 4.3.2).
fn asks_origin(request: &Request) -> bool {
    [IF_MATCH, IF_UNMODIFIED_SINCE].iter().any(|name| request.head.headers.contains_key(name))
}

/// Whether a request wants less than a whole object. `bytes=0-` does not: it moves the same bytes as no Range at all,
/// and players and download managers send it.
fn wants_part(request: &Request) -> bool {
    match (request.method(), request.head.headers.get(RANGE)) {
        (&Method::HEAD, _) => true,
        (_, None) => false,
        (_, Some(range)) => !range.as_bytes().eq_ignore_ascii_case(b"bytes=0-"),
    }
}
