//! A device that counts what goes through it: requests, bytes, seeks and sizes, by kind.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tinaja_clock::Clock;

use crate::device::{Counters, Device, Geometry, Kind, Op};

/// Classes of sizes: class `n` counts requests of 2^n bytes up to twice that; the last also all larger ones.
pub const SIZES: usize = 28;

/// What one kind of requests did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCounters {
    /// Requests that succeeded.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests submitted that did not begin where the one submitted before, of whatever kind, ended.
    pub seeks: u64,
    /// Bytes of the device between where each request began and where the one submitted before, of whatever kind, ended, added
    /// up: the way of a disk's arm.
    pub way_bytes: u64,
    /// Requests that succeeded, by size: see [`SIZES`].
    pub sizes: [u64; SIZES],
}

/// What went through a [`Counted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Of reads.
    pub reads: KindCounters,
    /// Of writes.
    pub writes: KindCounters,
    /// Of syncs: they have no bytes, and are no seeks.
    pub syncs: KindCounters,
}

#[derive(Default)]
struct Atomics {
    requests: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    seeks: AtomicU64,
    way_bytes: AtomicU64,
    sizes: [AtomicU64; SIZES],
}

impl Atomics {
    fn ended(&self, bytes: Option<u64>, succeeded: bool) {
        if !succeeded {
            self.failed.fetch_add(1, Relaxed);
            return;
        }
        self.requests.fetch_add(1, Relaxed);
        let Some(bytes) = bytes else { return };
        self.bytes.fetch_add(bytes, Relaxed);
        let class = (bytes.max(1).ilog2() as usize).min(SIZES - 1);
        if let Some(size) = self.sizes.get(class) {
            size.fetch_add(1, Relaxed);
        }
    }

    fn get(&self) -> KindCounters {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        KindCounters {
            requests: get(&self.requests),
            bytes: get(&self.bytes),
            failed: get(&self.failed),
            seeks: get(&self.seeks),
            way_bytes: get(&self.way_bytes),
            sizes: array::from_fn(|class| self.sizes.get(class).map_or(0, get)),
        }
    }
}

/// Counts every request to the device below it. One allocation and a handful of additions a request; under 1 KiB.
pub struct Counted {
    below: Arc<dyn Device>,
    kinds: Arc<[Atomics; 3]>,
    head_at: AtomicU64,
}

impl Counted {
    /// Count from now on.
    pub fn new(below: Arc<dyn Device>) -> Self {
        Counted { below, kinds: Arc::default(), head_at: AtomicU64::new(0) }
    }

    /// All that was counted. While requests are under way, one may be missing in one number and not in another.
    pub fn detail(&self) -> Detail {
        let [reads, writes, syncs] = &*self.kinds;
        Detail { reads: reads.get(), writes: writes.get(), syncs: syncs.get() }
    }
}

fn of(kinds: &[Atomics; 3], kind: Kind) -> &Atomics {
    let [reads, writes, syncs] = kinds;
    match kind {
        Kind::Read => reads,
        Kind::Write => writes,
        Kind::Sync => syncs,
    }
}

impl Device for Counted {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        let (kind, extent) = (op.request.kind(), op.request.extent());
        if let Some((at, bytes)) = extent {
            let way = self.head_at.swap(at.saturating_add(bytes), Relaxed).abs_diff(at);
            let counters = of(&self.kinds, kind);
            counters.way_bytes.fetch_add(way, Relaxed);
            counters.seeks.fetch_add(u64::from(way > 0), Relaxed);
        }
        let kinds = self.kinds.clone();
        let done = op.done;
        let counted = Box::new(move |outcome: crate::device::Outcome| {
            of(&kinds, kind).ended(extent.map(|(_, bytes)| bytes), outcome.result.is_ok());
            done(outcome);
        });
        self.below.submit(Op { request: op.request, done: counted });
    }

    fn counters(&self) -> Counters {
        let Detail { reads, writes, .. } = self.detail();
        Counters {
            reads: reads.requests,
            read_bytes: reads.bytes,
            writes: writes.requests,
            write_bytes: writes.bytes,
            seeks: reads.seeks + writes.seeks,
            ..self.below.counters()
        }
    }

    fn stop(&self) {
        self.below.stop();
    }
}
