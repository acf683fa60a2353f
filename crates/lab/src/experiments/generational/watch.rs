//! What an engine does to its disk by itself, beside what it is asked for.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tinaja_clock::Clock;
use tinaja_store::device::{Counters, Device, Geometry, Op, Request};

/// The thread that cleans segments and takes snapshots.
const CLEANER: &str = "tinaja-cleaner";

/// What an engine does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The index is read and written: a merge, or a snapshot of one in memory.
    Merge,
    /// A segment is cleaned.
    Cleaning,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// How often a request came while there was none, by [`Work`].
    begun: [u64; 2],
    under_way: [u64; 2],
    /// How long there was any.
    pub took: [Duration; 2],
    since: [Duration; 2],
    /// Requests and bytes.
    pub reads: Moved,
    /// Of all.
    pub writes: Moved,
    /// Of the index.
    pub merged: Moved,
}

/// Requests and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// How many requests.
    pub requests: u64,
    /// Bytes of all.
    pub bytes: u64,
}

impl Moved {
    fn add(&mut self, bytes: u64) {
        *self = Moved { requests: self.requests + 1, bytes: self.bytes + bytes };
    }

    /// What came since.
    pub fn since(self, before: Moved) -> Moved {
        Moved { requests: self.requests - before.requests, bytes: self.bytes - before.bytes }
    }
}

impl Seen {
    /// What came since, of what is counted.
    pub fn since(&self, before: &Seen) -> Seen {
        let mut took = self.took;
        took.iter_mut().zip(before.took).for_each(|(took, before)| *took -= before);
        let (reads, writes) = (self.reads.since(before.reads), self.writes.since(before.writes));
        Seen { took, reads, writes, merged: self.merged.since(before.merged), ..*self }
    }

    /// Whether any such work was under way at some time since `before`.
    pub fn overlaps(&self, before: &Seen, work: Work) -> bool {
        let at = work as usize;
        before.under_way.get(at).is_some_and(|under_way| *under_way > 0) || self.begun.get(at) > before.begun.get(at)
    }

    fn begins(&mut self, work: Work, now: Duration) {
        let at = work as usize;
        let (Some(begun), Some(under_way), Some(since)) =
            (self.begun.get_mut(at), self.under_way.get_mut(at), self.since.get_mut(at))
        else {
            return;
        };
        if *under_way == 0 {
            (*begun, *since) = (*begun + 1, now);
        }
        *under_way += 1;
    }

    fn ends(&mut self, work: Work, now: Duration) {
        let at = work as usize;
        let (Some(under_way), Some(since), Some(took)) =
            (self.under_way.get_mut(at), self.since.get(at), self.took.get_mut(at))
        else {
            return;
        };
        *under_way -= 1;
        if *under_way == 0 {
            *took += now.saturating_sub(*since);
        }
    }
}

/// A device of which it is known what the engine's own thread does to it.
pub struct Watch {
    below: Arc<dyn Device>,
    /// Where the log begins; the index lies before it.
    log_at: u64,
    began: Instant,
    seen: Arc<Mutex<Seen>>,
}

impl Watch {
    /// Over a device whose log begins there.
    pub fn over(below: Arc<dyn Device>, log_at: u64) -> Watch {
        let began = below.clock().now();
        Watch { below, log_at, began, seen: Arc::default() }
    }

    /// What was done so far.
    pub fn seen(&self) -> Seen {
        *self.seen.lock()
    }
}

impl Device for Watch {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        let Some((at, bytes)) = op.request.extent() else { return self.below.submit(op) };
        let work = if at < self.log_at { Work::Merge } else { Work::Cleaning };
        let is_its_own = thread::current().name() == Some(CLEANER);
        let now = |clock: &Clock, began| clock.now().saturating_duration_since(began);
        {
            let mut seen = self.seen.lock();
            match op.request {
                Request::Write { .. } => seen.writes.add(bytes),
                Request::Read { .. } | Request::Sync => seen.reads.add(bytes),
            }
            if is_its_own {
                seen.begins(work, now(self.clock(), self.began));
            }
            if is_its_own && work == Work::Merge {
                seen.merged.add(bytes);
            }
        }
        if !is_its_own {
            return self.below.submit(op);
        }
        let (seen, clock, began, done) = (self.seen.clone(), self.clock().clone(), self.began, op.done);
        let ended = move |outcome| {
            seen.lock().ends(work, now(&clock, began));
            done(outcome);
        };
        self.below.submit(Op { request: op.request, done: Box::new(ended) });
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.below.stop();
    }
}
