//! A stored answer that its origin says still holds (RFC 9111 4.3.4), and answers that are validated behind one that
//! was served (RFC 5861 3).

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use tinaja_http::reuse::StoredState;
use tinaja_http::validate::update;
use tinaja_store::Updated;
use tracing::Instrument as _;

use super::ask::{Reply, With};
use super::entry::Entry;
use super::flights::{Landed, Pilot};
use super::keep::{Received, facts, keep};
use super::request::Request;
use super::{Ended, Exchange};
use crate::stored::{Facts, Found, Kind, StoredHead};

impl Exchange {
    /// Updates a stored answer by a 304 or a HEAD's answer that is about it. The outcome is what is served now. It is
    /// stored if it still may be, and forgotten if not: a 304 can bring `private`, or a cookie.
    pub(super) async fn refresh(&self, request: &Request, found: Found, reply: &Reply) -> Result<Found, Ended> {
        let Some(mut header) = found.head.header() else { return Ok(found) };
        header.headers.edit(&update(&reply.head.headers, reply.answered))?;
        let received = Received { head: &header, ..reply.received() };
        let variant = found.head.facts.variant.map(|variant| (found.head.facts.family, variant));
        let kept = keep(request, &received).ok();
        let new = kept
            .and_then(|keep| found.head.again(&facts(&keep, &received, variant), &super::keep::header(&keep, &header)));
        let Some(new) = new else {
            if let Err(error) = self.store.remove(&found.place).await {
                tracing::warn!("an answer that may no longer be stored was not removed: {error}");
            }
            // It is this client's all the same, with the fields of the answer.
            let head = found.head.again(&found.head.facts, &header);
            let head = head.as_ref().and_then(StoredHead::decode).unwrap_or(found.head);
            return Ok(Found { head, ..found });
        };
        self.replace_head(&found, new.clone()).await;
        let head = StoredHead::decode(&new).unwrap_or(found.head);
        Ok(Found { head, ..found })
    }

    /// Puts a new head in the place of the one that was found, and of no other: that would be another body's.
    pub(super) async fn replace_head(&self, found: &Found, new: Bytes) {
        let old = found.hit.head.clone();
        let edit = move |present: &Bytes| (*present == old).then_some(new);
        match self.store.update_head(&found.place, Box::new(edit)).await {
            Ok(Updated::Done | Updated::Unchanged | Updated::Absent) => {}
            Ok(Updated::NotStored(why)) => tracing::debug!("a validated answer was not stored: {why}"),
            Err(error) => tracing::warn!("a validated answer was not stored: {error}"),
        }
    }

    /// Marks a stored answer stale, so that it is validated before it is served again.
    pub(super) async fn make_stale(&self, found: &Found) {
        let facts = Facts { fresh_until: found.head.facts.received, may_be_stale: false, ..found.head.facts };
        let header = found.head.header();
        match header.and_then(|header| found.head.again(&facts, &header)) {
            Some(new) => self.replace_head(found, new).await,
            None => {
                // Better forgotten than served for what it is no more; a store that cannot forget says so itself.
                let _ = self.store.remove(&found.place).await;
            }
        }
    }

    /// Validates what is just being served stale, unless somebody is about that already.
    pub(super) fn validate_later(self: &Arc<Self>, request: &Request, found: &Found) {
        let (Some(turn), Ok(pilot)) = (self.errands.turn(), self.flights.board(&found.place, request.ticket.began))
        else {
            return;
        };
        let (exchange, request) = (self.clone(), request.clone());
        self.shared.clock.start(
            async move {
                exchange.fetch_unasked(&request, true, pilot).await;
                drop(turn);
            }
            .in_current_span(),
        );
    }

    /// Fetches an object, or validates it, without a client. Others may wait for it.
    pub(super) async fn fetch_unasked(self: &Arc<Self>, request: &Request, validate: bool, pilot: Pilot) {
        let mut entry = Entry::default();
        let name = &request.ticket.name;
        let found = match crate::stored::find(&self.store, name, &request.head.headers).await {
            crate::stored::Looked::Found(found) if validate => Some(*found),
            crate::stored::Looked::Found(found) if self.is_fresh(&found) && found.head.kind == Kind::Whole => return,
            _ => None,
        };
        let reply = match self.ask_or_validate(request, With::Nobody, &mut entry, found.as_ref()).await {
            Ok(reply) => reply,
            Err(failure) => {
                tracing::debug!("an object that nobody waits for was not fetched: {failure}");
                return;
            }
        };
        match found {
            Some(found) if reply.head.status == StatusCode::NOT_MODIFIED => {
                // Nobody is served, so nobody has to be told.
                let _ = self.refresh(request, found, &reply).await;
                pilot.land(Landed::Stored);
                self.origins.release(reply.connection);
            }
            _ => {
                let most = self.shared.limits.fill_range_below;
                let small = super::keep::announced(&reply.head.headers).is_some_and(|length| length <= most);
                // What has changed is not worth a long fetch that nobody asked for.
                if let (Ok(keep), true) = (keep(request, &reply.received()), small)
                    && let Ok((reader, _, fill)) = self.begin_fill(request, &keep, reply).await
                {
                    pilot.land(Landed::Stored);
                    drop(reader);
                    self.fill(fill).await;
                }
            }
        }
    }

    fn is_fresh(&self, found: &Found) -> bool {
        let StoredState { ttl_seconds, .. } = found.head.facts.state(self.shared.clock.wall());
        ttl_seconds > 0
    }
}
