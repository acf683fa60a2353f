//! What happens between a judged request and its answer.
//!
//! Each file is a value that does one thing, or what such values share. Each uses only files below it; ARCHITECTURE.md lists
//! them from top to bottom. A request travels through them with its client as one `Transaction`.
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
mod asked_at;
mod beginning;
mod change;
mod encode;
mod entry;
mod errand;
mod fetch;
mod fill;
mod find;
mod flights;
mod give;
mod headers;
mod keep;
mod mirrored;
mod neighbour;
mod pages;
mod parts;
mod pass;
mod piece;
mod pieced;
mod plan;
mod proof;
mod read;
mod refresh;
mod reply;
mod request;
mod reuse;
mod said;
mod serve;
mod transaction;
mod validate;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tinaja_http::encoding::Coding;
use tinaja_http::message::ResponseHead;
use tinaja_http::status::Outcome;
use tinaja_logs::CacheResult;
use tinaja_store::ReadError;
use tracing::Instrument as _;

use ask::Asker;
pub(crate) use encode::BegunForm;
use encode::Encoder;
use entry::Entry;
pub(crate) use entry::record_of;
use errand::Errands;
use fetch::Fetcher;
use fill::Filler;
use find::Finder;
use flights::Flights;
use give::Giver;
pub(crate) use headers::{from_origin, switched};
use keep::Keeper;
use mirrored::Steps;
use pages::give_up;
use parts::Parts;
use pass::Passer;
use piece::Pieces;
use read::Reader;
pub(crate) use request::{AskedFor, Request, Ticket};
pub(crate) use reuse::{Reuse, is_left_over, judge, rule_for};
use serve::Sender;
use transaction::{Ended, Transaction};

use crate::boxed::boxed;
use crate::client::Client;
use crate::crowd::Crowd;
use crate::failure::Failure;
use crate::forgetting::only_what_may_come;
use crate::metrics::Source;
use crate::mirrors::At;
use crate::neighbours::Neighbours;
use crate::origin::{Connection, Origins};
use crate::shared::Shared;
use crate::storage::{Storage, Switch};
use crate::stored::{Found, Looked};

/// Connections to origins that are kept for later, for each worker.
const KEPT_CONNECTIONS: usize = 128;

/// How long fetches may take to end, at the end of the process.
const LEAVING: Duration = Duration::from_secs(6);

/// What is left of a stored answer that was lost while it was sent.
pub(crate) struct Rest(read::Source);

/// What an origin has switched to another protocol than HTTP.
pub(crate) struct Switched {
    /// Its 101, as the client gets it.
    pub head: ResponseHead,
    pub connection: Connection,
    /// For [`Exchange::note_switched`].
    pub noted: Noted,
}

/// What is noted of a request that is not over.
pub(crate) struct Noted(Entry);

/// What carries requests out; one for a proxy.
pub(crate) struct Exchange {
    pub shared: Arc<Shared>,
    pub store: Storage,
    /// The same, where it matters whether it is there.
    pub switch: Arc<Switch>,
    pub origins: Arc<Origins>,
    finder: Finder,
    encoder: Arc<Encoder>,
    passer: Arc<Passer>,
    reader: Arc<Reader>,
    /// Fetches that go on by themselves.
    apart: Crowd,
}

impl Exchange {
    pub fn new(shared: Arc<Shared>, switch: Arc<Switch>, workers: usize) -> Exchange {
        let (store, clock) = (only_what_may_come(switch.clone(), shared.bans.clone()), shared.clock.clone());
        let origins = Arc::new(Origins::new(KEPT_CONNECTIONS * workers, shared.limits, clock.clone()));
        let (flights, apart) = (Flights::new(clock.clone()), Crowd::new(usize::MAX));
        let asker = Arc::new(Asker::new(shared.clone(), origins.clone()));
        let encoder = Arc::new(Encoder::new(shared.clone(), store.clone(), workers));
        let keeper = Arc::new(Keeper::new(shared.clone(), store.clone()));
        let pieces = Arc::new(Pieces::new(clock.clone(), keeper.clone(), apart.clone()));
        let reader = Arc::new(Reader::new(shared.clone(), store.clone(), asker.clone()));
        let filler = Arc::new(Filler {
            shared: shared.clone(),
            store: store.clone(),
            asker: asker.clone(),
            keeper: keeper.clone(),
            reader: reader.clone(),
            encoder: encoder.clone(),
            apart: apart.clone(),
        });
        let errands = Arc::new(Errands::new(filler.clone(), flights.clone()));
        let sender = Arc::new(Sender {
            shared: shared.clone(),
            reader: reader.clone(),
            pieces: pieces.clone(),
            encoder: encoder.clone(),
        });
        let passer = Arc::new(Passer {
            shared: shared.clone(),
            store: store.clone(),
            switch: switch.clone(),
            asker: asker.clone(),
            reader: reader.clone(),
            pieces: pieces.clone(),
            errands: errands.clone(),
        });
        let giver = Arc::new(Giver {
            shared: shared.clone(),
            filler: filler.clone(),
            sender: sender.clone(),
            passer: passer.clone(),
        });
        let parts = Arc::new(Parts {
            shared: shared.clone(),
            asker: asker.clone(),
            keeper,
            pieces,
            filler,
            passer: passer.clone(),
            giver: giver.clone(),
        });
        let fetcher = Fetcher { shared: shared.clone(), asker, store: store.clone(), giver, parts: parts.clone() };
        let finder = Finder {
            shared: shared.clone(),
            store: store.clone(),
            switch: switch.clone(),
            flights,
            errands,
            sender,
            passer: passer.clone(),
            parts,
            fetcher,
        };
        Exchange { shared, store, switch, origins, finder, encoder, passer, reader, apart }
    }

    /// Waits until the fetches that go on by themselves have ended, at most for `limit`. Whether they have.
    pub async fn finished(&self, limit: Duration) -> bool {
        self.apart.emptied(&self.shared.clock, limit).await
    }

    /// Ends the fetches that still go on, and keeps what has come of them for whoever asks next. They look every quarter of a second, and
    /// the disk has its time.
    pub async fn leave(&self) {
        self.shared.leaving.store(true, Ordering::Relaxed);
        self.finished(LEAVING).await;
    }

    /// Answers one request, or cuts its client off, and writes the access log's line. `looked` is what was found on the
    /// way here, if somebody looked.
    pub async fn answer(&self, request: &Request, client: &mut Client, looked: Option<Looked>) {
        let (id, for_neighbour) = (Some(request.ticket.id.clone()), request.ticket.neighbour);
        let (offline, unproved) = (request.ticket.is_offline(), request.ticket.is_unproved());
        let mut entry = Entry { id, for_neighbour, offline, unproved, ..Entry::default() };
        if for_neighbour {
            // Whoever waits for a slow origin with its neighbour must know it from one that is dead.
            let _ = client.interim(&ResponseHead::new(StatusCode::PROCESSING)).await;
        }
        let span = tracing::error_span!("request", id = %request.ticket.id);
        if request.told_of.is_some() {
            return boxed(|| self.told(request, client)).instrument(span).await;
        }
        let mut transaction = Transaction { request, client, entry: &mut entry };
        // Pinned where they are: `instrument` would move them, and what a fetch needs takes thousands of bytes.
        let carried_out = match &request.ticket.mirror {
            Some(at) => boxed(|| self.mirrored(&mut transaction, at)).instrument(span.clone()).await,
            None => pin!(self.carry_out(&mut transaction, looked)).instrument(span.clone()).await,
        };
        if let Err(ended) = carried_out {
            boxed(|| self.give_up(transaction, ended)).instrument(span).await;
        }
        self.note(request, entry, client.sent_bytes());
    }

    /// Asks for a request that would leave HTTP for one of these protocols, past the cache. What the origin has switched to, if it has; else the client has
    /// its answer, and the access log its line.
    pub async fn switch(&self, request: &Request, client: &mut Client, protocols: &str) -> Option<Switched> {
        let id = Some(request.ticket.id.clone());
        let (offline, unproved) = (request.ticket.is_offline(), request.ticket.is_unproved());
        let mut entry = Entry { id, offline, unproved, outcome: Outcome::Bypass, ..Entry::default() };
        let span = tracing::error_span!("request", id = %request.ticket.id);
        let mut transaction = Transaction { request, client, entry: &mut entry };
        match self.passer.switch(&mut transaction, protocols).instrument(span.clone()).await {
            Ok(Some((head, connection))) => return Some(Switched { head, connection, noted: Noted(entry) }),
            Ok(None) => {}
            Err(ended) => boxed(|| self.give_up(transaction, ended)).instrument(span).await,
        }
        self.note(request, entry, client.sent_bytes());
        None
    }

    /// Counts and logs a request that has left HTTP, once all is over, and why it ended where that is worth a word. Its client got so
    /// many bytes.
    pub fn note_switched(&self, request: &Request, Noted(mut entry): Noted, bytes: u64, why: Option<String>) {
        (entry.result, entry.source, entry.why) = (CacheResult::Tunnel, Some(Source::Tunnel), why);
        self.note(request, entry, bytes);
    }

    /// Says why a request got no answer, or not all of it.
    async fn give_up(&self, transaction: Transaction<'_>, ended: Ended) {
        transaction.client.close_after();
        if let Ended::Failed(failure) = ended {
            if failure.is_denial() {
                transaction.entry.result = CacheResult::Denied;
            }
            if transaction.client.has_begun() {
                self.shared.metrics.as_ref().inspect(|metrics| metrics.broken_answers.inc());
            } else {
                transaction.entry.source = Some(Source::Proxy);
            }
            give_up(&self.shared, transaction, &failure).await;
        }
    }

    /// Counts a request that is over, and writes the access log's line.
    fn note(&self, request: &Request, entry: Entry, bytes: u64) {
        self.shared.count(&entry.result, entry.source(), entry.status, bytes, request.ticket.began);
        if self.shared.log.is_on() {
            self.shared.log.write(entry.record(request, bytes, &self.shared.clock));
        }
    }

    /// What was found as this client is to get it, which may be encoded: then with what has been read of the form.
    pub async fn form_of(&self, request: &Request, found: Box<Found>) -> (Box<Found>, Option<BegunForm>) {
        self.encoder.form_of(request, found).await
    }

    /// Counts a form that a client got.
    pub fn count_form(&self, coding: Coding) {
        self.encoder.count(|encoded| encoded.sent(coding));
    }

    /// The rest of a stored answer of `length` bytes, of which all before `at` has been sent, and why the store has no more.
    pub fn rest(&self, found: &Found, at: u64, length: Option<u64>, error: ReadError) -> Rest {
        Rest(read::Source::broken(found, at, length, error))
    }

    /// The next piece of it, which comes from the origin; `None` at its end. Nothing of it is stored: dropped, its fetch ends.
    ///
    /// Errors: nothing tells whether the origin still has the same bytes, or it has others, or it cannot be asked.
    pub async fn more(&self, request: &Request, rest: &mut Rest) -> Result<Option<Bytes>, Failure> {
        self.reader.next(request, &mut rest.0).await
    }

    /// Fetches what a neighbour says that another one has, and answers whether it is on this proxy's disk now. No client asked, so it is in no log.
    async fn told(&self, request: &Request, client: &mut Client) {
        let is_there = |neighbours: &Arc<Neighbours>| request.told_of.is_some_and(|has| (neighbours.is_there)(has));
        let may = self.shared.neighbours.as_ref().is_some_and(is_there)
            && request.not_for_cache.is_none()
            && !self.switch.is_away()
            && self.shared.keeps(|| request.ticket.name.place());
        let fetched = may && self.passer.errands.fetch_long(request).await;
        let status = if fetched { StatusCode::NO_CONTENT } else { StatusCode::SERVICE_UNAVAILABLE };
        let said = client.begin(&ResponseHead::new(status), Bytes::new()).await;
        if said.is_err() || client.end().await.is_err() {
            tracing::debug!("a neighbour left before it heard whether its object is here");
        }
    }

    /// Answers a request for a mirror, in as many steps as its source takes.
    async fn mirrored(&self, transaction: &mut Transaction<'_>, at: &At) -> Result<(), Ended> {
        let clock = &self.shared.clock;
        let mut steps = Steps::new(transaction.request, at, clock)?;
        loop {
            let (shaping, held) = steps.shaping(clock.wall())?;
            // What was noted of the step before is not this one's.
            let Entry { id, for_neighbour, offline, .. } = std::mem::take(transaction.entry);
            *transaction.entry = Entry { id, for_neighbour, offline, ..Entry::default() };
            transaction.client.set_filter(Some(shaping));
            let ended = self.carry_out(&mut transaction.of(&steps.step), None).await;
            transaction.client.set_filter(None);
            let held = std::mem::take(&mut *held.lock());
            let Some(next) = held.next else {
                if let Some(status) = held.status {
                    transaction.entry.status = status.as_u16();
                }
                return match ended {
                    // The client has all that it gets, and the rest was read for nobody.
                    Err(Ended::Left) if held.is_done => Ok(transaction.client.end().await?),
                    ended => ended,
                };
            };
            steps.go_on(next, &self.passer.asker, clock).await?;
        }
    }

    async fn carry_out(&self, transaction: &mut Transaction<'_>, looked: Option<Looked>) -> Result<(), Ended> {
        let request = transaction.request;
        if request.is_loop {
            return Err(Failure::Loop.into());
        }
        if let Some(outcome) = request.not_for_cache {
            transaction.entry.outcome = outcome;
            return if request.directives.only_if_cached && request.method().is_safe() {
                Err(Failure::NotCached.into())
            } else {
                boxed(|| self.passer.pass(transaction, None)).await
            };
        }
        if self.switch.is_away() {
            return boxed(|| self.passer.pass_by(transaction)).await;
        }
        self.finder.answer(transaction, looked).await
    }
}
