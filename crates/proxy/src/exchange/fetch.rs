//! Fetching a whole answer for a client and for the store.

use std::sync::Arc;

use http::StatusCode;
use tinaja_http::status::Outcome;
use tinaja_logs::CacheResult;

use super::ask::{Asker, With};
use super::flights::{Landed, Pilot, land_failed};
use super::give::{Giver, is_error};
use super::parts::Parts;
use super::plan::{Wants, wants};
use super::refresh::refresh;
use super::serve::Given;
use super::transaction::{Ended, Transaction};
use super::validate::{ask_or_validate, has_conditions, without_conditions};
use crate::boxed::boxed;
use crate::failure::Failure;
use crate::shared::Shared;
use crate::storage::Storage;
use crate::stored::Found;

/// What fetches answers.
pub(super) struct Fetcher {
    pub shared: Arc<Shared>,
    pub store: Storage,
    pub asker: Arc<Asker>,
    pub giver: Arc<Giver>,
    pub parts: Arc<Parts>,
}

impl Fetcher {
    /// Asks the origin, and answers with what it says; `stale` is validated if it can be. Others who wait for this are
    /// told through `pilot` as soon as the head is there.
    pub async fn fetch(
        &self,
        transaction: &mut Transaction<'_>,
        stale: Option<Box<Found>>,
        pilot: Option<Pilot>,
    ) -> Result<(), Ended> {
        let Transaction { request, client, entry } = transaction;
        // Whatever it waited for before, this request asks for itself.
        entry.collapsed = false;
        if entry.outcome == Outcome::Request {
            entry.result = CacheResult::ClientRefresh;
        } else if stale.is_some() {
            entry.result = CacheResult::Refetched;
        }
        let mut stale = match stale {
            Some(found) => match wants(request, &found, self.shared.clock.wall()) {
                Wants::Missing(wanted, gap) if wanted != gap => {
                    return boxed(|| self.parts.complete(transaction, found, gap, pilot)).await;
                }
                Wants::Here => Some(found),
                // Nothing that is stored helps.
                Wants::Missing(..) | Wants::Elsewhere => None,
            },
            None => None,
        };
        let asked = ask_or_validate(&self.asker, request, With::Client(client), entry, stale.as_deref()).await;
        if let Some(found) = &mut stale {
            found.catch_up(&self.shared.clock);
        }
        let reply = match asked {
            Ok(reply) => reply,
            Err(failure) => {
                land_failed(pilot, &failure);
                return boxed(|| self.giver.instead(transaction, stale, failure)).await;
            }
        };
        match stale {
            Some(found) if reply.head.status == StatusCode::NOT_MODIFIED => {
                let found = refresh(&self.store, &self.shared.bans, request, found, &reply).await?;
                self.asker.release(reply.connection);
                if let Some(pilot) = pilot {
                    pilot.land(Landed::Stored);
                }
                entry.result = CacheResult::Revalidated;
                self.giver.serve_or_pass(transaction, found, Given::Stored).await
            }
            Some(found) if is_error(reply.head.status) && self.giver.may_help(request, &found) => {
                drop((pilot, reply.connection));
                let failure = Failure::Origin(format!("it answered {}", reply.head.status));
                boxed(|| self.giver.instead(transaction, Some(found), failure)).await
            }
            None if has_conditions(request) => {
                // Not in the future of each request, which would be larger by it.
                let request = Box::new(without_conditions(request));
                self.giver.store_and_answer(&mut transaction.of(&request), reply, pilot).await
            }
            _ => self.giver.store_and_answer(transaction, reply, pilot).await,
        }
    }
}
