//! One request and its answer on a stream of an HTTP/2 connection to an origin (RFC 9113 8.1).
//!
//! An answer's head is written as the HTTP/1.1 head it means, and judged as such: a second judge would differ from the
//! first some day. Its content ends where the origin ends the stream, and has to have the length it was said to have.
//! Dropped before it is whole, the stream is reset. Memory: what the origin may send unasked, [`STREAM_BYTES`].

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::h2::client::ResponseFuture;
use ::h2::{Reason, RecvStream, SendStream};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use tinaja_http::answer::{AnswerEnd, judge_answer};
use tinaja_http::http2::CONNECTION_FIELDS;
use tinaja_http::lines::header_map;
use tinaja_http::message::{BadField, Fields, RequestHead, ResponseHead};

use super::h1::header_of;
use super::reach::Reach;
use super::session::Seat;
use crate::failure::Failure;

/// So much of an answer may come before it is read.
pub(super) const STREAM_BYTES: u32 = 256 * 1024;

/// One stream.
pub(super) struct H2 {
    seat: Seat,
    reach: Arc<Reach>,
    pub tls: bool,
    answer: Option<ResponseFuture>,
    sending: Option<SendStream<Bytes>>,
    content: Option<RecvStream>,
    head_only: bool,
    /// How much of the content is to come, if that was said.
    left: Option<u64>,
    ended: bool,
    pub has_answered: bool,
    /// The origin has said that it has not looked at the request.
    pub is_unprocessed: bool,
    /// The connection has ended, and with it every stream of it.
    pub is_lost: bool,
    failed: Option<Failure>,
    /// What came behind the content, if the request said that its client takes that.
    trailers: Option<HeaderMap>,
    takes_trailers: bool,
    ended_with_head: bool,
}

impl H2 {
    /// A stream, to be opened by its request. `tls` says which scheme the request has.
    pub fn new(seat: Seat, reach: Arc<Reach>, tls: bool) -> H2 {
        H2 {
            seat,
            reach,
            tls,
            answer: None,
            sending: None,
            content: None,
            head_only: false,
            left: None,
            ended: false,
            has_answered: false,
            is_unprocessed: false,
            is_lost: false,
            failed: None,
            trailers: None,
            takes_trailers: false,
            ended_with_head: false,
        }
    }

    /// No further request goes to its connection.
    pub fn retire(&self) {
        self.seat.retire();
    }

    /// Sends a request's head. Content follows if the head says so.
    pub async fn send(&mut self, head: &RequestHead) -> Result<(), Failure> {
        self.head_only = head.method == Method::HEAD;
        self.takes_trailers = head.headers.contains_key(TE);
        let request = request(head, self.tls).ok_or_else(|| Failure::Internal("HTTP/2 has no such request".into()))?;
        let announced = head.headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0");
        let with_content = announced || head.headers.contains_key(TRANSFER_ENCODING);
        let ready = self
            .reach
            .clock
            .timeout(self.reach.stall, self.seat.requests().ready())
            .await
            .map_err(|_| Failure::OriginTimeout)?;
        let sent = ready.and_then(|mut requests| requests.send_request(request, !with_content));
        let (answer, sending) = sent.map_err(|error| {
            // Nothing was sent: the connection has ended, or was told to.
            self.seat.retire();
            self.is_unprocessed = true;
            failure(&error)
        })?;
        (self.answer, self.sending) = (Some(answer), with_content.then_some(sending));
        Ok(())
    }

    /// Sends more of a request's content. Whether it was sent: an origin that takes no more may have answered.
    pub async fn send_content(&mut self, mut piece: Bytes) -> bool {
        let Some(sending) = &mut self.sending else { return piece.is_empty() };
        while !piece.is_empty() {
            sending.reserve_capacity(piece.len());
            let room = self.reach.clock.timeout(self.reach.stall, poll_fn(|cx| sending.poll_capacity(cx))).await;
            let Ok(Some(Ok(room))) = room else { return false };
            let part = piece.split_to(room.min(piece.len()));
            if sending.send_data(part, false).is_err() {
                return false;
            }
        }
        true
    }

    /// All of a request has been sent.
    pub async fn end_content(&mut self) -> bool {
        self.sending.take().is_none_or(|mut sending| sending.send_data(Bytes::new(), true).is_ok())
    }

    /// The rest of the request's content is never sent, which resets the stream.
    pub fn give_up_content(&mut self) {
        if let Some(mut sending) = self.sending.take() {
            sending.send_reset(Reason::CANCEL);
        }
    }

    /// The next head, an interim one or the final one. Dropped before it is ready, it has taken nothing.
    pub async fn read_head(&mut self) -> Result<ResponseHead, Failure> {
        let (clock, stall) = (self.reach.clock.clone(), self.reach.stall);
        let head =
            clock.timeout(stall, poll_fn(|cx| self.poll_head(cx))).await.unwrap_or(Err(Failure::OriginTimeout))?;
        self.has_answered = true;
        let (status, fields) = head;
        let raw = as_http1(status, &fields);
        let judged = judge_answer(&raw).map_err(|bad| Failure::Origin(bad.to_string()))?;
        let read = header_map(&raw.slice(judged.fields.clone()), |_| true).map(Fields::of_http2);
        let made = header_of(&judged, read.ok_or(BadField));
        let mut made = made.ok_or_else(|| Failure::Origin("its answer has fields that cannot be passed on".into()))?;
        made.version = Version::HTTP_2;
        if !status.is_informational() {
            let none = self.head_only || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
            self.left = match judged.end {
                _ if none => Some(0),
                AnswerEnd::Length(length) => Some(length),
                AnswerEnd::Close => None,
                AnswerEnd::Chunked => return Err(Failure::Origin("its answer is malformed".into())),
            };
            self.ended = none;
        }
        Ok(made)
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(StatusCode, HeaderMap), Failure>> {
        let gone = || Failure::Internal("the answer's head was read already".into());
        let Some(answer) = &mut self.answer else { return Poll::Ready(Err(gone())) };
        if let Poll::Ready(Some(interim)) = answer.poll_informational(cx) {
            let interim = interim.map(|head| (head.status(), head.into_parts().0.headers));
            return Poll::Ready(interim.map_err(|error| self.note(&error)));
        }
        match Pin::new(answer).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(response)) => {
                let (parts, content) = response.into_parts();
                self.ended_with_head = content.is_end_stream();
                (self.answer, self.content) = (None, Some(content));
                Poll::Ready(Ok((parts.status, parts.headers)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.note(&error))),
        }
    }

    /// The next piece of the answer's content; `None` at its end. An error comes again with each further call. Dropped
    /// before it is ready, it has taken nothing.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let (clock, stall) = (self.reach.clock.clone(), self.reach.stall);
        let read = clock.timeout(stall, self.next_piece()).await.unwrap_or(Err(Failure::OriginTimeout));
        self.failed = read.as_ref().err().cloned();
        read
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let Some(content) = self.content.as_mut().filter(|_| !self.ended) else { return Ok(None) };
            match content.data().await {
                Some(Ok(piece)) => {
                    // It may send as much again.
                    let _ = content.flow_control().release_capacity(piece.len());
                    if let Some(left) = &mut self.left {
                        let more = || Failure::Origin("its answer is longer than it said".into());
                        *left = left.checked_sub(piece.len() as u64).ok_or_else(more)?;
                    }
                    if !piece.is_empty() {
                        return Ok(Some(piece));
                    }
                }
                Some(Err(error)) => return Err(self.note(&error)),
                None => {
                    // Trailers end here, as they do over HTTP/1, but for a client that takes them; malformed ones make the whole
                    // answer so.
                    let trailers = content.trailers().await;
                    let trailers = trailers.map_err(|error| self.note(&error))?;
                    self.trailers = trailers.filter(|_| self.takes_trailers);
                    if self.left.is_some_and(|left| left > 0) {
                        return Err(Failure::Origin("its answer ended early".into()));
                    }
                    self.ended = true;
                }
            }
        }
    }

    /// Whether the stream ended with the answer's head.
    pub fn ended_with_head(&self) -> bool {
        self.ended_with_head
    }

    /// The trailers, once the content has ended.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    /// Whether all of the answer has been read.
    pub fn is_done(&self) -> bool {
        let at_end = self.content.as_ref().is_some_and(RecvStream::is_end_stream) && self.failed.is_none();
        // Where trailers may come, only the end of the stream says that there are none.
        self.ended || (self.left == Some(0) && !self.takes_trailers) || (at_end && matches!(self.left, None | Some(0)))
    }

    fn note(&mut self, error: &::h2::Error) -> Failure {
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        // Streams up to the last one that GOAWAY names go on; this one was behind it (RFC 9113 6.8).
        self.is_unprocessed |= !self.has_answered && error.is_remote() && (refused || error.is_go_away());
        if error.is_go_away() || error.is_io() {
            self.is_lost = true;
            self.seat.retire();
        }
        failure(error)
    }
}

fn failure(error: &::h2::Error) -> Failure {
    Failure::Origin(match error.reason() {
        Some(reason) if error.is_reset() && error.is_remote() => format!("it reset the stream: {reason}"),
        Some(reason) if error.is_go_away() && error.is_remote() => format!("it ended the connection: {reason}"),
        Some(reason) => format!("it broke the rules of HTTP/2: {reason}"),
        None => format!("its connection failed: {error}"),
    })
}

/// A request as `h2` takes it. Nothing for what HTTP/2 cannot say.
fn request(head: &RequestHead, tls: bool) -> Option<Request<()>> {
    let host = head.headers.get(HOST)?.to_str().ok()?;
    let path = PathAndQuery::from_maybe_shared(head.target.clone()).ok()?;
    if path.as_str().as_bytes() != head.target {
        return None;
    }
    let uri = Uri::builder().scheme(if tls { "https" } else { "http" }).authority(host).path_and_query(path);
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri.build().ok()?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = head.headers.as_map().clone();
    request.headers_mut().remove(HOST);
    for name in &CONNECTION_FIELDS {
        request.headers_mut().remove(name);
    }
    Some(request)
}

/// The HTTP/1.1 head that an HTTP/2 one means.
fn as_http1(status: StatusCode, fields: &HeaderMap) -> Bytes {
    let mut raw = BytesMut::with_capacity(1024);
    raw.put_slice(b"HTTP/1.1 ");
    raw.put_slice(status.as_str().as_bytes());
    raw.put_slice(b" \r\n");
    for (name, value) in fields {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            raw.put_slice(part);
        }
    }
    raw.put_slice(b"\r\n");
    raw.freeze()
}
