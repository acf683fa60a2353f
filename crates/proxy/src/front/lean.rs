//! Plain hits, answered here: Pingora is not asked, and what is stored goes out as it is stored.
//!
//! A plain hit is a GET or HEAD without a range or a condition, of an object that is stored whole, read, and fresh
//! enough for this client. All else goes on to Pingora's steps, along with what was found. Whether a stored answer
//! will do is decided in `phases/reuse`, which both ways ask.

use std::io::{self, IoSlice};
use std::time::{Instant, SystemTime};

use bytes::{Buf, Bytes};
use http::header::{
    AGE, CONNECTION, CONTENT_LENGTH, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
    TRANSFER_ENCODING, UPGRADE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pingora_cache::CacheKey;
use tinaja_http::control::{RequestDirectives, request_directives};
use tinaja_http::judge::Judged;
use tinaja_http::lines::{Line, header_map, lines};
use tinaja_http::status::{CacheStatus, Outcome};
use tinaja_http::{hops, vary};
use tinaja_pingora::{Handed, READ_PIECE_BYTES, StoredHead, TinajaStorage};
use tinaja_store::{Body, FIND_DEADLINE, Hit, Lookup, State};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::gate::Gate;
use crate::Storage;
use crate::phases::{
    FETCHED_FROM, Reuse, Stored, Ticket, cache_key, current_age_of, fetched_from, not_for_cache, reuse, ttl_seconds,
};
use crate::shared::Shared;

/// Fields with which a request wants more than a plain answer.
const NOT_PLAIN: [HeaderName; 7] =
    [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, UPGRADE];

/// What came of it.
pub(super) enum Lean {
    /// The client has its answer, or has been cut off.
    Answered(Answered),
    /// Somebody else has to answer; what was found on the way is theirs.
    Passed(Vec<Handed>),
}

/// An answer that was given.
pub(super) struct Answered {
    pub status: u16,
    /// Bytes of body sent.
    pub body_bytes: u64,
    pub content_type: Option<String>,
    pub headers: HeaderMap,
    /// Whether another request may follow.
    pub keep: bool,
}

/// One request that may be a plain hit.
pub(super) struct Request<'a> {
    pub shared: &'a Shared,
    pub storage: Storage,
    /// The member of Via in what is answered here.
    pub via: &'a HeaderValue,
    pub judged: &'a Judged,
    pub method: Method,
    pub ticket: &'a Ticket,
    /// The proxy stops: this is the connection's last answer.
    pub stopping: bool,
}

/// An object that will do.
struct Found {
    hit: Hit,
    first: Option<Bytes>,
    age_seconds: u64,
    ttl_seconds: i64,
}

impl Request<'_> {
    /// Answers a plain hit.
    pub async fn answer(&self, gate: &mut Gate, head: &Bytes) -> Lean {
        let fields = head.slice(self.judged.fields.clone());
        let Some((headers, directives)) = self.is_plain(&fields) else {
            return Lean::Passed(Vec::new());
        };
        let mut handed = Vec::new();
        match self.find(&headers, &directives, &mut handed).await {
            Some(found) => Lean::Answered(self.send(gate, found, headers).await),
            None => Lean::Passed(handed),
        }
    }

    fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// The request's headers and what they say about caching, if it is one that may be answered here.
    fn is_plain(&self, fields: &Bytes) -> Option<(HeaderMap, RequestDirectives)> {
        if !matches!(self.method, Method::GET | Method::HEAD) {
            return None;
        }
        let headers = header_map(fields, |_| true)?;
        let directives = request_directives(&headers);
        let plain = not_for_cache(&self.method, self.judged.framing, &directives).is_none()
            && NOT_PLAIN.iter().all(|name| !headers.contains_key(name))
            && !hops::is_loop(&headers, &self.shared.name);
        plain.then_some((headers, directives))
    }

    /// The object, if it is here and will do, with its first bytes read. Everything else found goes to `handed`.
    async fn find(
        &self,
        headers: &HeaderMap,
        directives: &RequestDirectives,
        handed: &mut Vec<Handed>,
    ) -> Option<Found> {
        let mut key = cache_key(self.ticket);
        let mut hit = self.look(&key, handed).await?;
        let mut valid_after = SystemTime::UNIX_EPOCH;
        let now = SystemTime::now();
        loop {
            let Some(stored) = StoredHead::decode(&hit.head).filter(|stored| stored.belongs_to(&key)) else {
                pass_on(&key, hit, handed);
                return None;
            };
            let asked_for = |line: &Line<'_>| [AGE, VARY, FETCHED_FROM].iter().any(|name| line.is(name));
            let few = header_map(&hit.head.slice_ref(stored.wire()), asked_for)?;
            let variant = vary::key(&few, headers).filter(|variant| stored.variance() != Some(*variant));
            if let Some(variant) = variant {
                // What the primary key leads to is for other requests; their own is under the variant, once.
                let is_primary = key.get_variance_key().is_none();
                valid_after = stored.provenance();
                pass_on(&key, hit, handed);
                if !is_primary {
                    return None;
                }
                key.set_variance_key(variant);
                hit = self.look(&key, handed).await?;
                continue;
            }
            let age_seconds = current_age_of(&few, stored.epoch(), now);
            let ttl_seconds = ttl_seconds(stored.fresh_until(), now);
            let is_fresh = stored.fresh_until() >= now;
            let about = Stored { fetched_from: fetched_from(&few), age_seconds, is_fresh };
            let will_do = reuse(self.ticket, &self.method, directives, about) == Reuse::Serve;
            if stored.provenance() < valid_after || !will_do {
                pass_on(&key, hit, handed);
                return None;
            }
            return match first_piece(&mut hit.body, self.is_head()).await {
                Ok(first) => Some(Found { hit, first, age_seconds, ttl_seconds }),
                Err(error) => {
                    tracing::debug!("a stored object counts as a miss: {error}");
                    handed.push(Handed { key: TinajaStorage::store_key(&key), hit: None });
                    None
                }
            };
        }
    }

    /// Looks one key up. What needed the disk and found nothing is not looked for again.
    async fn look(&self, key: &CacheKey, handed: &mut Vec<Handed>) -> Option<Hit> {
        let key = TinajaStorage::store_key(key);
        match self.storage.store().lookup(&key, Instant::now() + FIND_DEADLINE) {
            Lookup::Absent => None,
            Lookup::Here(hit) if hit.state == State::Whole => Some(hit),
            // Pingora's lock knows who fetches it.
            Lookup::Here(_) => None,
            Lookup::Wait(pending) => {
                let hit = pending.await;
                if hit.is_none() {
                    handed.push(Handed { key, hit: None });
                }
                hit
            }
        }
    }

    async fn send(&self, gate: &mut Gate, found: Found, headers: HeaderMap) -> Answered {
        let Found { mut hit, first, age_seconds, ttl_seconds } = found;
        let asks_to_close = hops::closes(&headers, self.judged.http11);
        let keep = !self.stopping && !asks_to_close;
        let mut answer = Answered { status: 0, body_bytes: 0, content_type: None, headers, keep };
        let wire = StoredHead::decode(&hit.head).map(|stored| stored.wire()).unwrap_or_default();
        let status = CacheStatus { outcome: Outcome::Hit, ttl: Some(ttl_seconds), ..CacheStatus::default() };
        let head = self.head(wire, &mut answer, age_seconds, &status, hit.body.len());
        let first = first.unwrap_or_default();
        answer.body_bytes = first.len() as u64;
        let stall = self.shared.limits.client_stall;
        let mut sent = timeout(stall, write_both(gate.stream(), head, first)).await.is_ok_and(|sent| sent.is_ok());
        while sent && !self.is_head() {
            let piece = match hit.body.next(READ_PIECE_BYTES).await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!("an object was lost while it was sent: {error}");
                    sent = false;
                    break;
                }
            };
            sent = timeout(stall, gate.stream().write_all(&piece)).await.is_ok_and(|sent| sent.is_ok());
            answer.body_bytes += if sent { piece.len() as u64 } else { 0 };
        }
        let flushed = timeout(stall, gate.stream().flush());
        answer.keep &= sent && flushed.await.is_ok_and(|flushed| flushed.is_ok());
        answer
    }

    /// The stored head with the fields of this answer.
    fn head(
        &self,
        wire: &[u8],
        answer: &mut Answered,
        age_seconds: u64,
        status: &CacheStatus,
        length: Option<u64>,
    ) -> Vec<u8> {
        let mut head = Vec::with_capacity(wire.len() + 256);
        let status_line = wire.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        head.extend_from_slice(status_line);
        let code = status_line.get(9..12).and_then(|code| StatusCode::from_bytes(code).ok()).unwrap_or_default();
        answer.status = code.as_u16();
        let mut has_length = false;
        for line in lines(wire) {
            if [AGE, CONNECTION, TRANSFER_ENCODING, FETCHED_FROM].iter().any(|name| line.is(name)) {
                continue;
            }
            has_length |= line.is(&CONTENT_LENGTH);
            if self.shared.log.is_on() && line.is(&http::header::CONTENT_TYPE) {
                answer.content_type = Some(String::from_utf8_lossy(line.value).into_owned());
            }
            head.extend_from_slice(line.whole);
        }
        let mut add = |line: std::fmt::Arguments<'_>| {
            // Writing to memory does not fail.
            let _ = io::Write::write_fmt(&mut head, line);
        };
        if let Some(length) = length
            && !has_length
            && !matches!(code, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        {
            add(format_args!("Content-Length: {length}\r\n"));
        }
        let via = self.via.to_str().unwrap_or_default();
        add(format_args!("Age: {age_seconds}\r\nVia: {via}\r\nCache-Status: {status}\r\n"));
        let connection = if answer.keep { "keep-alive" } else { "close" };
        add(format_args!("Connection: {connection}\r\n\r\n"));
        head
    }
}

/// An object that will not do here as it is, but may for Pingora; one still being written is its to find.
fn pass_on(key: &CacheKey, hit: Hit, handed: &mut Vec<Handed>) {
    handed.push(Handed { key: TinajaStorage::store_key(key), hit: Some(hit) });
}

/// The first piece of a body: an object that cannot be read must become a miss, not an answer that breaks off.
async fn first_piece(body: &mut Body, head_only: bool) -> Result<Option<Bytes>, tinaja_store::ReadError> {
    if head_only { Ok(None) } else { body.next(READ_PIECE_BYTES).await }
}

/// Writes a head and the first piece of its body as one.
async fn write_both(stream: &mut (impl AsyncWrite + Unpin), head: Vec<u8>, first: Bytes) -> io::Result<()> {
    let mut both = Bytes::from(head).chain(first);
    while both.has_remaining() {
        let mut slices = [IoSlice::new(&[]); 2];
        let filled = both.chunks_vectored(&mut slices);
        let written = stream.write_vectored(slices.get(..filled).unwrap_or_default()).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        both.advance(written);
    }
    Ok(())
}
