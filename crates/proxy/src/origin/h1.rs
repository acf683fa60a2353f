//! One request and its answer over HTTP/1.1 (RFC 9112): the request on the wire, and the answer off it.
//!
//! Where an answer ends is decided here and nowhere else: what comes behind its end is nobody's, and what ends before it
//! is not whole.

use std::mem;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TE, TRANSFER_ENCODING};
use http::{Method, StatusCode, Version};
use tinaja_http::answer::{AnswerEnd, JudgedAnswer, answer_head_end, judge_answer};
use tinaja_http::body::{BodyWalk, Framing};
use tinaja_http::hops;
use tinaja_http::message::{BadField, Fields, RequestHead, ResponseHead};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::handshake;
use super::reach::Reach;
use super::rooms::{HEAD_READ_BYTES, Room, Rooms};
use super::wire::{PoolKey, Wire};
use crate::failure::Failure;

/// Content that came with its head is copied if it is shorter, so that a few bytes do not hold room for many.
const COPIED_BYTES: usize = HEAD_READ_BYTES / 4;
/// And of content: as much as a socket usually holds, and what a disk is given in one piece.
const READ_BYTES: usize = 64 * 1024;
/// Pieces smaller than this are gathered, as far as they have come.
const GATHERED_BYTES: usize = 16 * 1024;

/// A connection with one request on it. Memory: one read, or a head.
pub(super) struct H1 {
    wire: Wire,
    /// Which connections may take each other's place.
    place: PoolKey,
    reach: Arc<Reach>,
    /// Something of an answer has come.
    pub has_answered: bool,
    /// The answer to HEAD has no content.
    head_only: bool,
    chunked_request: bool,
    room: Room,
    /// The most bytes that its room was to hold at once.
    most_held: usize,
    content: Content,
    /// What is waiting came with the head.
    with_head: bool,
    /// Another request may follow.
    keep: bool,
    /// Reading the answer has failed, and does so from then on.
    failed: Option<Failure>,
}

/// How an answer's content is framed, and how far it has been read.
enum Content {
    /// Its head has not come.
    Unknown,
    Framed(BodyWalk),
    UntilClose,
    Ended,
}

impl H1 {
    /// A connection, which may take that of others of the same place.
    pub fn new(wire: Wire, place: PoolKey, reach: Arc<Reach>, room: Room, keep: bool) -> H1 {
        H1 {
            wire,
            place,
            reach,
            has_answered: false,
            head_only: false,
            chunked_request: false,
            room,
            most_held: 0,
            content: Content::Unknown,
            with_head: true,
            keep,
            failed: None,
        }
    }

    /// What is kept of it, if its answer was whole and nothing else came.
    pub fn reusable(mut self, rooms: &Rooms) -> Option<(Wire, PoolKey, Arc<Reach>)> {
        let clean = self.is_done() && self.keep && self.room.answer.is_empty();
        if clean {
            rooms.put(self.room, self.most_held);
        }
        clean.then_some((self.wire, self.place, self.reach))
    }

    /// What it consists of, for what comes behind HTTP.
    pub fn into_raw(self) -> (Wire, BytesMut) {
        (self.wire, self.room.answer)
    }

    /// Sends a request's head.
    pub async fn send(&mut self, head: &RequestHead) -> Result<(), Failure> {
        self.head_only = head.method == Method::HEAD;
        self.chunked_request = head.headers.contains_key(TRANSFER_ENCODING);
        let mut wire = mem::take(&mut self.room.request);
        wire.clear();
        wire.reserve(1024);
        if head.headers.contains_key(TE) {
            // Its trailers would end here.
            let mut plain = head.clone();
            plain.headers.remove(&TE);
            plain.write_to(&mut wire);
        } else {
            head.write_to(&mut wire);
        }
        let sent = self.write(&[&wire]).await;
        self.room.request = wire;
        sent
    }

    /// Sends more of a request's content. An origin that takes no more may have answered already: whether it has is
    /// seen when that is read, and the connection is of no further use. Whether it was sent.
    pub async fn send_content(&mut self, piece: Bytes) -> bool {
        if piece.is_empty() {
            return true;
        }
        let size = if self.chunked_request { format!("{:x}\r\n", piece.len()) } else { String::new() };
        let end: &[u8] = if self.chunked_request { b"\r\n" } else { b"" };
        self.write(&[size.as_bytes(), &piece, end]).await.is_ok()
    }

    /// All of a request has been sent.
    pub async fn end_content(&mut self) -> bool {
        let end: &[u8] = if self.chunked_request { b"0\r\n\r\n" } else { b"" };
        self.write(&[end]).await.is_ok()
    }

    /// No more of the request's content is sent, though there is more.
    pub fn give_up_content(&mut self) {
        self.keep = false;
    }

    async fn write(&mut self, parts: &[&[u8]]) -> Result<(), Failure> {
        let H1 { wire: Wire { stream, .. }, reach, .. } = self;
        let written = reach.clock.timeout(reach.stall, async {
            for part in parts {
                stream.write_all(part).await?;
            }
            stream.flush().await
        });
        let written = match written.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => Failure::Origin(format!("it took no more: {error}")),
            Err(_) => Failure::OriginTimeout,
        };
        self.keep = false;
        Err(written)
    }

    /// The next head: of an interim answer, or of the final one. It has `origin_stall` to come whole. Dropped before it
    /// is ready, it has taken nothing.
    pub async fn read_head(&mut self) -> Result<ResponseHead, Failure> {
        let (clock, stall) = (self.reach.clock.clone(), self.reach.stall);
        let head = clock.timeout(stall, self.whole_head()).await.unwrap_or(Err(Failure::OriginTimeout));
        let head = head.inspect_err(|_| self.keep = false)?;
        let judged = judge_answer(&head).map_err(|bad| {
            self.keep = false;
            Failure::Origin(bad.to_string())
        })?;
        let made = header_of(&judged, Fields::of_lines(&head.slice(judged.fields.clone())));
        let made = made.ok_or_else(|| Failure::Origin("its answer has fields that cannot be passed on".into()))?;
        if !judged.status.is_informational() {
            self.keep &= !hops::closes(&made.headers, judged.http11);
            self.content = match judged.end {
                _ if self.head_only || matches!(judged.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) => {
                    Content::Ended
                }
                AnswerEnd::Length(length) => Content::Framed(BodyWalk::of_answer(Framing::Length(length))),
                AnswerEnd::Chunked => Content::Framed(BodyWalk::of_answer(Framing::Chunked)),
                AnswerEnd::Close => Content::UntilClose,
            };
        }
        Ok(made)
    }

    async fn whole_head(&mut self) -> Result<Bytes, Failure> {
        let mut seen = 0;
        loop {
            let end = answer_head_end(&self.room.answer, seen).map_err(|bad| Failure::Origin(bad.to_string()))?;
            if let Some(end) = end {
                return Ok(self.room.answer.split_to(end).freeze());
            }
            seen = self.room.answer.len();
            if self.read_more(HEAD_READ_BYTES).await? == 0 {
                return Err(Failure::Origin("it closed the connection without an answer".into()));
            }
        }
    }

    /// Reads some more; 0 at the connection's end.
    async fn read_more(&mut self, room: usize) -> Result<usize, Failure> {
        let answer = &mut self.room.answer;
        self.most_held = self.most_held.max(answer.len() + room);
        answer.reserve(room);
        let read = self.wire.stream.read_buf(answer).await;
        let read =
            read.map_err(|error| Failure::Origin(format!("its connection failed: {}", handshake::reason(&error))))?;
        self.has_answered |= read > 0;
        Ok(read)
    }

    /// The next piece of the answer's content; `None` at its end, which is where the answer's frame says it is. An error
    /// comes again with each further call. Dropped before it is ready, it has taken nothing.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let (clock, stall) = (self.reach.clock.clone(), self.reach.stall);
        let read = match clock.timeout(stall, self.next_piece()).await {
            Ok(read) => read,
            Err(_) => Err(Failure::OriginTimeout),
        };
        if let Err(failure) = &read {
            self.keep = false;
            self.failed = Some(failure.clone());
        }
        read
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match &mut self.content {
                Content::Unknown | Content::Ended => return Ok(None),
                Content::Framed(walk) => {
                    let bad = |_| Failure::Origin("its answer is malformed".into());
                    let with_head = mem::take(&mut self.with_head);
                    let piece = walk.next_data(&mut self.room.answer).map_err(bad)?;
                    if piece.is_some() || walk.done() {
                        let piece = piece.map(|piece| gathered(piece, walk, &mut self.room.answer));
                        let copied = |piece: &Bytes| with_head && piece.len() < COPIED_BYTES;
                        return Ok(
                            piece.map(|piece| if copied(&piece) { Bytes::copy_from_slice(&piece) } else { piece })
                        );
                    }
                }
                Content::UntilClose if !self.room.answer.is_empty() => {
                    return Ok(Some(self.room.answer.split().freeze()));
                }
                Content::UntilClose => {}
            }
            if self.read_more(self.room()).await? > 0 {
                continue;
            }
            if !matches!(self.content, Content::UntilClose) {
                return Err(Failure::Origin("its answer ended early".into()));
            }
            self.keep = false;
            self.content = Content::Ended;
        }
    }

    /// Room for what is read next: no more than what is left, and one byte, so that surplus shows.
    fn room(&self) -> usize {
        let left = match &self.content {
            Content::Framed(walk) => walk.left(),
            _ => None,
        };
        left.and_then(|left| usize::try_from(left).ok())
            .map_or(READ_BYTES, |left| READ_BYTES.min(left.saturating_add(1)))
    }

    /// Whether nothing says where the answer ends but that its connection does, which may break as well.
    pub fn ends_with_answer(&self) -> bool {
        matches!(self.content, Content::UntilClose)
    }

    /// Whether all of the answer has been read.
    pub fn is_done(&mut self) -> bool {
        match &self.content {
            Content::Ended => true,
            Content::Framed(walk) => walk.done(),
            Content::Unknown | Content::UntilClose => false,
        }
    }
}

/// A small piece together with those behind it that have come already: an answer in chunks of a byte must not go on as
/// so many packets or frames. What is malformed further on is met by the next call.
fn gathered(piece: Bytes, walk: &mut BodyWalk, waiting: &mut BytesMut) -> Bytes {
    if piece.len() >= GATHERED_BYTES || waiting.is_empty() {
        return piece;
    }
    let mut all = BytesMut::from(&piece[..]);
    while all.len() < GATHERED_BYTES
        && let Ok(Some(more)) = walk.next_data(waiting)
    {
        all.extend_from_slice(&more);
    }
    all.freeze()
}

/// A head with these fields.
pub(super) fn header_of(judged: &JudgedAnswer, headers: Result<Fields, BadField>) -> Option<ResponseHead> {
    let version = if judged.http11 { Version::HTTP_11 } else { Version::HTTP_10 };
    let mut made = ResponseHead { status: judged.status, version, headers: headers.ok()? };
    // One way to write a number: as a rule it is written so already.
    let is_plain = |length: &http::HeaderValue| length == "0" || !length.as_bytes().starts_with(b"0");
    if let AnswerEnd::Length(length) = judged.end
        && !made.headers.get(CONTENT_LENGTH).is_some_and(is_plain)
    {
        made.headers.insert(CONTENT_LENGTH, length).ok()?;
    }
    Some(made)
}
