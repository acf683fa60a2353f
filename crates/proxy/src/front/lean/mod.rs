//! Plain hits, answered here: what is stored goes out as it is stored, without a header taken apart.
//!
//! A plain hit is a GET or HEAD without a range or a condition, of an object that is stored whole, read, and fresh
//! enough for this client. All else goes on to the exchange, along with what was found. Whether a stored answer will do
//! is decided in `exchange/reuse`, which both ways ask.
//!
//! - `mod`: which requests, and what is found for them
//! - `send`: the answer on its way, over either version of HTTP
//! - `head`: what is said before the body
//!
//! # Decisions
//!
//! - A plain hit is one read, and one write of the stored head, the changed fields and the body: to take headers apart would
//!   cost more than the store does. Over HTTP/2 the stored lines become the fields that `h2` takes, once, and share one copy
//!   of these lines: `h2` keeps fields for the life of a connection, and would keep the stored record with them. Those of what is
//!   sent again and again are kept (`stored/prepared`).
//! - The exchange gets what was found here and could not be used, or each stale object and each false read would cost the disk
//!   twice.

mod head;
mod send;

use std::pin::pin;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, UPGRADE};
use http::{HeaderName, HeaderValue, Method};
use tinaja_http::encoding::Coding;
use tinaja_http::reuse;
use tinaja_store::{Body, State};

use crate::boxed::boxed;
use crate::client::{Gate, H2};
use crate::exchange::{BegunForm, Exchange, Request, Reuse, is_left_over, judge};
use crate::failure::Failure;
use crate::held::REQUEST_BYTES;
use crate::metrics::Source;
use crate::shared::Shared;
use crate::stored::{Forms, Found, Kind, Looked, find};

/// Fields with which a request wants more than a plain answer.
static NOT_PLAIN: [HeaderName; 7] =
    [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, UPGRADE];

/// What came of it.
pub(super) enum Lean {
    /// The client has its answer, or has been cut off.
    Answered(Answered),
    /// Somebody else has to answer; what was found on the way, if it was looked for, is theirs.
    Passed(Option<Looked>),
    /// It would have to wait for the disk, and there is no room for what it would take meanwhile.
    NoRoom,
}

/// Who gets the answer.
pub(super) enum To<'a> {
    /// A client that speaks HTTP/1.
    H1(&'a mut Gate),
    /// A stream of HTTP/2.
    H2(&'a mut H2),
}

/// An answer that was given.
pub(super) struct Answered {
    pub status: u16,
    pub source: Source,
    /// Bytes of body sent.
    pub body_bytes: u64,
    pub content_type: Option<String>,
    /// Whether another request may follow on a connection over HTTP/1.
    pub keep: bool,
    /// Why it broke off, where it did. Rare, so it is boxed.
    pub why: Option<Box<Failure>>,
}

/// One request that may be a plain hit.
pub(super) struct MaybePlain<'a> {
    pub shared: &'a Shared,
    pub exchange: &'a Exchange,
    /// The member of Via in what is answered here.
    pub via: &'a HeaderValue,
    pub request: &'a Request,
    /// Whether another request may follow.
    pub keep: bool,
}

/// An object that will do, and its first bytes.
struct Plain {
    /// Still in the box that it was found in: otherwise each hit would move it five times.
    found: Box<Found>,
    first: Bytes,
    /// Set if it is a form that is sent.
    coding: Option<Coding>,
    now: SystemTime,
}

impl MaybePlain<'_> {
    /// Answers a plain hit.
    pub async fn answer(&self, to: To<'_>) -> Lean {
        // What is not found while another process has the cache may be in it all the same, a moment later.
        let Some(turn) = self.exchange.switch.turn().filter(|_| self.is_plain()) else {
            return Lean::Passed(None);
        };
        let (request, held) = (self.request, &self.shared.held);
        // A stream of HTTP/2 is counted in full from its beginning.
        let waiting_bytes = if matches!(to, To::H1(_)) { REQUEST_BYTES } else { 0 };
        let looked = {
            let (store, bans, headers) = (&self.exchange.store, &self.shared.bans, &request.head.headers);
            let mut find = pin!(find(store, bans, &request.ticket.name, headers));
            held.keep_while(waiting_bytes, find.as_mut()).await
        };
        let found = match looked {
            Some(Looked::Found(found)) if found.head.kind == Kind::Whole => found,
            Some(looked) => return Lean::Passed(Some(looked).filter(|_| self.exchange.switch.is_still(turn))),
            None => return Lean::NoRoom,
        };
        let will_do = {
            let mut will_do = pin!(self.will_do(&to, found));
            held.keep_while(waiting_bytes, will_do.as_mut()).await
        };
        match will_do {
            Some(Ok(plain)) => match self.send(to, plain).await {
                Some(answered) => Lean::Answered(answered),
                None => Lean::Passed(Some(Looked::Nothing)),
            },
            Some(Err(looked)) => Lean::Passed(Some(looked)),
            None => Lean::NoRoom,
        }
    }

    /// How much of a body is sent at a time.
    fn piece_bytes(&self, to: &To<'_>, body: &Body) -> usize {
        match to {
            To::H1(gate) if body.is_in_memory() && gate.is_plain() => self.shared.held.lent_piece_bytes(),
            _ => self.shared.held.piece_bytes(),
        }
    }

    fn is_head(&self) -> bool {
        *self.request.method() == Method::HEAD
    }

    /// Whether it is a request that may be answered here.
    fn is_plain(&self) -> bool {
        let Request { head, not_for_cache, is_loop, ticket, .. } = self.request;
        // Of a mirror's hits something may have to be changed, and a neighbour is told more of an answer than clients are.
        ticket.mirror.is_none()
            && !ticket.neighbour
            && not_for_cache.is_none()
            && !is_loop
            // Few fields are there: to compare them costs less than seven look-ups.
            && !head.headers.as_map().keys().any(|name| NOT_PLAIN.contains(name))
    }

    /// Whether what was found may be served to this client as it is, and can be read.
    async fn will_do(&self, to: &To<'_>, mut found: Box<Found>) -> Result<Plain, Looked> {
        let now = self.shared.clock.wall();
        let verdict = judge(self.request, &found.head, now);
        let serves = verdict == Reuse::By(reuse::Reuse::Serve) && found.hit.state == State::Whole;
        if !serves || is_left_over(self.shared, self.request, &found) {
            return Err(Looked::Found(found));
        }
        if Forms::of(&found.head).is_some() {
            // Rare, so it is boxed: each hit would hold the room for it.
            let begun;
            (found, begun) = boxed(|| self.exchange.form_of(self.request, found)).await;
            if let Some(BegunForm { coding, first }) = begun {
                return Ok(Plain { found, first, coding: Some(coding).filter(|_| !self.is_head()), now });
            }
        }
        if self.is_head() {
            return Ok(Plain { found, first: Bytes::new(), coding: None, now });
        }
        // An object that cannot be read must become a miss, not an answer that breaks off.
        match found.hit.body.next(self.piece_bytes(to, &found.hit.body)).await {
            Ok(first) => Ok(Plain { found, first: first.unwrap_or_default(), coding: None, now }),
            Err(error) => {
                tracing::debug!(id = %self.request.ticket.id, "a stored object counts as a miss: {error}");
                Err(Looked::Nothing)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tinaja_http::judge::Judged;
    use tokio::sync::watch;

    use super::*;
    use crate::client::Client;
    use crate::exchange;
    use crate::front::{Caller, Front};

    fn bytes_of_future<A, F>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    /// Each request's future is moved to the heap. It once held all that a fetch needs, and each hit copied 22 KB.
    #[test]
    fn a_request_is_small_enough_to_move() {
        type All = (&'static Front, Gate, &'static Caller, Instant, Judged, Bytes, &'static watch::Receiver<bool>);
        let bytes = bytes_of_future(|(front, gate, caller, began, judged, head, stopping): All| {
            front.request(gate, caller, began, judged, head, stopping)
        });
        assert!(bytes <= 8 * 1024, "{bytes} bytes");
        type Rest = (&'static Arc<Exchange>, &'static exchange::Request, &'static mut Client);
        let rest = bytes_of_future(|(exchange, request, client): Rest| exchange.answer(request, client, None));
        println!("{bytes} bytes, and {rest} for what is no plain hit");
        assert!(rest <= 12 * 1024, "{rest} bytes");
    }
}
