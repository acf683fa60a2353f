//! What became of a request, in the words of Cache-Status and of the access log.

use std::net::{IpAddr, SocketAddr};

use http::HeaderValue;
use http::header::{CONTENT_TYPE, REFERER, USER_AGENT};
use tinaja_clock::Clock;
use tinaja_http::message::ResponseHead;
use tinaja_http::status::{CacheStatus, Outcome};
use tinaja_http::storable::{NotStorable, Overrides};
use tinaja_logs::{CacheResult, Record};

use super::asked_at::AskedAt;
use super::request::Request;
use crate::access::record;
use crate::bans::{Stamp, Tags};
use crate::ids::RequestId;
use crate::metrics::Source;

/// What is noted of one request on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    /// The request's, which its client is told.
    pub id: Option<RequestId>,
    /// Why the origin had to be asked, or that it had not.
    pub outcome: Outcome,
    /// The origin's last status.
    pub fwd_status: Option<u16>,
    /// The origin that was asked last.
    pub origin: Option<SocketAddr>,
    /// The answer's first origin, whoever asked it.
    pub fetched_from: Option<IpAddr>,
    /// A neighbour asks, and is told that.
    pub for_neighbour: bool,
    /// And which bans had been made when that origin was asked, and what it calls the answer.
    pub asked_at: Option<Box<AskedAt>>,
    /// What was stored was taken back.
    pub banned: bool,
    /// No origin is asked.
    pub offline: bool,
    /// Nothing proves that the request's host is where it went.
    pub unproved: bool,
    /// A neighbour answered.
    pub by_neighbour: bool,
    /// Neighbours on whose disks it belongs too, and who could not be asked for it.
    pub without: Vec<SocketAddr>,
    /// The answer is being stored.
    pub stored: bool,
    /// What the answer says and a rule overruled when it was stored.
    pub overruled: Overrides,
    /// The answer was not stored because it varies by Cookie, and no rule says which cookies count.
    pub varies_by_cookie: bool,
    /// It has had a place among its client's fetches.
    pub has_fetched: bool,
    /// Another client's fetch brought the answer.
    pub collapsed: bool,
    /// Seconds of freshness that are left of a stored answer.
    pub ttl: Option<i64>,
    pub result: CacheResult,
    /// Where the answer comes from, if not from the origin that was asked for it.
    pub source: Option<Source>,
    /// The answer's status, once it has one, and its media type.
    pub status: u16,
    pub content_type: Option<String>,
    /// Why the answer is a page of the proxy's, or not whole, or not stored ([`Entry::note_not_stored`]).
    pub why: Option<String>,
}

impl Entry {
    /// This cache's member of Cache-Status (RFC 9211).
    pub fn cache_status(&self) -> CacheStatus {
        CacheStatus {
            outcome: self.outcome,
            ttl: self.ttl,
            fwd_status: self.fwd_status,
            stored: self.stored,
            collapsed: self.collapsed,
            overruled: self.overruled,
            offline: self.offline,
            unproved: self.unproved,
            purged: self.banned,
            varies_by_cookie: self.varies_by_cookie,
        }
    }

    /// Where the answer came from.
    pub fn source(&self) -> Source {
        self.source.unwrap_or(match self.fwd_status {
            Some(_) if self.by_neighbour => Source::Peer,
            Some(_) => Source::Origin,
            None => Source::Proxy,
        })
    }

    /// Notes why an answer is not stored, where only an operator can change that.
    pub fn note_not_stored(&mut self, why: Option<NotStorable>) {
        if why == Some(NotStorable::VaryCookie) {
            self.varies_by_cookie = true;
            self.why = why.map(|why| format!("not stored: {why}"));
        }
    }

    /// Notes which bans had been made when an answer's origin was asked for it, and what that calls it: for neighbours alone.
    pub fn note_asked(&mut self, stamp: Stamp, tags: &Tags) {
        self.asked_at = self.for_neighbour.then(|| Box::new(AskedAt { stamp, tags: tags.clone() }));
    }

    /// Notes what the client is told.
    pub fn note(&mut self, head: &ResponseHead) {
        self.status = head.status.as_u16();
        self.content_type = head.headers.get(CONTENT_TYPE).map(media_type);
    }

    /// The access log's line for a request that has been answered, or given up.
    pub fn record(self, request: &Request, bytes: u64, clock: &Clock) -> Record {
        let ticket = &request.ticket;
        Record {
            id: Some(ticket.id.to_string()),
            method: request.method().to_string(),
            url: ticket.url(),
            status: self.status,
            bytes,
            result: self.result,
            origin: self.origin.map(|address| address.ip().to_canonical().to_string()),
            content_type: self.content_type.filter(|_| !ticket.intercepted),
            why: self.why,
            ..record_of(request, clock)
        }
    }
}

/// A record with the fields of a request that logs show: none of what came in a tunnel.
pub(crate) fn record_of(request: &Request, clock: &Clock) -> Record {
    let ticket = &request.ticket;
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let field = |name| request.head.headers.get(name).filter(|_| !ticket.intercepted).map(text);
    let chosen = ticket.chosen.map(|chosen| chosen.address.to_string());
    let record = record(ticket.client, ticket.began, clock);
    Record { referer: field(REFERER), user_agent: field(USER_AGENT), chosen, ..record }
}

/// A Content-Type without its parameters.
pub(crate) fn media_type(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    text.split(';').next().unwrap_or_default().trim().to_owned()
}
