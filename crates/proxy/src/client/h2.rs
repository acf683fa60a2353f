//! A client that speaks HTTP/2: one stream of its connection (RFC 9113 8.1).
//!
//! Of an answer no more is in memory than the piece in hand and what `h2` took for the connection; a piece waits until
//! the client's window has room. Dropped before its answer was whole, it resets the stream behind what was sent.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use ::h2::SendStream;
use ::h2::server::SendResponse;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode, Version};
use tinaja_http::http2::CONNECTION_FIELDS;
use tinaja_http::message::ResponseHead;
use tokio::sync::OwnedSemaphorePermit;

use super::content::Content;
use super::queue::{Queue, Queued};
use super::{BadContent, Left, Patience};

/// One request's client. The connection is another task's; a drop is seen there, and resets what is not whole.
pub(crate) struct H2 {
    /// The request's place in the crowd. It is free before the answer's end, or its reset, is on its way: whoever has that may
    /// ask again at once. So it stands first here, and is dropped first.
    place: Option<OwnedSemaphorePermit>,
    respond: SendResponse<Queued>,
    /// What `h2` has of the connection's answers.
    queue: Queue,
    /// The answer's content, once its head has been sent.
    sending: Option<SendStream<Queued>>,
    content: Content,
    /// The request was HEAD: its answer has no content, whatever it says of its length.
    head_only: bool,
    patience: Patience,
    progress: Progress,
    sent_bytes: u64,
}

/// How far the answer has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Unsent,
    /// So many bytes are still to come, if that is known.
    Content(Option<u64>),
    Whole,
}

impl H2 {
    /// The client of a request that came on one stream.
    pub fn new(
        (respond, queue): (SendResponse<Queued>, Queue),
        content: Content,
        head_only: bool,
        patience: Patience,
        place: Option<OwnedSemaphorePermit>,
    ) -> H2 {
        let (sending, progress, sent_bytes) = (None, Progress::Unsent, 0);
        H2 { place, respond, queue, sending, content, head_only, patience, progress, sent_bytes }
    }

    pub fn has_begun(&self) -> bool {
        self.progress != Progress::Unsent
    }

    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    pub async fn interim(&mut self, head: &ResponseHead) -> Result<(), Left> {
        self.respond.send_informational(response(head)).map_err(|_| Left)
    }

    pub async fn begin(&mut self, head: &ResponseHead, first: Bytes) -> Result<(), Left> {
        self.begin_with(response(head), first).await
    }

    /// The same with a head as `h2` takes it, without [`CONNECTION_FIELDS`].
    pub async fn begin_with(&mut self, head: Response<()>, first: Bytes) -> Result<(), Left> {
        self.progress = self.progress_of(&head);
        let ends = self.progress == Progress::Whole;
        if ends {
            self.place = None;
        }
        self.sending = Some(self.respond.send_response(head, ends).map_err(|_| Left)?);
        self.piece(first).await
    }

    pub async fn piece(&mut self, mut piece: Bytes) -> Result<(), Left> {
        let Progress::Content(left) = self.progress else {
            // Of an answer without content nothing but its head is sent.
            return Ok(());
        };
        // More than was announced would make the answer malformed (RFC 9113 8.1.1).
        let left = match left {
            Some(left) => Some(left.checked_sub(piece.len() as u64).ok_or(Left)?),
            None => None,
        };
        while !piece.is_empty() {
            let room = self.room(piece.len()).await?;
            let part = piece.split_to(room.min(piece.len()));
            let (count, ends) = (part.len() as u64, left == Some(0) && piece.is_empty());
            self.send(part, ends)?;
            self.sent_bytes += count;
        }
        self.progress = if left == Some(0) { Progress::Whole } else { Progress::Content(left) };
        Ok(())
    }

    pub async fn end(&mut self) -> Result<(), Left> {
        match self.progress {
            Progress::Whole => Ok(()),
            Progress::Content(None) => {
                self.progress = Progress::Whole;
                self.send(Bytes::new(), true)
            }
            // Shorter than it was said to be: the reset tells.
            Progress::Unsent | Progress::Content(Some(_)) => Err(Left),
        }
    }

    /// A whole answer that is not waited for: where the client's window has no room for all of it, the stream is reset.
    pub fn begin_at_once(&mut self, head: &ResponseHead, body: Bytes) -> Result<(), Left> {
        let head = response(head);
        self.progress = self.progress_of(&head);
        self.place = None;
        let ends = self.progress == Progress::Whole || body.is_empty();
        let mut sending = self.respond.send_response(head, ends).map_err(|_| Left)?;
        if !ends {
            sending.reserve_capacity(body.len());
            if sending.capacity() < body.len() {
                return Err(Left);
            }
            self.sent_bytes = body.len() as u64;
            sending.send_data(self.queue.put(body), true).map_err(|_| Left)?;
        }
        self.progress = Progress::Whole;
        Ok(())
    }

    /// An answer that ends with its head, as a call that failed at once does.
    pub fn begin_and_end(&mut self, head: &ResponseHead) -> Result<(), Left> {
        (self.progress, self.place) = (Progress::Whole, None);
        self.sending = Some(self.respond.send_response(response(head), true).map_err(|_| Left)?);
        Ok(())
    }

    /// Whether content of no announced length has come, and may have more behind it.
    pub fn may_have_trailers(&self) -> bool {
        self.progress == Progress::Content(None)
    }

    /// Ends such an answer.
    pub fn end_with(&mut self, trailers: HeaderMap) -> Result<(), Left> {
        (self.progress, self.place) = (Progress::Whole, None);
        self.sending.as_mut().ok_or(Left)?.send_trailers(trailers).map_err(|_| Left)
    }

    pub async fn read_content(&mut self) -> Result<Option<Bytes>, BadContent> {
        self.content.next(&self.patience).await
    }

    /// Returns when the client has reset the stream, or its connection has ended.
    pub async fn gone(&mut self) {
        let _ = match &mut self.sending {
            Some(sending) => poll_fn(|cx| sending.poll_reset(cx)).await,
            None => poll_fn(|cx| self.respond.poll_reset(cx)).await,
        };
    }

    fn progress_of(&self, head: &Response<()>) -> Progress {
        let none = self.head_only || matches!(head.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match head.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok()) {
            _ if none => Progress::Whole,
            Some(0) => Progress::Whole,
            length => Progress::Content(length),
        }
    }

    /// Waits until some of so many bytes may be sent.
    async fn room(&mut self, wanted: usize) -> Result<usize, Left> {
        let sending = self.sending.as_mut().ok_or(Left)?;
        sending.reserve_capacity(wanted);
        // Nearly always there is: then nothing is waited for, and no timer made.
        let room = sending.capacity();
        if room > 0 {
            return Ok(room);
        }
        match self.patience.holding(wanted, poll_fn(|cx| poll_room(sending, cx))).await {
            Some(Some(Ok(room))) => Ok(room),
            _ => Err(Left),
        }
    }

    fn send(&mut self, part: Bytes, ends: bool) -> Result<(), Left> {
        if ends {
            self.place = None;
        }
        self.sending.as_mut().ok_or(Left)?.send_data(self.queue.put(part), ends).map_err(|_| Left)
    }
}

/// Waits for room. What was assigned before and is spent already may be told of once more.
fn poll_room(sending: &mut SendStream<Queued>, cx: &mut Context<'_>) -> Poll<Option<Result<usize, ::h2::Error>>> {
    loop {
        match ready!(sending.poll_capacity(cx)) {
            Some(Ok(0)) => {}
            room => return Poll::Ready(room),
        }
    }
}

/// A head as `h2` takes it.
fn response(head: &ResponseHead) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = head.status;
    *response.version_mut() = Version::HTTP_2;
    *response.headers_mut() = head.headers.as_map().clone();
    for name in &CONNECTION_FIELDS {
        response.headers_mut().remove(name);
    }
    response
}
