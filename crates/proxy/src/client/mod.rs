//! A client, whatever version of HTTP it speaks: its request's content in, its answer out.
//!
//! Heads are judged before anything gets here, and answers are framed here and nowhere else.

mod content;
mod gate;
mod h1;
mod h2;
mod pace;
mod write;

pub(crate) use self::h2::{CONNECTION_FIELDS, H2};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub(crate) use content::Content;
pub(crate) use gate::Gate;
pub(crate) use h1::H1;
use tinaja_clock::Clock;
use tinaja_http::message::ResponseHead;
use tinaja_http::refusal::Refusal;
pub(crate) use write::write_as_one;

use crate::failure::Failure;
use crate::held::Held;

/// How long a client may take nothing or send nothing, by which clock, and what is held for it meanwhile.
#[derive(Clone)]
pub(crate) struct Patience {
    pub clock: Clock,
    pub stall: Duration,
    /// Bytes a second that it must send of a request's content, in the mean; 0 for any.
    pub body_rate: u64,
    pub held: Arc<Held>,
}

impl Patience {
    /// What comes of waiting for the client, which keeps so many bytes meanwhile; nothing where it takes too long, or is let go.
    pub async fn holding<T>(&self, bytes: usize, wait: impl Future<Output = T>) -> Option<T> {
        self.held.hold(bytes, self.clock.timeout(self.stall, wait)).await.ok()?.ok()
    }
}

/// The client has left, takes nothing, or its connection failed: nobody is left to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left;

/// Why the content of a request could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadContent {
    /// It is malformed: 400.
    Malformed,
    /// It stopped coming: 408, if anybody reads it.
    Stalled,
    /// The client has left.
    Left,
}

impl From<BadContent> for Failure {
    fn from(bad: BadContent) -> Failure {
        match bad {
            BadContent::Malformed => Failure::BadRequest,
            BadContent::Stalled => Failure::Refused(Refusal::TooSlow),
            BadContent::Left => Failure::ClientLeft,
        }
    }
}

/// The client of one request.
pub(crate) enum Client {
    /// HTTP/1.0 or 1.1.
    H1(Box<H1>),
    /// A stream of HTTP/2.
    H2(Box<H2>),
}

impl Client {
    /// An answer before the answer (RFC 9110 15.2); HTTP/1.0 knows none.
    pub async fn interim(&mut self, head: &ResponseHead) -> Result<(), Left> {
        match self {
            Client::H1(h1) => h1.interim(head).await,
            Client::H2(h2) => h2.interim(head).await,
        }
    }

    /// The answer's head, which goes out with the first piece of content. Its Content-Length, if it has one, says how
    /// much content there will be. Fields that frame the message are set here.
    pub async fn begin(&mut self, head: &ResponseHead, first: Bytes) -> Result<(), Left> {
        match self {
            Client::H1(h1) => h1.begin(head, first).await,
            Client::H2(h2) => h2.begin(head, first).await,
        }
    }

    /// More of the answer's content.
    pub async fn piece(&mut self, piece: Bytes) -> Result<(), Left> {
        match self {
            Client::H1(h1) => h1.piece(piece).await,
            Client::H2(h2) => h2.piece(piece).await,
        }
    }

    /// The content is whole. Without this the client is made to see that its answer is not.
    pub async fn end(&mut self) -> Result<(), Left> {
        match self {
            Client::H1(h1) => h1.end().await,
            Client::H2(h2) => h2.end().await,
        }
    }

    /// The next piece of the request's content; `None` at its end. Dropped before it is ready, it has taken nothing.
    pub async fn read_content(&mut self) -> Result<Option<Bytes>, BadContent> {
        match self {
            Client::H1(h1) => h1.read_content().await,
            Client::H2(h2) => h2.read_content().await,
        }
    }

    /// Returns when the client has gone, once all of its request has been read.
    pub async fn gone(&mut self) {
        match self {
            Client::H1(h1) => h1.gone().await,
            Client::H2(h2) => h2.gone().await,
        }
    }

    /// Whether the answer's head has been sent, so that it is too late for another.
    pub fn has_begun(&self) -> bool {
        match self {
            Client::H1(h1) => h1.has_begun(),
            Client::H2(h2) => h2.has_begun(),
        }
    }

    /// Bytes of content that were sent.
    pub fn sent_bytes(&self) -> u64 {
        match self {
            Client::H1(h1) => h1.sent_bytes(),
            Client::H2(h2) => h2.sent_bytes(),
        }
    }

    /// No further request is taken from this connection.
    pub fn close_after(&mut self) {
        match self {
            Client::H1(h1) => h1.close_after(),
            // Its other streams have nothing to do with this one.
            Client::H2(_) => {}
        }
    }
}
