//! Giving a client what has come for it: an answer that the origin has just sent, or what is stored in its stead.

use std::sync::Arc;

use http::StatusCode;
use tinaja_http::reuse::may_serve_on_error;
use tinaja_http::storable::Overrides;
use tinaja_logs::CacheResult;

use super::fill::Filler;
use super::flights::{Landed, Pilot};
use super::keep::keep;
use super::pass::Passer;
use super::reply::Reply;
use super::request::Request;
use super::reuse::heeded;
use super::serve::{Given, Sender, Sent};
use super::transaction::{Ended, Transaction};
use crate::boxed::boxed;
use crate::failure::Failure;
use crate::shared::Shared;
use crate::stored::Found;

/// What gives answers.
pub(super) struct Giver {
    pub shared: Arc<Shared>,
    pub filler: Arc<Filler>,
    pub sender: Arc<Sender>,
    pub passer: Arc<Passer>,
}

impl Giver {
    /// Answers with what was found, or, where what the client wants of it cannot be had here, passes the request on: it
    /// cannot be read after all, or the conditions are the origin's to judge.
    pub async fn serve_or_pass(
        &self,
        transaction: &mut Transaction<'_>,
        found: Box<Found>,
        given: Given,
    ) -> Result<(), Ended> {
        match self.sender.serve(transaction, found, given).await? {
            Sent::Answered => Ok(()),
            Sent::NotHere => boxed(|| self.passer.pass(transaction, None)).await,
        }
    }

    /// Answers with something stale instead of a failure, where that is allowed (RFC 5861 4).
    pub async fn instead(
        &self,
        transaction: &mut Transaction<'_>,
        stale: Option<Box<Found>>,
        failure: Failure,
    ) -> Result<(), Ended> {
        match stale {
            Some(found) if failure.is_upstream() && self.may_help(transaction.request, &found) => {
                // Not a hit: the origin was asked (RFC 9211 2.1).
                transaction.entry.result = CacheResult::Stale;
                match self.sender.serve(transaction, found, Given::Stored).await? {
                    Sent::Answered => Ok(()),
                    Sent::NotHere => Err(failure.into()),
                }
            }
            _ => Err(failure.into()),
        }
    }

    pub fn may_help(&self, request: &Request, stale: &Found) -> bool {
        may_serve_on_error(&heeded(request, &stale.head), &stale.head.facts.state(self.shared.clock.wall()))
    }

    /// An answer that has just come: stored if it may be, and given to the client.
    pub async fn store_and_answer(
        &self,
        transaction: &mut Transaction<'_>,
        reply: Box<Reply>,
        pilot: Option<Pilot>,
    ) -> Result<(), Ended> {
        let begun = match keep(transaction.request, &reply.received()) {
            Ok(keep) if self.filler.fits(transaction.request, &reply) => {
                transaction.entry.overruled = keep.overruled;
                self.filler.begin(transaction.request, &keep, reply).await
            }
            judged => {
                transaction.entry.note_not_stored(judged.err());
                Err(reply)
            }
        };
        let (found, head, mut fill) = match begun {
            Ok(begun) => begun,
            Err(reply) => {
                // Those who wait have nothing to wait for.
                drop(pilot);
                transaction.entry.overruled = Overrides::default();
                return boxed(|| self.passer.pipe(transaction, reply, None)).await;
            }
        };
        transaction.entry.stored = true;
        fill.leaves = !transaction.request.ticket.names_bytes();
        self.filler.fill_apart(fill).await;
        if !transaction.entry.without.is_empty() {
            self.filler.asker.tell_of(transaction.request, std::mem::take(&mut transaction.entry.without));
        }
        if let Some(pilot) = pilot {
            pilot.land(Landed::Stored);
        }
        self.serve_or_pass(transaction, found, Given::Fetched(head)).await
    }
}

/// Statuses that say that the origin has failed, for which something stale may stand in (RFC 5861 4).
pub(super) fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}
