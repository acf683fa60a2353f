//! Plain hits, answered here: what is stored goes out as it is stored, without a header taken apart.
//!
//! A plain hit is a GET or HEAD without a range or a condition, of an object that is stored whole, read, and fresh
//! enough for this client. All else goes on to the exchange, along with what was found. Whether a stored answer will do
//! is decided in `exchange/reuse`, which both ways ask.
//!
//! A plain hit is one read, and one write of the stored head, the changed fields and the body: to take headers apart would
//! cost more than the store does. The exchange gets what was found here and could not be used, or each stale object and each
//! false read would cost the disk twice.

use std::io;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    CONTENT_LENGTH, CONTENT_TYPE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
    UPGRADE,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tinaja_http::encoding::Coding;
use tinaja_http::lines::lines;
use tinaja_http::message::Usual;
use tinaja_http::reuse;
use tinaja_http::status::{CacheStatus, Outcome};
use tinaja_store::State;
use tokio::io::AsyncWriteExt;

use crate::client::{Gate, write_as_one};
use crate::exchange::{BegunForm, Exchange, Request, Reuse, is_left_over, judge};
use crate::metrics::Source;
use crate::shared::Shared;
use crate::stored::{Forms, Found, Kind, Looked, find};

/// Fields with which a request wants more than a plain answer.
const NOT_PLAIN: [HeaderName; 7] =
    [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, UPGRADE];

/// What came of it.
pub(super) enum Lean {
    /// The client has its answer, or has been cut off.
    Answered(Answered),
    /// Somebody else has to answer; what was found on the way, if it was looked for, is theirs.
    Passed(Option<Looked>),
}

/// An answer that was given.
pub(super) struct Answered {
    pub status: u16,
    pub source: Source,
    /// Bytes of body sent.
    pub body_bytes: u64,
    pub content_type: Option<String>,
    /// Whether another request may follow.
    pub keep: bool,
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
    found: Found,
    first: Bytes,
    /// Set if it is a form that is sent.
    coding: Option<Coding>,
    now: SystemTime,
}

impl MaybePlain<'_> {
    /// Answers a plain hit.
    pub async fn answer(&self, gate: &mut Gate) -> Lean {
        // What is not found while another process has the cache may be in it all the same, a moment later.
        let Some(turn) = self.exchange.switch.turn().filter(|_| self.is_plain()) else {
            return Lean::Passed(None);
        };
        let request = self.request;
        let looked =
            match find(&self.exchange.store, &self.shared.bans, &request.ticket.name, &request.head.headers).await {
                Looked::Found(found) if found.head.kind == Kind::Whole => *found,
                looked => return Lean::Passed(Some(looked).filter(|_| self.exchange.switch.is_still(turn))),
            };
        match self.will_do(looked).await {
            Ok(plain) => Lean::Answered(self.send(gate, plain).await),
            Err(looked) => Lean::Passed(Some(looked)),
        }
    }

    fn is_head(&self) -> bool {
        *self.request.method() == Method::HEAD
    }

    /// Whether it is a request that may be answered here.
    fn is_plain(&self) -> bool {
        let Request { head, not_for_cache, is_loop, ticket, .. } = self.request;
        // Of a mirror's hits something may have to be changed.
        ticket.mirror.is_none()
            && not_for_cache.is_none()
            && !is_loop
            && NOT_PLAIN.iter().all(|name| !head.headers.contains_key(name))
    }

    /// Whether what was found may be served to this client as it is, and can be read.
    async fn will_do(&self, mut found: Found) -> Result<Plain, Looked> {
        let now = self.shared.clock.wall();
        let verdict = judge(self.request, &found.head, now);
        let serves = verdict == Reuse::By(reuse::Reuse::Serve) && found.hit.state == State::Whole;
        if !serves || is_left_over(self.shared, self.request, &found) {
            return Err(Looked::Found(Box::new(found)));
        }
        if Forms::of(&found.head).is_some() {
            // Rare, so it is boxed: each hit would hold the room for it.
            let begun;
            (found, begun) = Box::pin(self.exchange.form_of(self.request, found)).await;
            if let Some(BegunForm { coding, first }) = begun {
                return Ok(Plain { found, first, coding: Some(coding).filter(|_| !self.is_head()), now });
            }
        }
        if self.is_head() {
            return Ok(Plain { found, first: Bytes::new(), coding: None, now });
        }
        // An object that cannot be read must become a miss, not an answer that breaks off.
        match found.hit.body.next(self.shared.held.piece_bytes()).await {
            Ok(first) => Ok(Plain { found, first: first.unwrap_or_default(), coding: None, now }),
            Err(error) => {
                tracing::debug!(id = %self.request.ticket.id, "a stored object counts as a miss: {error}");
                Err(Looked::Nothing)
            }
        }
    }

    async fn send(&self, gate: &mut Gate, plain: Plain) -> Answered {
        let Plain { mut found, first, coding, now } = plain;
        let source = found.hit.source.into();
        let mut answer = Answered { status: 0, source, body_bytes: 0, content_type: None, keep: self.keep };
        let head = self.head(&found, &mut answer, now);
        answer.body_bytes = first.len() as u64;
        let patience = self.shared.patience();
        let written = patience.holding(head.len() + first.len(), write_as_one(gate.stream(), head, first, b""));
        let mut sent = matches!(written.await, Some(Ok(())));
        let length = found.hit.body.len();
        let mut rest: Option<Box<_>> = None;
        while sent && !self.is_head() {
            let piece = match &mut rest {
                // Rare, so it is boxed: each hit would hold the room for it.
                Some(rest) => Box::pin(self.exchange.more(self.request, rest)).await.map_err(|error| error.to_string()),
                None => found.hit.body.next(self.shared.held.piece_bytes()).await.map_err(|error| error.to_string()),
            };
            match piece {
                Ok(Some(piece)) => {
                    sent = matches!(patience.holding(piece.len(), gate.stream().write_all(&piece)).await, Some(Ok(())));
                    answer.body_bytes += if sent { piece.len() as u64 } else { 0 };
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(id = %self.request.ticket.id, "an object was lost while it was sent: {error}");
                    let (head, at) = (&found.head, answer.body_bytes);
                    let length = length.filter(|_| rest.is_none());
                    rest = length.map(|length| Box::new(self.exchange.rest(head.clone(), at, length)));
                    sent = rest.is_some();
                }
            }
        }
        if let Some(coding) = coding.filter(|_| sent) {
            self.exchange.count_form(coding);
        }
        answer.keep &= sent && matches!(patience.holding(0, gate.stream().flush()).await, Some(Ok(())));
        answer
    }

    /// The stored head with the fields of this answer.
    fn head(&self, found: &Found, answer: &mut Answered, now: SystemTime) -> Vec<u8> {
        let wire = found.head.wire();
        let mut head = Vec::with_capacity(wire.len() + 256);
        head.extend_from_slice(wire);
        let code = found.head.status();
        answer.status = code.as_u16();
        let mut has_length = false;
        for line in lines(wire) {
            has_length |= line.is(&CONTENT_LENGTH);
            if self.shared.log.is_on() && line.is(&CONTENT_TYPE) {
                answer.content_type = Some(String::from_utf8_lossy(line.value).into_owned());
            }
        }
        let mut add = |line: std::fmt::Arguments<'_>| {
            // Writing to memory does not fail.
            let _ = io::Write::write_fmt(&mut head, line);
        };
        if let Some(length) = found.hit.body.len()
            && !has_length
            && code != StatusCode::NO_CONTENT
        {
            add(format_args!("Content-Length: {length}\r\n"));
        }
        let left = found.head.facts.fresh_until.duration_since(now).unwrap_or_default();
        let ttl = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        let offline = self.request.ticket.is_offline();
        let status = CacheStatus { outcome: Outcome::Hit, ttl: Some(ttl), offline, ..CacheStatus::default() };
        let (age, via) = (found.head.facts.age(now), self.via.to_str().unwrap_or_default());
        add(format_args!("Age: {age}\r\nVia: {via}\r\nCache-Status: {status}\r\n"));
        if let Some(name) = self.shared.ids.header() {
            add(format_args!("{}: {}\r\n", Usual(name), self.request.ticket.id));
        }
        let connection = if answer.keep { "keep-alive" } else { "close" };
        add(format_args!("Connection: {connection}\r\n\r\n"));
        head
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
