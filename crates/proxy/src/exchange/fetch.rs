//! Fetching a whole answer for a client and for the store.

use std::sync::Arc;

use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use http::{Method, StatusCode};
use tinaja_http::message::{BadField, RequestHead, ResponseHead};
use tinaja_http::reuse::may_serve_on_error;
use tinaja_http::storable::Keep;
use tinaja_http::validate::validation;
use tinaja_logs::CacheResult;
use tinaja_store::Hit;

use super::ask::{Reply, With};
use super::entry::Entry;
use super::fill::{Feed, Fill};
use super::flights::{Landed, Pilot};
use super::keep::{announced, keep};
use super::plan::{Wants, wants};
use super::request::Request;
use super::serve::{Given, Sent};
use super::{Ended, Exchange};
use crate::client::Client;
use crate::failure::Failure;
use crate::stored::{Found, StoredHead};

/// Fields that ask for less than the whole, or for it on a condition. Who fetches for the store asks for all of it;
/// the client's conditions are judged on what comes.
const PARTIAL: [HeaderName; 6] = [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];

/// A request's head that asks for the whole object.
pub(super) fn whole(request: &Request) -> RequestHead {
    let mut head = request.head.clone();
    head.method = Method::GET;
    for name in &PARTIAL {
        head.headers.remove(name);
    }
    head
}

/// The client's conditions of a request for something of which nothing is stored: they are the origin's to judge (RFC
/// 9111 4.3.2), which may save sending what the client has and the cache may not keep.
const FOR_ORIGIN: [HeaderName; 2] = [IF_NONE_MATCH, IF_MODIFIED_SINCE];

/// Adds them to the head of a request for the whole.
fn with_conditions(mut head: RequestHead, request: &Request) -> Result<RequestHead, BadField> {
    for name in &FOR_ORIGIN {
        for value in request.head.headers.get_all(name) {
            head.headers.append(name.clone(), value.clone())?;
        }
    }
    Ok(head)
}

/// A request whose conditions the origin has judged, and answered with all there is.
fn without_conditions(request: &Request) -> Request {
    let mut request = request.clone();
    for name in &FOR_ORIGIN {
        request.head.headers.remove(name);
    }
    request
}

impl Exchange {
    /// Asks the origin, and answers with what it says; `stale` is validated if it can be. Others who wait for this are
    /// told through `pilot` as soon as the head is there.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        stale: Option<Found>,
        pilot: Option<Pilot>,
    ) -> Result<(), Ended> {
        // Whatever it waited for before, this request asks for itself.
        entry.collapsed = false;
        if entry.outcome == tinaja_http::status::Outcome::Request {
            entry.result = CacheResult::ClientRefresh;
        } else if stale.is_some() {
            entry.result = CacheResult::Refetched;
        }
        let stale = match stale {
            Some(found) => match wants(request, &found, self.shared.clock.wall()) {
                Wants::Missing(wanted, gap) if wanted != gap => {
                    return self.complete(request, client, entry, found, gap, pilot).await;
                }
                Wants::Here => Some(found),
                // Nothing that is stored helps.
                Wants::Missing(..) | Wants::Elsewhere => None,
            },
            None => None,
        };
        let asked = self.ask_or_validate(request, With::Client(client), entry, stale.as_ref()).await;
        let reply = match asked {
            Ok(reply) => reply,
            Err(failure) => {
                land_failed(pilot, &failure);
                return self.instead(request, client, entry, stale, failure).await;
            }
        };
        match stale {
            Some(found) if reply.head.status == StatusCode::NOT_MODIFIED => {
                let found = self.refresh(request, found, &reply).await?;
                self.origins.release(reply.connection);
                if let Some(pilot) = pilot {
                    pilot.land(Landed::Stored);
                }
                entry.result = CacheResult::Revalidated;
                self.serve_or_pass(request, client, entry, found, Given::Stored).await
            }
            Some(found) if is_error(reply.head.status) && self.may_help(request, &found) => {
                drop((pilot, reply.connection));
                let failure = Failure::Origin(format!("it answered {}", reply.head.status));
                self.instead(request, client, entry, Some(found), failure).await
            }
            None if FOR_ORIGIN.iter().any(|name| request.head.headers.contains_key(name)) => {
                self.store_and_answer(&without_conditions(request), client, entry, reply, pilot).await
            }
            _ => self.store_and_answer(request, client, entry, reply, pilot).await,
        }
    }

    /// Asks for the whole, or whether what is stored still holds. A 304 that is about something else is no answer: the
    /// whole is asked for again.
    pub(super) async fn ask_or_validate(
        &self,
        request: &Request,
        mut with: With<'_>,
        entry: &mut Entry,
        stale: Option<&Found>,
    ) -> Result<Reply, Failure> {
        let internal = |error: BadField| Failure::Internal(error.to_string());
        let mut head = match (stale, &with) {
            (None, With::Client(_)) => with_conditions(whole(request), request).map_err(internal)?,
            _ => whole(request),
        };
        let stored = stale.and_then(|found| found.head.fields(|_| true));
        let edits = stored.as_ref().and_then(|stored| validation(&head.headers, stored));
        if let Some(edits) = &edits {
            head.headers.edit(edits).map_err(internal)?;
        }
        let again = match &mut with {
            With::Client(client) => With::Client(client),
            _ => With::Nobody,
        };
        let reply = self.ask(request, head, true, again, entry).await?;
        let meant = match &stored {
            Some(stored) => !tinaja_http::validate::selected(&[stored], &reply.head.headers).is_empty(),
            None => false,
        };
        if reply.head.status != StatusCode::NOT_MODIFIED || (edits.is_some() && meant) {
            return Ok(reply);
        }
        let plain = || Failure::Origin("it answered 304 to a plain request".into());
        if edits.is_none() {
            // Nothing was asked that could be answered so. A client that did ask knows what it means.
            let asked = FOR_ORIGIN.iter().any(|name| request.head.headers.contains_key(name));
            return if asked { Ok(reply) } else { Err(plain()) };
        }
        self.origins.release(reply.connection);
        let reply = Box::pin(self.ask(request, whole(request), true, with, entry)).await?;
        if reply.head.status == StatusCode::NOT_MODIFIED {
            return Err(plain());
        }
        Ok(reply)
    }

    /// Answers with something stale instead of a failure, where that is allowed (RFC 5861 4).
    pub(super) async fn instead(
        self: &Arc<Self>,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        stale: Option<Found>,
        failure: Failure,
    ) -> Result<(), Ended> {
        match stale {
            Some(found) if failure.is_upstream() && self.may_help(request, &found) => {
                // Not a hit: the origin was asked (RFC 9211 2.1).
                entry.result = CacheResult::Stale;
                match self.serve(request, client, entry, found, Given::Stored).await? {
                    Sent::Answered => Ok(()),
                    Sent::NotHere => Err(failure.into()),
                }
            }
            _ => Err(failure.into()),
        }
    }

    pub(super) fn may_help(&self, request: &Request, stale: &Found) -> bool {
        may_serve_on_error(&request.directives, &stale.head.facts.state(self.shared.clock.wall()))
    }

    /// An answer that has just come: stored if it may be, and given to the client.
    pub(super) async fn store_and_answer(
        self: &Arc<Self>,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        reply: Reply,
        pilot: Option<Pilot>,
    ) -> Result<(), Ended> {
        let begun = match keep(request, &reply.received()) {
            Ok(keep) if self.fits(&reply) => self.begin_fill(request, &keep, reply).await,
            _ => Err(Box::new(reply)),
        };
        let (found, head, fill) = match begun {
            Ok(begun) => begun,
            Err(reply) => {
                // Those who wait have nothing to wait for.
                drop(pilot);
                return self.pipe(request, client, entry, *reply, None).await;
            }
        };
        entry.stored = true;
        self.fill_apart(fill);
        if let Some(pilot) = pilot {
            pilot.land(Landed::Stored);
        }
        self.serve_or_pass(request, client, entry, found, Given::Fetched(head)).await
    }

    /// Whether the store takes an object of the announced length. What is larger passes through, rather than through a
    /// store that does not keep it.
    fn fits(&self, reply: &Reply) -> bool {
        announced(&reply.head.headers).is_none_or(|length| length <= self.store.max_object_bytes())
    }

    /// Begins to store an answer; what a reader finds of it, the head as it came, and what is left to do. The reply comes
    /// back if it cannot be stored.
    pub(super) async fn begin_fill(
        &self,
        request: &Request,
        keep: &Keep,
        mut reply: Reply,
    ) -> Result<(Found, Box<ResponseHead>, Fill), Box<Reply>> {
        let bodiless = matches!(reply.head.status, StatusCode::NO_CONTENT);
        let length = if bodiless { Some(0) } else { announced(&reply.head.headers) };
        let Some((place, writer)) = self.begin(request, keep, &reply.received(), length).await else {
            return Err(Box::new(reply));
        };
        let hit: Hit = writer.follow();
        let Some(head) = StoredHead::decode(&hit.head) else {
            return Err(Box::new(reply));
        };
        // What has come with the head is there for the first reader at once. An error comes again.
        let first = tokio::select! {
            biased;
            piece = reply.connection.read() => piece.ok().flatten(),
            () = std::future::ready(()) => None,
        };
        let unwatched_bytes = self.shared.limits.fill_range_below;
        let feed = Feed::Origin(Box::new(reply.connection));
        let again = Fill::again(request, &head, length);
        let fill = Fill { place: place.clone(), writer, feed, length, first, again, unwatched_bytes };
        Ok((Found { place, head, hit }, Box::new(reply.head), fill))
    }
}

/// Tells those who wait for an answer that there is none.
pub(super) fn land_failed(pilot: Option<Pilot>, failure: &Failure) {
    if let Some(pilot) = pilot {
        pilot.land(if failure.is_unreachable() { Landed::Failed(failure.clone()) } else { Landed::NotShared });
    }
}

/// Statuses that say that the origin has failed, for which something stale may stand in (RFC 5861 4).
pub(super) fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}
