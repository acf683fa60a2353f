//! A client, whatever version of HTTP it speaks: its request's content in, its answer out.
//!
//! Heads are judged before anything gets here, and answers are framed here and nowhere else.

mod content;
mod gate;
mod h1;
mod h2;
mod pace;
mod queue;
mod write;

pub(crate) use self::h2::H2;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
pub(crate) use content::Content;
pub(crate) use gate::Gate;
pub(crate) use h1::H1;
use http::HeaderMap;
pub(crate) use queue::{Queue, Queued};
use tinaja_clock::Clock;
use tinaja_http::message::ResponseHead;
use tinaja_http::refusal::Refusal;
use tokio::io::AsyncWriteExt;
use tokio::task::yield_now;
use write::{Filling, write_as_one, write_at_once};

use crate::failure::Failure;
use crate::held::{Held, LEAST_SEND_BUFFER_BYTES, READ_PIECE_BYTES};
use crate::stream::Stream;

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
        self.held.hold(|| bytes, self.clock.timeout(self.stall, wait)).await.ok()?.ok()
    }

    /// Sends `before`, `piece` and `behind`, with a flush where that is asked for. Whether the client has taken them, but for what its
    /// connection holds; that counts too where it takes no more. It may take as long as it likes, if it takes something again and again.
    ///
    /// A piece may be larger than what is read at a time. As much of it as the connection takes at once goes out in one call. The rest is sent by pieces like others: a slow
    /// client may take its time for each of them, and holds no more.
    ///
    /// Behind a whole piece others have their turn: to copy one takes the system as long as some small answers take altogether, and a
    /// connection may take many at once. While the budget is tight pieces are small, and turns too: it is then that others wait.
    pub async fn send(
        &self,
        stream: &mut Stream,
        (before, mut piece, behind): (Vec<u8>, Bytes, &'static [u8]),
        flushes: bool,
    ) -> bool {
        let mut before = Bytes::from(before);
        if piece.len() > READ_PIECE_BYTES {
            let Ok(left) = write_at_once(stream, before, piece).await else { return false };
            (before, piece) = left;
            while piece.len() > READ_PIECE_BYTES {
                let part = (std::mem::take(&mut before), piece.split_to(READ_PIECE_BYTES), b"".as_slice());
                if !self.send_part(stream, part, false).await {
                    return false;
                }
            }
            if piece.is_empty() {
                yield_now().await;
            }
        }
        self.send_part(stream, (before, piece, behind), flushes).await
    }

    /// See [`Patience::send`].
    async fn send_part(
        &self,
        stream: &mut Stream,
        (before, piece, behind): (Bytes, Bytes, &'static [u8]),
        flushes: bool,
    ) -> bool {
        let (bytes, full) = (before.len() + piece.len(), AtomicUsize::new(0));
        let is_whole = piece.len() >= self.held.piece_bytes();
        let sent = async {
            let most = self.held.is_tight().then_some(LEAST_SEND_BUFFER_BYTES);
            let Patience { clock, stall, .. } = self;
            let mut stream = Filling { stream: &mut *stream, full: &full, most, clock, stall: *stall, stalled: None };
            write_as_one(&mut stream, before, piece, behind).await?;
            if flushes { stream.flush().await } else { Ok(()) }
        };
        match self.held.hold(|| bytes + full.load(Relaxed), sent).await {
            Ok(Ok(())) => {
                if is_whole {
                    yield_now().await;
                }
                true
            }
            Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => false,
            // Let go, or it took nothing for too long.
            Err(_) | Ok(Err(_)) => {
                stream.abandon();
                false
            }
        }
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

/// What an answer goes through on its way to the client.
pub(crate) trait Filter: Send {
    /// The head that is sent instead of this one; nothing where none of the answer is to be sent.
    fn begin(&mut self, head: &ResponseHead) -> Option<ResponseHead>;
    /// What is sent instead of a piece of content, perhaps nothing yet. An error ends the answer here.
    fn piece(&mut self, piece: Bytes) -> Result<Bytes, Left>;
    /// What is sent behind all pieces; nothing where the answer was held back.
    fn end(&mut self) -> Option<Bytes>;
}

/// The client of one request.
pub(crate) struct Client {
    connection: Connection,
    filter: Option<Box<dyn Filter>>,
}

/// How it is spoken to.
pub(crate) enum Connection {
    /// HTTP/1.0 or 1.1.
    H1(Box<H1>),
    /// A stream of HTTP/2.
    H2(Box<H2>),
}

impl Client {
    /// The client at a connection.
    pub fn new(connection: Connection) -> Client {
        Client { connection, filter: None }
    }

    /// Its connection, for the next request.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// From now on its answers go through this, or straight to it.
    pub fn set_filter(&mut self, filter: Option<Box<dyn Filter>>) {
        self.filter = filter;
    }

    /// The answer's head, which goes out with the first piece of content. Its Content-Length, if it has one, says how
    /// much content there will be. Fields that frame the message are set here.
    pub async fn begin(&mut self, head: &ResponseHead, first: Bytes) -> Result<(), Left> {
        let Some(filter) = &mut self.filter else { return self.connection.begin(head, first).await };
        match filter.begin(head) {
            Some(head) => {
                let first = if first.is_empty() { first } else { filter.piece(first)? };
                self.connection.begin(&head, first).await
            }
            None => Ok(()),
        }
    }

    /// More of the answer's content.
    pub async fn piece(&mut self, piece: Bytes) -> Result<(), Left> {
        let piece = match &mut self.filter {
            Some(filter) => filter.piece(piece)?,
            None => piece,
        };
        if piece.is_empty() { Ok(()) } else { self.connection.piece(piece).await }
    }

    /// The content is whole. Without this the client is made to see that its answer is not.
    pub async fn end(&mut self) -> Result<(), Left> {
        if let Some(filter) = &mut self.filter {
            match filter.end() {
                None => return Ok(()),
                Some(last) if last.is_empty() => {}
                Some(last) => self.connection.piece(last).await?,
            }
        }
        self.connection.end().await
    }

    /// The whole of an answer that ends with its head. Where that can be said by content alone, it has none.
    pub async fn begin_and_end(&mut self, head: &ResponseHead) -> Result<(), Left> {
        if let (Connection::H2(h2), None) = (&mut self.connection, &self.filter) {
            return h2.begin_and_end(head);
        }
        self.begin(head, Bytes::new()).await?;
        self.end().await
    }

    /// [`Client::end`], with trailers where the answer can have them: over HTTP/2, if it was not changed on the way and its length was
    /// not announced.
    pub async fn end_with(&mut self, trailers: Option<HeaderMap>) -> Result<(), Left> {
        match (&mut self.connection, trailers) {
            (Connection::H2(h2), Some(trailers)) if self.filter.is_none() && h2.may_have_trailers() => {
                h2.end_with(trailers)
            }
            _ => self.end().await,
        }
    }

    /// An answer before the answer (RFC 9110 15.2); HTTP/1.0 knows none.
    pub async fn interim(&mut self, head: &ResponseHead) -> Result<(), Left> {
        self.connection.interim(head).await
    }

    /// The next piece of the request's content; `None` at its end. Dropped before it is ready, it has taken nothing.
    pub async fn read_content(&mut self) -> Result<Option<Bytes>, BadContent> {
        self.connection.read_content().await
    }

    /// Returns when the client has gone, once all of its request has been read.
    pub async fn gone(&mut self) {
        self.connection.gone().await;
    }

    /// Whether the answer's head has been sent, so that it is too late for another.
    pub fn has_begun(&self) -> bool {
        self.connection.has_begun()
    }

    /// Bytes of content that were sent.
    pub fn sent_bytes(&self) -> u64 {
        self.connection.sent_bytes()
    }

    /// No further request is taken from this connection.
    pub fn close_after(&mut self) {
        self.connection.close_after();
    }
}

impl Connection {
    async fn interim(&mut self, head: &ResponseHead) -> Result<(), Left> {
        match self {
            Connection::H1(h1) => h1.interim(head).await,
            Connection::H2(h2) => h2.interim(head).await,
        }
    }

    async fn begin(&mut self, head: &ResponseHead, first: Bytes) -> Result<(), Left> {
        match self {
            Connection::H1(h1) => h1.begin(head, first).await,
            Connection::H2(h2) => h2.begin(head, first).await,
        }
    }

    async fn piece(&mut self, piece: Bytes) -> Result<(), Left> {
        match self {
            Connection::H1(h1) => h1.piece(piece).await,
            Connection::H2(h2) => h2.piece(piece).await,
        }
    }

    async fn end(&mut self) -> Result<(), Left> {
        match self {
            Connection::H1(h1) => h1.end().await,
            Connection::H2(h2) => h2.end().await,
        }
    }

    async fn read_content(&mut self) -> Result<Option<Bytes>, BadContent> {
        match self {
            Connection::H1(h1) => h1.read_content().await,
            Connection::H2(h2) => h2.read_content().await,
        }
    }

    async fn gone(&mut self) {
        match self {
            Connection::H1(h1) => h1.gone().await,
            Connection::H2(h2) => h2.gone().await,
        }
    }

    fn has_begun(&self) -> bool {
        match self {
            Connection::H1(h1) => h1.has_begun(),
            Connection::H2(h2) => h2.has_begun(),
        }
    }

    fn sent_bytes(&self) -> u64 {
        match self {
            Connection::H1(h1) => h1.sent_bytes(),
            Connection::H2(h2) => h2.sent_bytes(),
        }
    }

    fn close_after(&mut self) {
        match self {
            Connection::H1(h1) => h1.close_after(),
            // Its other streams have nothing to do with this one.
            Connection::H2(_) => {}
        }
    }
}
