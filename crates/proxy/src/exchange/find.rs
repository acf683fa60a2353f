//! Finding an answer: what is stored, if it will do; else a fetch that others may wait for, or the origin's own answer.

use std::sync::Arc;

use http::Method;
use tinaja_http::reuse as rules;
use tinaja_http::status::Outcome;
use tinaja_logs::CacheResult;

use super::errand::Errands;
use super::fetch::Fetcher;
use super::flights::{Flights, Grounded, Landed};
use super::parts::Parts;
use super::pass::Passer;
use super::plan::{Wants, wants};
use super::proof::is_outdated;
use super::reuse::{Reuse, is_left_over, judge};
use super::serve::{Given, Sender, Sent};
use super::transaction::{Ended, Transaction};
use crate::boxed::boxed;
use crate::failure::{Failure, Unanswered};
use crate::shared::Shared;
use crate::storage::{Storage, Switch};
use crate::stored::{Found, Looked, find};

/// Fetches of other clients that one request waits for, one after the other.
const COLLAPSE_TRIES: usize = 4;

/// What finds answers.
pub(super) struct Finder {
    pub shared: Arc<Shared>,
    pub store: Storage,
    /// The same, where it matters whether it is there.
    pub switch: Arc<Switch>,
    pub flights: Flights,
    pub errands: Arc<Errands>,
    pub sender: Arc<Sender>,
    pub passer: Arc<Passer>,
    pub parts: Arc<Parts>,
    pub fetcher: Fetcher,
}

impl Finder {
    /// A request that may be answered from the cache.
    pub async fn answer(&self, transaction: &mut Transaction<'_>, mut looked: Option<Looked>) -> Result<(), Ended> {
        let request = transaction.request;
        let name = &request.ticket.name;
        let (mut stale, mut looking, mut turn) = (None, request.ticket.began, self.switch.turn());
        for attempt in 0..=COLLAPSE_TRIES {
            let found = match looked.take() {
                Some(looked) => looked,
                None => {
                    (looking, turn) = (self.shared.clock.now(), self.switch.turn());
                    find(&self.store, &self.shared.bans, name, &request.head.headers).await
                }
            };
            let mut place = name.place();
            transaction.entry.banned = matches!(found, Looked::Banned(..));
            (transaction.entry.outcome, stale) = match found {
                Looked::Nothing => (Outcome::UriMiss, None),
                Looked::OtherVariants(variant) => {
                    place = variant;
                    (Outcome::VaryMiss, None)
                }
                Looked::Banned(banned, _) => {
                    place = banned;
                    (Outcome::UriMiss, None)
                }
                Looked::Found(found) => {
                    place = found.place.clone();
                    match self.use_found(transaction, found).await? {
                        None => return Ok(()),
                        Some(missed) => missed,
                    }
                }
            };
            // Nobody is fetched for, and nobody waited for.
            if request.ticket.is_offline() {
                return Err(Failure::Offline(unanswered(transaction.entry.outcome)).into());
            }
            // A cache that came or went while somebody looked may have what was not found.
            if stale.is_none() && !turn.is_some_and(|turn| self.switch.is_still(turn)) {
                return boxed(|| self.passer.pass_by(transaction)).await;
            }
            if request.directives.only_if_cached {
                return Err(Failure::NotCached.into());
            }
            // A part of an object or its head alone is not worth a fetch of the whole that others wait for, and some
            // conditions are the origin's to judge.
            if request.wants_part() || request.asks_origin() {
                transaction.entry.collapsed = false;
                return match stale {
                    Some(found) if *request.method() == Method::GET => {
                        boxed(|| self.parts.part(transaction, found)).await
                    }
                    stale => boxed(|| self.passer.pass(transaction, stale)).await,
                };
            }
            if attempt == COLLAPSE_TRIES {
                break;
            }
            // A neighbour that takes this proxy for a home which it is not may wait for itself.
            if request.ticket.neighbour && !self.shared.keeps(|| name.place()) {
                break;
            }
            match self.flights.board(&request.ticket.flight(&place), looking) {
                Ok(pilot) => return self.fetcher.fetch(transaction, stale, Some(pilot)).await,
                Err(Grounded::LookAgain) => transaction.entry.collapsed = true,
                Err(Grounded::Wait(passenger)) => {
                    match self.shared.waiting(passenger.wait(self.shared.limits.collapse)).await {
                        Landed::Stored => transaction.entry.collapsed = true,
                        Landed::NotShared => break,
                        Landed::Failed(failure) => return Err(failure.into()),
                    }
                }
            }
        }
        self.fetcher.fetch(transaction, stale, None).await
    }

    /// Answers with what is stored, if it will do. Otherwise says why not, and gives back what may be validated.
    async fn use_found(
        &self,
        transaction: &mut Transaction<'_>,
        found: Box<Found>,
    ) -> Result<Option<(Outcome, Option<Box<Found>>)>, Ended> {
        let Transaction { request, entry, .. } = transaction;
        if is_outdated(request, &found) {
            // Its origin may say that it still holds, which is not what the index says.
            return Ok(Some((Outcome::Stale, None)));
        }
        if is_left_over(&self.shared, request, &found) {
            // Where nobody answers it may do after all.
            return Ok(Some((Outcome::Stale, Some(found))));
        }
        let now = self.shared.clock.wall();
        let verdict = judge(request, &found.head, now);
        let outcome = if found.head.facts.state(now).ttl_seconds > 0 { Outcome::Request } else { Outcome::Stale };
        match verdict {
            // On the way to the origin the rules refuse the request with their reason, or find it at another address.
            Reuse::Denied => return Ok(Some((Outcome::Stale, None))),
            Reuse::Withheld(rules::Withheld::MustValidate) => {
                return Err(Failure::Offline(Unanswered::MustValidate).into());
            }
            Reuse::Withheld(rules::Withheld::Unwanted) => return Err(Failure::Offline(Unanswered::Unwanted).into()),
            Reuse::By(rules::Reuse::NotCached) => return Err(Failure::NotCached.into()),
            Reuse::By(rules::Reuse::Validate) => return Ok(Some((outcome, Some(found)))),
            _ if !matches!(wants(request, &found, now), Wants::Here) => {
                return Ok(Some((Outcome::Partial, Some(found))));
            }
            Reuse::By(rules::Reuse::ServeAndValidate) => self.errands.validate(request, &found),
            Reuse::By(rules::Reuse::Serve | rules::Reuse::ServeStale) => {}
        }
        // Of a fetch that this request waited for, its client hears that it had to be asked for.
        entry.outcome = if entry.collapsed { Outcome::Miss } else { Outcome::Hit };
        entry.result = if entry.collapsed { CacheResult::Collapsed } else { CacheResult::Hit };
        match self.sender.serve(transaction, found, Given::Stored).await? {
            Sent::Answered => Ok(None),
            Sent::NotHere => {
                (transaction.entry.result, transaction.entry.source) = (CacheResult::Miss, None);
                Ok(Some((Outcome::Miss, None)))
            }
        }
    }
}

/// Why there is no answer where no origin is asked, by what was found.
fn unanswered(outcome: Outcome) -> Unanswered {
    match outcome {
        Outcome::Partial => Unanswered::Part,
        _ => Unanswered::NotStored,
    }
}
