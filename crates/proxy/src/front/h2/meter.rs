//! Counting the frames of one connection as they come (RFC 9113 4.1). Nothing is judged here but their number.

use std::ops::Range;
use std::time::Instant;

use super::limits::{Buckets, Flood, SMALL_DATA_BYTES, UNSEEN_HEAD_BYTES};

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

/// Bytes of header blocks that `h2` has, and that nobody has looked at.
#[derive(Debug, Default)]
struct Heads {
    /// Of the block that is on its way.
    block: usize,
    /// Of whole blocks that open streams.
    unseen: usize,
    /// Of blocks behind content, which `h2` has as long as their streams.
    trailers: usize,
    /// The block on its way is one of these.
    is_trailer: bool,
}

impl Heads {
    fn end_block(&mut self) {
        let whole = if self.is_trailer { &mut self.trailers } else { &mut self.unseen };
        *whole += std::mem::take(&mut self.block);
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

    /// Bytes of header blocks that `h2` has for nobody yet, and of trailers.
    pub fn unseen_heads(&self) -> usize {
        self.heads.block + self.heads.unseen + self.heads.trailers
    }

    /// Whether so many requests wait that no more should be read before somebody looks at them.
    pub fn has_unseen_requests(&self) -> bool {
        self.heads.unseen >= UNSEEN_HEAD_BYTES
    }

    /// All requests have been looked at that came so far; of `streams` some are being carried out.
    pub fn all_seen(&mut self, streams: usize) {
        self.heads.unseen = 0;
        if streams == 0 {
            self.heads.trailers = 0;
        }
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
                self.heads.block += self.skip;
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
        assert_eq!((meter.unseen_heads(), meter.has_unseen_requests()), (100, false));
        meter.read(&frame(CONTINUATION, END_HEADERS, &vec![0; UNSEEN_HEAD_BYTES]), now);
        assert_eq!((meter.unseen_heads(), meter.has_unseen_requests()), (UNSEEN_HEAD_BYTES + 100, true));
        meter.all_seen(1);
        assert_eq!((meter.unseen_heads(), meter.has_unseen_requests()), (0, false));
        // A block that is on its way is nobody's yet, whoever has been looked at.
        meter.read(&head(0, 3, 300), now);
        meter.all_seen(1);
        meter.read(&frame(CONTINUATION, END_HEADERS, &[0; 7]), now);
        meter.all_seen(2);
        assert_eq!(meter.unseen_heads(), 0);
        // Trailers stay as long as there is any stream, and are no reason to read no further: content may be awaited.
        meter.read(&head(END_HEADERS, 3, UNSEEN_HEAD_BYTES), now);
        meter.all_seen(1);
        assert_eq!((meter.unseen_heads(), meter.has_unseen_requests()), (UNSEEN_HEAD_BYTES, false));
        meter.all_seen(0);
        assert_eq!(meter.unseen_heads(), 0);
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
