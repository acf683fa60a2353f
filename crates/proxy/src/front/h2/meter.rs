//! Counting the frames of one connection as they come (RFC 9113 4.1). Only their number and the length of heads are judged here.

use std::ops::Range;
use std::time::Instant;

use super::limits::{Buckets, Flood, MAX_FRAME_BYTES, SMALL_DATA_BYTES, UNSEEN_HEAD_BYTES, block_bytes};
use crate::held::SMALL_HEAD_BYTES;

/// The connection preface (RFC 9113 3.4).
pub(in crate::front) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// On PING: it is the answer to one.
const ACK: u8 = 1;
/// On DATA and HEADERS: the client's part of the stream is whole.
const END_STREAM: u8 = 1;
/// On HEADERS and CONTINUATION: so is the header block.
const END_HEADERS: u8 = 4;

/// Counts frames.
#[derive(Debug)]
pub(super) struct Meter {
    /// Bytes until the next frame's header.
    skip: usize,
    /// As much of the next frame's header as has come.
    head: [u8; 9],
    filled: usize,
    buckets: Buckets,
    /// A header block ends with the frame that is passing by.
    ends_head: bool,
    /// Since when a header block has been on its way.
    pub head_since: Option<Instant>,
    /// What header blocks have brought.
    heads: Heads,
    /// The last stream that was opened.
    opened: u32,
    /// A request came that has content behind its head.
    pub brings_content: bool,
    /// The first limit that was exceeded.
    pub flood: Option<Flood>,
    /// Frames are not too many, however many they are: another node of the cluster sends for all of its clients.
    pub trusted: bool,
    /// Answers to PING are not to be known again.
    pub hides_pongs: bool,
    /// Such an answer is passing by.
    is_pong: bool,
    /// Where bytes of such answers were in what came last.
    hidden: Vec<Range<usize>>,
}

/// Header blocks that `h2` has: requests that nobody has looked at, and trailers.
#[derive(Debug, Default)]
struct Heads {
    /// Bytes of the block that is on its way.
    block: usize,
    /// What whole blocks that open streams may take in memory.
    unseen: usize,
    /// Bytes of these since somebody last looked, or `h2` refused them.
    since: usize,
    /// What blocks behind content may take, which `h2` has as long as their streams.
    trailers: usize,
    /// The block on its way is one of these.
    is_trailer: bool,
}

impl Heads {
    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if self.is_trailer {
            self.trailers += block_bytes(block);
        } else {
            self.unseen += block_bytes(block);
            self.since += block;
        }
    }
}

impl Meter {
    pub fn new(now: Instant) -> Meter {
        let buckets = Buckets::new(now);
        Meter {
            skip: PREFACE.len(),
            head: [0; 9],
            filled: 0,
            buckets,
            ends_head: false,
            head_since: None,
            heads: Heads::default(),
            opened: 0,
            brings_content: false,
            flood: None,
            trusted: false,
            hides_pongs: false,
            is_pong: false,
            hidden: Vec::new(),
        }
    }

    /// So many bytes were sent to the client.
    pub fn wrote(&mut self, bytes: usize) {
        self.buckets.sent(bytes);
    }

    /// These bytes came from the client.
    pub fn read(&mut self, mut bytes: &[u8], now: Instant) {
        let all = bytes.len();
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            if self.is_pong && self.hides_pongs {
                let at = all - bytes.len();
                self.hidden.push(at..at + passed);
            }
            self.skip -= passed;
            bytes = bytes.get(passed..).unwrap_or_default();
            if self.skip == 0 && self.ends_head {
                self.end_block();
            }
            let wanted = self.head.len() - self.filled;
            let count = wanted.min(bytes.len());
            for (to, from) in self.head.iter_mut().skip(self.filled).zip(bytes.iter().take(count)) {
                *to = *from;
            }
            bytes = bytes.get(count..).unwrap_or_default();
            self.filled += count;
            if self.filled == self.head.len() {
                self.filled = 0;
                self.frame(now);
            }
        }
        if self.skip == 0 && self.ends_head {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        (self.ends_head, self.head_since) = (false, None);
        self.heads.end_block();
    }

    /// What heads that nobody has looked at may take in memory, and trailers. No more of these than `streams` that are being carried out can have; a few
    /// bytes for each are part of what a stream counts.
    pub fn unseen_heads(&self, streams: usize) -> usize {
        let trailers = self.heads.trailers.min(streams.saturating_mul(block_bytes(UNSEEN_HEAD_BYTES)));
        let trailers = if trailers > streams.saturating_mul(SMALL_HEAD_BYTES) { trailers } else { 0 };
        block_bytes(self.heads.block) + self.heads.unseen + trailers
    }

    /// Whether so many requests wait that no more should be read before somebody looks at them.
    pub fn has_unseen_requests(&self) -> bool {
        self.heads.since >= UNSEEN_HEAD_BYTES
    }

    /// All requests that came so far have been looked at.
    pub fn all_seen(&mut self) {
        self.heads.unseen = 0;
        self.reads_on();
    }

    /// Reading goes on, though nobody has looked at what came.
    pub fn reads_on(&mut self) {
        self.heads.since = 0;
    }

    /// One of so many streams is over, and its trailers are gone: nobody knows how long those were.
    pub fn stream_ended(&mut self, streams: usize) {
        self.heads.trailers -= self.heads.trailers / streams.max(1);
    }

    /// Makes the answers to PING that were among `bytes`, the last that were read, those to another PING.
    pub fn hide(&mut self, bytes: &mut [u8]) {
        for place in self.hidden.drain(..) {
            bytes.get_mut(place).into_iter().flatten().for_each(|byte| *byte = !*byte);
        }
    }

    /// A frame's header is whole.
    fn frame(&mut self, now: Instant) {
        let [high, middle, low, kind, flags, id @ ..] = self.head;
        self.skip = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.is_pong = kind == PING && flags & ACK != 0;
        let buckets = &mut self.buckets;
        let (bucket, flood) = match kind {
            DATA if self.skip < SMALL_DATA_BYTES && flags & END_STREAM == 0 => {
                (&mut buckets.tiny_data, Flood::TinyData)
            }
            DATA => return,
            HEADERS | CONTINUATION => {
                self.head_since.get_or_insert(now);
                self.ends_head = flags & END_HEADERS != 0;
                self.brings_content |= kind == HEADERS && flags & END_STREAM == 0;
                if kind == HEADERS {
                    let stream = u32::from_be_bytes(id) & !(1 << 31);
                    self.heads.is_trailer = stream <= self.opened;
                    self.opened = self.opened.max(stream);
                }
                if self.skip <= MAX_FRAME_BYTES {
                    self.heads.block += self.skip;
                }
                return;
            }
            RST_STREAM => (&mut buckets.resets, Flood::Resets),
            SETTINGS => (&mut buckets.settings, Flood::Settings),
            PING => (&mut buckets.pings, Flood::Pings),
            WINDOW_UPDATE => (&mut buckets.window_updates, Flood::WindowUpdates),
            _ => (&mut buckets.idle, Flood::Idle),
        };
        if !self.trusted && !bucket.take(now) {
            self.flood.get_or_insert(flood);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn meter() -> (Meter, Instant) {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.read(PREFACE, now);
        (meter, now)
    }

    #[test]
    fn frames_are_found_however_the_bytes_come() {
        let frames = [frame(HEADERS, END_HEADERS, b"abc"), frame(DATA, 0, &[0; 300]), frame(PING, 0, &[0; 8])].concat();
        for piece in [1, 2, 7, 9, 10, 400] {
            let (mut meter, now) = meter();
            for _ in 0..100 {
                frames.chunks(piece).for_each(|bytes| meter.read(bytes, now));
            }
            assert_eq!((meter.flood, meter.head_since, meter.filled, meter.skip), (None, None, 0, 0), "{piece}");
            frames.chunks(piece).for_each(|bytes| meter.read(bytes, now));
            assert_eq!(meter.flood, Some(Flood::Pings), "{piece}");
        }
    }

    #[test]
    fn each_flood_has_its_limit() {
        for (kind, payload, within, flood) in [
            (DATA, 1, 1000, Some(Flood::TinyData)),
            (DATA, SMALL_DATA_BYTES, 5000, None),
            (RST_STREAM, 4, 200, Some(Flood::Resets)),
            (SETTINGS, 6, 20, Some(Flood::Settings)),
            (PING, 8, 100, Some(Flood::Pings)),
            (WINDOW_UPDATE, 4, 1000, Some(Flood::WindowUpdates)),
            (2, 5, 500, Some(Flood::Idle)),
            (200, 0, 500, Some(Flood::Idle)),
        ] {
            let (mut meter, now) = meter();
            for _ in 0..within {
                meter.read(&frame(kind, 0, &vec![0; payload]), now);
            }
            assert_eq!(meter.flood, None, "{kind}");
            meter.read(&frame(kind, 0, &vec![0; payload]), now);
            assert_eq!(meter.flood, flood, "{kind}");
        }
    }

    #[test]
    fn what_was_sent_earns_window_updates() {
        let (mut meter, now) = meter();
        meter.wrote(1 << 20);
        for _ in 0..3000 {
            meter.read(&frame(WINDOW_UPDATE, 0, &[0; 4]), now);
        }
        assert_eq!(meter.flood, None);
    }

    #[test]
    fn answers_to_ping_are_hidden_and_nothing_else() {
        let ping = frame(PING, 0, b"question");
        let pong = frame(PING, ACK, b"the ping");
        let hidden = frame(PING, ACK, &b"the ping".map(|byte| !byte));
        let rest = frame(HEADERS, END_HEADERS, b"the ping");
        for (hides, expected) in [(false, &pong), (true, &hidden)] {
            for piece in [1, 3, 9, 12, 100] {
                let (mut meter, now) = meter();
                meter.hides_pongs = hides;
                let mut came = [&ping[..], &pong, &rest].concat();
                for bytes in came.chunks_mut(piece) {
                    meter.read(bytes, now);
                    meter.hide(bytes);
                }
                assert_eq!(came, [&ping[..], expected, &rest].concat(), "{hides} {piece}");
            }
        }
    }

    /// Streams with heads of 60 KB were counted as small ones, and read as fast as they came: the kernel ended the process.
    #[test]
    fn heads_are_counted_until_somebody_looks_at_them() {
        let (mut meter, now) = meter();
        let head = |flags, stream: u8, bytes| {
            let mut frame = frame(HEADERS, flags, &vec![0; bytes]);
            frame[8] = stream;
            frame
        };
        meter.read(&head(0, 1, 100), now);
        assert_eq!((meter.unseen_heads(0), meter.has_unseen_requests()), (block_bytes(100), false));
        for _ in 0..3 {
            meter.read(&frame(CONTINUATION, 0, &[0; MAX_FRAME_BYTES]), now);
        }
        meter.read(&frame(CONTINUATION, END_HEADERS, &[0; MAX_FRAME_BYTES]), now);
        let most = block_bytes(UNSEEN_HEAD_BYTES + 100);
        assert_eq!((meter.unseen_heads(0), meter.has_unseen_requests()), (most, true));
        // Reading goes on where `h2` refuses what comes, and what it has stays counted.
        meter.reads_on();
        assert_eq!((meter.unseen_heads(0), meter.has_unseen_requests()), (most, false));
        meter.all_seen();
        assert_eq!((meter.unseen_heads(0), meter.has_unseen_requests()), (0, false));
        // A block that is on its way is nobody's yet, whoever has been looked at.
        meter.read(&head(0, 3, 300), now);
        meter.all_seen();
        assert_eq!(meter.unseen_heads(0), block_bytes(300));
        meter.read(&frame(CONTINUATION, END_HEADERS, &[0; 7]), now);
        meter.all_seen();
        assert_eq!(meter.unseen_heads(0), 0);
        // Each byte of a short one may be a field that was sent before.
        meter.read(&head(END_HEADERS, 5, 2000), now);
        assert!(meter.unseen_heads(0) > 140_000);
    }

    /// They are no reason to read no further: content may be awaited. Once counted, they stayed so as long as the connection had any stream.
    #[test]
    fn trailers_are_counted_as_long_as_their_streams() {
        let (mut meter, now) = meter();
        let trailers = |bytes| frame(HEADERS, END_HEADERS, &vec![0; bytes]);
        meter.read(&trailers(9), now);
        meter.all_seen();
        meter.read(&trailers(50), now);
        assert_eq!(meter.unseen_heads(1), 0, "a stream counts as much by itself");
        for _ in 0..8 {
            meter.read(&trailers(MAX_FRAME_BYTES), now);
        }
        let all = block_bytes(50) + 8 * block_bytes(MAX_FRAME_BYTES);
        let most = block_bytes(UNSEEN_HEAD_BYTES);
        assert_eq!((meter.unseen_heads(1), meter.unseen_heads(9), meter.has_unseen_requests()), (most, all, false));
        meter.stream_ended(2);
        assert_eq!(meter.unseen_heads(9), all / 2);
        meter.stream_ended(1);
        assert_eq!(meter.unseen_heads(9), 0);
    }

    /// `h2` takes no such frame and ends the connection: 33 bytes would have let all clients go for 16 MiB that nobody has.
    #[test]
    fn a_frame_that_is_too_long_counts_for_nothing() {
        for kind in [HEADERS, CONTINUATION] {
            let (mut meter, now) = meter();
            meter.read(&[0xFF, 0xFF, 0xFF, kind, END_STREAM, 0, 0, 0, 1], now);
            assert_eq!(meter.unseen_heads(1), 0);
        }
    }

    #[test]
    fn open_header_blocks_are_timed() {
        let (mut meter, now) = meter();
        let block = frame(HEADERS, END_HEADERS, b"abcdef");
        meter.read(&block[..12], now);
        assert_eq!(meter.head_since, Some(now));
        meter.read(&block[12..], now);
        assert_eq!(meter.head_since, None);
        meter.read(&frame(HEADERS, 0, b"a"), now);
        meter.read(&frame(CONTINUATION, 0, b""), now);
        assert_eq!(meter.head_since, Some(now));
        meter.read(&frame(CONTINUATION, END_HEADERS, b""), now);
        assert_eq!(meter.head_since, None);
    }
}
