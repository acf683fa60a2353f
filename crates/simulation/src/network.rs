//! Connections that are no sockets: with delays, windows, and ends that vanish.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tinaja_proxy::{Connecting, Link};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::events::Events;
use crate::frames::{Frames, Tags};
use crate::random::Random;

/// How a network is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Connections to origins in a thousand that are refused, and that nobody ever answers.
    pub refused: u64,
    /// See there.
    pub unanswered: u64,
    /// Directions of connections in a thousand that break, vanish or stand still for a while, after some bytes.
    pub broken: u64,
}

/// Less than this is sent only where there is no more.
const SEGMENT_BYTES: usize = 1460;

/// One direction of a connection.
#[derive(Debug)]
struct Way {
    queue: VecDeque<Piece>,
    queued: usize,
    window: usize,
    latency: Duration,
    last: Instant,
    fin: Option<Instant>,
    reset: bool,
    /// What is written from now on never arrives.
    vanished: bool,
    /// When its writer hears that nobody reads it any more.
    reader_gone: Option<Instant>,
    written: u64,
    fault: Option<(u64, Fault)>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    lost: Lost,
}

#[derive(Debug)]
struct Piece {
    arrives: Instant,
    bytes: Bytes,
    /// What is to be told once it has been read.
    tags: Vec<u64>,
    /// Some of it has been read.
    is_begun: bool,
}

/// Tags of what nobody will ever read.
type Lost = Arc<Mutex<Vec<u64>>>;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Reset,
    Vanish,
    Stand(Duration),
}

impl Way {
    fn reset(&mut self) {
        self.reset = true;
        self.lose();
        self.wake();
    }

    /// What is on its way is not read any more.
    fn lose(&mut self) {
        // Whether a head was read of which some was, nobody can tell.
        let unread = self.queue.drain(..).filter(|piece| !piece.is_begun);
        self.lost.lock().extend(unread.flat_map(|piece| piece.tags));
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

type Ways = Arc<Mutex<[Way; 2]>>;

/// One end of a connection.
pub struct End {
    net: Arc<Net>,
    number: u64,
    /// Which of the ways it writes to.
    side: usize,
    ways: Ways,
    timer: Pin<Box<Sleep>>,
    random: Random,
    tag: Option<u64>,
    /// What it writes are frames of HTTP/2, in which heads are tagged.
    frames: Option<Frames>,
}

/// Told that a tagged piece has been read.
type OnRead = Box<dyn Fn(u64) + Send + Sync>;
/// Given connections to origins.
type OnConnect = Box<dyn Fn(SocketAddr, End) + Send + Sync>;

/// All connections.
pub struct Net {
    events: Events,
    random: Mutex<Random>,
    manner: Manner,
    well: AtomicBool,
    next: AtomicU64,
    open: Mutex<Vec<Weak<Mutex<[Way; 2]>>>>,
    on_connect: OnceLock<OnConnect>,
    on_read: OnceLock<OnRead>,
    lost: Lost,
}

impl Net {
    pub fn new(events: &Events, manner: Manner, random: Random) -> Arc<Net> {
        Arc::new(Net {
            events: events.clone(),
            random: Mutex::new(random),
            manner,
            well: AtomicBool::new(false),
            next: AtomicU64::new(0),
            open: Mutex::default(),
            on_connect: OnceLock::new(),
            on_read: OnceLock::new(),
            lost: Lost::default(),
        })
    }

    /// Who answers for origins, and who is told what was read.
    pub fn for_origins(&self, on_connect: OnConnect, on_read: OnRead) {
        let _ = (self.on_connect.set(on_connect), self.on_read.set(on_read));
    }

    /// Of what was written since the last call the tags that nobody will ever read.
    pub fn take_lost(&self) -> Vec<u64> {
        std::mem::take(&mut *self.lost.lock())
    }

    /// From now on nothing fails.
    pub fn heal(&self) {
        self.well.store(true, SeqCst);
    }

    /// Both ends of a new connection.
    pub fn pair(self: &Arc<Self>) -> (End, End) {
        let number = self.next.fetch_add(1, SeqCst);
        let mut random = self.random.lock().fork();
        let broken = if self.well.load(SeqCst) { 0 } else { self.manner.broken };
        let latency = random.millis(0..60);
        let mut way = || Way {
            queue: VecDeque::new(),
            queued: 0,
            window: *random.one(&[4 << 10, 16 << 10, 64 << 10, 256 << 10]),
            latency,
            last: Instant::now(),
            fin: None,
            reset: false,
            vanished: false,
            reader_gone: None,
            written: 0,
            fault: random.per_mille(broken).then(|| {
                let soon = random.per_mille(500);
                let after = random.below(if soon { 2000 } else { 300_000 });
                let stands = random.millis(1000..90_000);
                (after, *random.one(&[Fault::Reset, Fault::Reset, Fault::Vanish, Fault::Stand(stands)]))
            }),
            reader: None,
            writer: None,
            lost: self.lost.clone(),
        };
        let ways = Arc::new(Mutex::new([way(), way()]));
        self.open.lock().retain(|open| open.strong_count() > 0);
        self.open.lock().push(Arc::downgrade(&ways));
        self.events.note("link", &[number]);
        let mut end = |side| End {
            net: self.clone(),
            number,
            side,
            ways: ways.clone(),
            timer: Box::pin(sleep(Duration::ZERO)),
            random: random.fork(),
            tag: None,
            frames: None,
        };
        (end(0), end(1))
    }

    /// Resets every connection that there is, as when a machine dies.
    pub fn reset_all(&self) {
        let all: Vec<_> = self.open.lock().drain(..).filter_map(|open| open.upgrade()).collect();
        all.iter().for_each(|ways| ways.lock().iter_mut().for_each(Way::reset));
    }

    async fn dial(self: Arc<Self>, address: SocketAddr) -> io::Result<Box<dyn Link>> {
        let well = self.well.load(SeqCst);
        let (latency, refused, unanswered) = {
            let mut random = self.random.lock();
            let Manner { refused, unanswered, .. } = if well { Manner::default() } else { self.manner };
            (random.millis(0..80), random.per_mille(refused), random.per_mille(unanswered))
        };
        self.events.note("dial", &[u64::from(refused), u64::from(unanswered)]);
        if unanswered {
            std::future::pending::<()>().await;
        }
        sleep(latency).await;
        if refused {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = self.pair();
        if let Some(on_connect) = self.on_connect.get() {
            on_connect(address, far);
        }
        Ok(Box::new(near))
    }
}

/// The network as the proxy has it.
#[derive(Debug)]
pub struct Network(pub Arc<Net>);

impl tinaja_proxy::Network for Network {
    fn connect(&self, address: SocketAddr) -> Connecting {
        Box::pin(self.0.clone().dial(address))
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a network of {} connections so far", self.next.load(SeqCst))
    }
}

impl End {
    /// What is written next is tagged: the network says when it has been read.
    pub fn tag(&mut self, tag: u64) {
        self.tag = Some(tag);
    }

    /// What is written are frames of HTTP/2 from now on: where to tag the heads of its streams.
    pub fn tag_streams(&mut self) -> Tags {
        self.frames.insert(Frames::default()).tags()
    }
}

impl End {
    /// What can be asked of its connection, whoever has the end.
    pub fn line(&self) -> Line {
        Line(self.ways.clone())
    }
}

/// A connection, seen from outside.
#[derive(Clone)]
pub struct Line(Ways);

impl Line {
    /// Whether what either end says is lost, which nobody can tell from the other's silence.
    pub fn has_vanished(&self) -> bool {
        self.0.lock().iter().any(|way| way.vanished)
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "end {} of connection {}", self.side, self.number)
    }
}

impl AsyncRead for End {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let end = &mut *self;
        let mut ways = end.ways.lock();
        let way = &mut ways[1 - end.side];
        if way.reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let due = way.queue.front().map(|piece| piece.arrives).or(way.fin);
        match due {
            Some(due) if due <= Instant::now() => {}
            due => {
                way.reader = Some(cx.waker().clone());
                drop(ways);
                if let Some(due) = due {
                    end.timer.set(sleep_until(due));
                    if end.timer.as_mut().poll(cx).is_ready() {
                        cx.waker().wake_by_ref();
                    }
                }
                return Poll::Pending;
            }
        }
        let Some(piece) = way.queue.front_mut() else {
            end.net.events.note("end", &[end.number, end.side as u64]);
            return Poll::Ready(Ok(()));
        };
        let most = piece.bytes.len().min(buffer.remaining());
        // Now and then less than there is.
        let count = if end.random.per_mille(100) { 1 + end.random.below(most.max(1) as u64) as usize } else { most };
        let count = count.min(most);
        buffer.put_slice(&piece.bytes[..count]);
        piece.bytes.advance(count);
        piece.is_begun = true;
        let tags = if piece.bytes.is_empty() { std::mem::take(&mut piece.tags) } else { Vec::new() };
        if piece.bytes.is_empty() {
            way.queue.pop_front();
        }
        way.queued -= count;
        if let Some(writer) = way.writer.take() {
            writer.wake();
        }
        drop(ways);
        end.net.events.note("read", &[end.number, end.side as u64, count as u64]);
        if let Some(on_read) = end.net.on_read.get() {
            tags.into_iter().for_each(on_read);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let end = &mut *self;
        let mut ways = end.ways.lock();
        let way = &mut ways[end.side];
        let now = Instant::now();
        if way.reset || way.fin.is_some() || way.reader_gone.is_some_and(|known| known <= now) {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        if way.reader_gone.is_some() {
            // On its way to somebody who has gone.
            let tags = end.frames.as_mut().map(|frames| frames.pass(bytes)).unwrap_or_default();
            way.lost.lock().extend(end.tag.take().into_iter().chain(tags));
            return Poll::Ready(Ok(bytes.len()));
        }
        let free = way.window.saturating_sub(way.queued);
        let count = bytes.len().min(free);
        // As senders do, so that a slow reader is not sent a few bytes at a time.
        if free < bytes.len().min(SEGMENT_BYTES) {
            way.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        way.written += count as u64;
        let mut arrives = (Instant::now() + way.latency).max(way.last);
        if let Some((_, fault)) = way.fault.filter(|(after, _)| way.written > *after) {
            match fault {
                Fault::Reset => {
                    end.net.events.note("breaks", &[end.number]);
                    ways.iter_mut().for_each(Way::reset);
                    return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
                }
                Fault::Stand(time) => (arrives, way.fault) = (arrives + time, None),
                Fault::Vanish => {
                    way.vanished = true;
                    arrives += Duration::from_secs(365 * 86_400);
                }
            }
        }
        way.last = arrives;
        way.queued += count;
        let bytes = Bytes::copy_from_slice(&bytes[..count]);
        let mut tags: Vec<u64> = end.tag.take().into_iter().collect();
        if let Some(frames) = &mut end.frames {
            tags.extend(frames.pass(&bytes));
        }
        way.queue.push_back(Piece { arrives, bytes, tags, is_begun: false });
        if let Some(reader) = way.reader.take() {
            reader.wake();
        }
        drop(ways);
        end.net.events.note("written", &[end.number, end.side as u64, count as u64]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ways = self.ways.lock();
        let way = &mut ways[self.side];
        let at = (Instant::now() + way.latency).max(way.last);
        way.fin.get_or_insert(at);
        way.wake();
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut ways = self.ways.lock();
        // What was not read takes back what was sent, as with sockets.
        let unread = ways[1 - self.side].queue.iter().any(|piece| piece.arrives <= Instant::now());
        let way = &mut ways[self.side];
        let at = (Instant::now() + way.latency).max(way.last);
        way.fin.get_or_insert(at);
        if unread {
            way.reset()
        } else {
            way.wake()
        }
        ways[1 - self.side].lose();
        ways[1 - self.side].reader_gone = Some(at);
        ways[1 - self.side].wake();
        drop(ways);
        // What was to be said and never was.
        let unsaid = self.frames.take().map(|frames| std::mem::take(&mut *frames.tags().lock())).unwrap_or_default();
        self.net.lost.lock().extend(self.tag.take().into_iter().chain(unsaid.into_values()));
        self.net.events.note("closed", &[self.number, self.side as u64]);
    }
}
