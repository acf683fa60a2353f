//! A device that fails as disks do: by error, early end, torn, lost, held back, misdirected or flipped writes, stalls, a
//! full disk; and the cut of its power.

mod cache;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tinaja_clock::Clock;

use cache::WriteCache;

use crate::device::{Counters, Device, Geometry, Op, Outcome, Request};
use crate::memory::AlignedBuf;

/// What goes wrong with a request. A fault that makes no sense for its kind (a torn read) does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends with an error; nothing is read or written.
    Error,
    /// The device ends in the midst of it: it ends with `UnexpectedEof`, and the first half of a write is written.
    Short,
    /// A write is reported done, and only some of its blocks are written.
    Torn(Tear),
    /// A write is reported done and nothing is written. A sync is reported done and nothing is made to last.
    Lost,
    /// A write is reported done and kept in the disk's own cache, where reads see it, until the next sync, until
    /// [`Faulty::release`], or until another write overlaps it. A cut of the power loses it.
    Held,
    /// It reads or writes at this offset instead.
    Misdirected(u64),
    /// One bit of what it reads or writes is wrong: this one, counted from its first byte, modulo its size.
    Flipped(u64),
    /// It ends so much later.
    Late(Duration),
    /// It ends only at [`Faulty::release`], then rightly, or when the device is stopped, then with an error.
    Stalled,
    /// A write ends with `StorageFull`; nothing is written.
    Full,
}

/// Which blocks of a torn write reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// So many of the first.
    Prefix(u64),
    /// All but so many of the first.
    Suffix(u64),
    /// Every second, from the second on.
    Alternating,
}

impl Tear {
    fn keeps(self, block: u64) -> bool {
        match self {
            Tear::Prefix(blocks) => block < blocks,
            Tear::Suffix(blocks) => block >= blocks,
            Tear::Alternating => !block.is_multiple_of(2),
        }
    }
}

/// Decides by a request's number, counted from 0 in order of submission, and by what it is.
type Plan = Box<dyn Fn(u64, &Request) -> Option<Fault> + Send + Sync>;

/// A device that fails by plan. Memory: the writes held back.
pub struct Faulty {
    below: Arc<dyn Device>,
    cache: Arc<WriteCache>,
    plan: Plan,
    calls: AtomicU64,
    stalled: Mutex<Vec<Op>>,
    late: Mutex<Vec<JoinHandle<()>>>,
}

impl Faulty {
    /// Fail what the plan says. The plan is called once for every request, in no lock, and must not block.
    pub fn new(below: Arc<dyn Device>, plan: impl Fn(u64, &Request) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Faulty {
            cache: WriteCache::over(below.clone()),
            below,
            plan: Box::new(plan),
            calls: AtomicU64::new(0),
            stalled: Mutex::default(),
            late: Mutex::default(),
        }
    }

    /// A disk with a cache that forgets: every write is [`Fault::Held`] until a sync succeeds, unless the plan says
    /// otherwise. The disk to cut the power of.
    pub fn volatile(
        below: Arc<dyn Device>,
        plan: impl Fn(u64, &Request) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        let held = |request: &Request| matches!(request, Request::Write { .. }).then_some(Fault::Held);
        Faulty::new(below, move |call, request| plan(call, request).or_else(|| held(request)))
    }

    /// Requests so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    /// Writes held back now.
    pub fn held(&self) -> usize {
        self.cache.len()
    }

    /// A copy of the writes held back now, in the order in which they came: where, and what. Any of them may be lost.
    pub fn held_writes(&self) -> Vec<(u64, Vec<u8>)> {
        self.cache.copies()
    }

    /// Carry out what is held back and what stalls.
    pub fn release(&self) {
        self.cache.write_out(Box::new(drop));
        let stalled: Vec<_> = self.stalled.lock().drain(..).collect();
        stalled.into_iter().for_each(|op| self.cache.submit(op));
    }

    /// Cut the power. Of the writes held back, in the order in which they came, `survives` is given the number and
    /// says which blocks still reach the disk: `None` for none. Every request from now on fails.
    pub fn cut(&self, survives: impl FnMut(usize) -> Option<Tear>) {
        self.cache.cut(survives);
    }

    fn give(&self, fault: Fault, op: Op) {
        let failed = |kind, what: &str| io::Error::new(kind, format!("{what} (a fault made on purpose)"));
        match (fault, op.request) {
            (Fault::Error, request) => {
                Op { request, done: op.done }.fail(failed(ErrorKind::Other, "the device failed"))
            }
            (Fault::Full, Request::Write { .. }) => {
                let error = failed(ErrorKind::StorageFull, "no space left on the device");
                (op.done)(Outcome { buffer: None, result: Err(error) });
            }
            (Fault::Short, request) => {
                let error = failed(ErrorKind::UnexpectedEof, "the device is shorter than it was");
                self.cut_short(request, op.done, error);
            }
            (Fault::Torn(tear), Request::Write { at, from, part }) => {
                let new = from.get(part).unwrap_or_default();
                self.cache.write_torn(at, new, tear, op.done);
            }
            (Fault::Lost, Request::Write { .. } | Request::Sync) => (op.done)(Outcome { buffer: None, result: Ok(()) }),
            (Fault::Held, Request::Write { at, from, part }) => {
                self.cache.hold(at, copied(from.get(part).unwrap_or_default()), op.done);
            }
            (Fault::Misdirected(at), Request::Read { into, .. }) => {
                self.cache.submit(Op { request: Request::Read { at, into }, done: op.done });
            }
            (Fault::Misdirected(at), Request::Write { from, part, .. }) => {
                self.cache.submit(Op { request: Request::Write { at, from, part }, done: op.done });
            }
            (Fault::Flipped(bit), request) => self.cache.submit(flipped(request, op.done, bit)),
            (Fault::Late(by), request) => self.later(by, Op { request, done: op.done }),
            (Fault::Stalled, request) => self.stalled.lock().push(Op { request, done: op.done }),
            (_, request) => self.cache.submit(Op { request, done: op.done }),
        }
    }

    fn cut_short(&self, request: Request, done: Done, error: io::Error) {
        let half = |len: usize| {
            let block = self.below.geometry().block_bytes as usize;
            len / 2 / block * block
        };
        let request = match request {
            Request::Write { at, from, part } => {
                let part = part.start..part.start + half(part.len());
                Request::Write { at, from, part }
            }
            // What a read put into its buffer before it failed is nobody's.
            Request::Read { .. } | Request::Sync => return done(Outcome { buffer: None, result: Err(error) }),
        };
        let done = Box::new(move |_| done(Outcome { buffer: None, result: Err(error) }));
        self.cache.submit(Op { request, done });
    }

    fn later(&self, by: Duration, op: Op) {
        let cache = self.cache.clone();
        let clock = self.clock().clone();
        let late = move || {
            clock.sleep(by);
            cache.submit(op);
        };
        match self.clock().spawn("tinaja-late", late) {
            Ok(thread) => self.late.lock().push(thread),
            Err(error) => tracing::error!("a late request was dropped: {error}"),
        }
    }
}

type Done = Box<dyn FnOnce(Outcome) + Send>;

fn copied(bytes: &[u8]) -> AlignedBuf {
    let mut copy = AlignedBuf::zeroed(bytes.len());
    copy.copy_from_slice(bytes);
    copy
}

fn flip(bytes: &mut [u8], bit: u64) {
    let bit = bit % (bytes.len() as u64 * 8).max(1);
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}

fn flipped(request: Request, done: Done, bit: u64) -> Op {
    match request {
        Request::Write { at, from, part } => {
            let mut bytes = copied(from.get(part).unwrap_or_default());
            flip(&mut bytes, bit);
            let part = 0..bytes.len();
            Op { request: Request::Write { at, from: Arc::new(bytes), part }, done }
        }
        request => {
            let done = move |mut outcome: Outcome| {
                if let Some(buffer) = &mut outcome.buffer {
                    flip(buffer, bit);
                }
                done(outcome);
            };
            Op { request, done: Box::new(done) }
        }
    }
}

impl Device for Faulty {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        let call = self.calls.fetch_add(1, SeqCst);
        if self.cache.is_off() {
            return op.fail(io::Error::other("the power was cut"));
        }
        match (self.plan)(call, &op.request) {
            None => self.cache.submit(op),
            Some(fault) => self.give(fault, op),
        }
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        let stalled: Vec<_> = self.stalled.lock().drain(..).collect();
        stalled.into_iter().for_each(|op| op.fail(io::Error::other("the device was stopped while this stalled")));
        let late: Vec<_> = self.late.lock().drain(..).collect();
        for thread in late.into_iter().filter(|late| late.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
        self.below.stop();
    }
}
