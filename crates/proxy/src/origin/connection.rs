//! A connection to an origin for one request, whatever version of HTTP it speaks.
//!
//! Where an answer ends is decided by each version and nowhere else.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use prometheus::IntCounter;
use tinaja_http::message::{RequestHead, ResponseHead};
use tokio::io::{AsyncRead, AsyncWrite};

use super::h1::H1;
use super::h2::H2;
use super::reach::Reach;
use super::rooms::Rooms;
use super::wire::{PoolKey, Wire};
use crate::failure::Failure;
use crate::quotas::Taken;

/// A connection with one request on it, or a stream of one with many. Memory: one read, or a head; and what is read ahead.
pub(crate) struct Connection {
    pub address: SocketAddr,
    /// It had an earlier request, and may have been closed behind that.
    pub reused: bool,
    /// Counts the bytes of its content.
    pub received: Option<IntCounter>,
    /// What is counted of its client meanwhile.
    pub fetch: Taken,
    version: Speaking,
    /// Content that was read before anybody asked for it.
    ahead: VecDeque<Bytes>,
}

enum Speaking {
    H1(Box<H1>),
    H2(Box<H2>),
}

impl Connection {
    pub(super) fn h1(h1: H1, address: SocketAddr, reused: bool) -> Connection {
        Connection {
            address,
            reused,
            received: None,
            fetch: Taken::nothing(),
            version: Speaking::H1(Box::new(h1)),
            ahead: VecDeque::new(),
        }
    }

    pub(super) fn h2(h2: H2, address: SocketAddr, reused: bool) -> Connection {
        Connection {
            address,
            reused,
            received: None,
            fetch: Taken::nothing(),
            version: Speaking::H2(Box::new(h2)),
            ahead: VecDeque::new(),
        }
    }

    /// What is kept of it for the next request, if its answer was whole and nothing else came.
    pub(super) fn reusable(self, rooms: &Rooms) -> Option<(Wire, PoolKey, Arc<Reach>)> {
        match self.version {
            Speaking::H1(h1) => h1.reusable(rooms),
            // Its connection is shared as it is.
            Speaking::H2(_) => None,
        }
    }

    /// The connection as bytes, for what comes behind HTTP, and what has come of that already. Of HTTP/2 there is none.
    pub fn into_raw(self) -> Option<(impl AsyncRead + AsyncWrite + Unpin, BytesMut)> {
        match self.version {
            Speaking::H1(h1) => Some(h1.into_raw()),
            Speaking::H2(_) => None,
        }
    }

    /// Something of an answer has come.
    pub fn has_answered(&self) -> bool {
        match &self.version {
            Speaking::H1(h1) => h1.has_answered,
            Speaking::H2(h2) => h2.has_answered,
        }
    }

    /// The origin has said that it has not looked at the request: any request may be sent again then (RFC 9113 8.7).
    pub fn is_unprocessed(&self) -> bool {
        match &self.version {
            Speaking::H1(_) => false,
            Speaking::H2(h2) => h2.is_unprocessed,
        }
    }

    /// The origin has not seen the request, or its connection was closed behind an earlier one: it may be sent again.
    pub fn is_unseen(&self) -> bool {
        self.is_unprocessed() || (self.reused && !self.has_answered())
    }

    /// No further request goes to this connection.
    pub fn retire(&self) {
        if let Speaking::H2(h2) = &self.version {
            h2.retire();
        }
    }

    /// The request is for a URL of this scheme, whoever is at the other end.
    pub fn has_scheme(&mut self, https: bool) {
        if let Speaking::H2(h2) = &mut self.version {
            h2.tls = https;
        }
    }

    /// Sends a request's head, which says whether content follows.
    pub async fn send(&mut self, head: &RequestHead) -> Result<(), Failure> {
        match &mut self.version {
            Speaking::H1(h1) => h1.send(head).await,
            Speaking::H2(h2) => h2.send(head).await,
        }
    }

    /// Sends more of a request's content. An origin that takes no more may have answered already: whether it has is
    /// seen when that is read, and the connection is of no further use. Whether it was sent.
    pub async fn send_content(&mut self, piece: Bytes) -> bool {
        match &mut self.version {
            Speaking::H1(h1) => h1.send_content(piece).await,
            Speaking::H2(h2) => h2.send_content(piece).await,
        }
    }

    /// All of a request has been sent.
    pub async fn end_content(&mut self) -> bool {
        match &mut self.version {
            Speaking::H1(h1) => h1.end_content().await,
            Speaking::H2(h2) => h2.end_content().await,
        }
    }

    /// No more of the request's content is sent, though there is more.
    pub fn give_up_content(&mut self) {
        match &mut self.version {
            Speaking::H1(h1) => h1.give_up_content(),
            Speaking::H2(h2) => h2.give_up_content(),
        }
    }

    /// The next head: of an interim answer, or of the final one. It has `origin_stall` to come whole. Dropped before it
    /// is ready, it has taken nothing.
    pub async fn read_head(&mut self) -> Result<ResponseHead, Failure> {
        match &mut self.version {
            Speaking::H1(h1) => h1.read_head().await,
            Speaking::H2(h2) => h2.read_head().await,
        }
    }

    /// The next piece of the answer's content; `None` at its end, which is where the answer's frame says it is. An error
    /// comes again with each further call. Dropped before it is ready, it has taken nothing.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.ahead.pop_front() {
            Some(piece) => Ok(Some(piece)),
            None => self.next_piece().await,
        }
    }

    /// Reads all of the answer's content, which [`Connection::read`] then gives; for one that is known to be short. An error comes again after what has come.
    /// Dropped before it is ready, it has lost nothing.
    pub async fn read_ahead(&mut self) -> Result<(), Failure> {
        while !self.has_all()
            && let Some(piece) = self.next_piece().await?
        {
            self.ahead.push_back(piece);
        }
        Ok(())
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, Failure> {
        let read = match &mut self.version {
            Speaking::H1(h1) => h1.read().await,
            Speaking::H2(h2) => h2.read().await,
        };
        if let (Some(counter), Ok(Some(piece))) = (&self.received, &read) {
            counter.inc_by(piece.len() as u64);
        }
        read
    }

    /// Whether nothing says where the answer ends but that its connection does, which may break as well.
    pub fn ends_with_answer(&self) -> bool {
        match &self.version {
            Speaking::H1(h1) => h1.ends_with_answer(),
            Speaking::H2(_) => false,
        }
    }

    /// Whether the answer's head said that nothing follows, not even trailers: over HTTP/2 alone.
    pub fn ended_with_head(&self) -> bool {
        match &self.version {
            Speaking::H1(_) => false,
            Speaking::H2(h2) => self.ahead.is_empty() && h2.ended_with_head(),
        }
    }

    /// What came behind the content, where the request has TE: over HTTP/2 alone.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        match &mut self.version {
            Speaking::H1(_) => None,
            Speaking::H2(h2) => h2.take_trailers(),
        }
    }

    /// Whether an answer failed because its connection ended, and not that answer alone. Of HTTP/1.1 nobody can tell.
    pub fn is_lost(&self) -> bool {
        match &self.version {
            Speaking::H1(_) => false,
            Speaking::H2(h2) => h2.is_lost,
        }
    }

    /// Whether all of the answer has been read.
    pub fn is_done(&mut self) -> bool {
        self.ahead.is_empty() && self.has_all()
    }

    fn has_all(&mut self) -> bool {
        match &mut self.version {
            Speaking::H1(h1) => h1.is_done(),
            Speaking::H2(h2) => h2.is_done(),
        }
    }
}
