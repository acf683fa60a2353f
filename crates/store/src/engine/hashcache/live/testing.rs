//! A log whose disk fails now and then, and numbers at random, for tests that compare what is counted with a walk.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::device::wrap::{Fault, Faulty};
use crate::device::{Device, Medium, Memory, Request};
use crate::engine::{Kind, Place, Record};
use crate::layout::{Frontier, LogLayout, Stamp};
use crate::terms::Digest;
use crate::wait::block_on;

/// Numbers below a bound, the same each time.
pub(in crate::engine::hashcache) struct Random(pub u64);

impl Random {
    pub(in crate::engine::hashcache) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// The low half of one of so many digests.
    pub(in crate::engine::hashcache) fn id_low(&mut self, of: u64) -> u64 {
        self.below(of).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// A disk of which one write in so many fails; none with 0.
pub(in crate::engine::hashcache) fn disk(fails_one_in: u64) -> Arc<dyn Device> {
    let sound = Arc::new(Memory::over(&Medium::zeroed(4 << 20)));
    let fails = move |call: u64, request: &Request| {
        let is_write = matches!(request, Request::Write { .. });
        let is_unlucky = is_write && fails_one_in > 0 && Random(call).id_low(1 << 30).is_multiple_of(fails_one_in);
        is_unlucky.then_some(Fault::Error)
    };
    Arc::new(Faulty::new(sound, fails))
}

/// The smallest log there is: eight regions.
pub(in crate::engine::hashcache) fn layout() -> LogLayout {
    LogLayout::new(4096, 2 << 20, 512).unwrap()
}

/// Such a log on such a disk, and the regions for which an index was swept.
pub(in crate::engine::hashcache) struct SmallLog {
    pub frontier: Arc<Frontier>,
    swept: AtomicU64,
}

impl SmallLog {
    pub(in crate::engine::hashcache) fn on(disk: Arc<dyn Device>) -> Self {
        let (layout, stamp) = (layout(), Stamp { seed: 7 });
        let start = Place(layout.log_bytes());
        let frontier = Frontier::start(disk, layout, stamp, start, None, None).unwrap();
        SmallLog { frontier, swept: AtomicU64::new(layout.regions) }
    }

    /// Append a record of so many bytes; where it lies.
    pub(in crate::engine::hashcache) fn append(&self, bytes: u64) -> Place {
        let body = vec![0; bytes as usize];
        let id = Digest([7; 16]);
        let record = Record { id, kind: Kind::Whole, name: b"a", head: &[], body: &body, related_bytes: 0 };
        block_on(poll_fn(|cx| self.frontier.poll_append(cx, &record))).unwrap()
    }

    /// Sweep for every region begun since the last time, as the engine does.
    pub(in crate::engine::hashcache) fn sweep(&self, sweep: impl FnMut(u64)) {
        let now = self.frontier.next().0 / layout().region_bytes;
        (self.swept.fetch_max(now, Relaxed)..now).for_each(sweep);
    }
}

/// What is counted is what a walk finds. A disk may give up a region meanwhile, on a thread of its own: then they are asked
/// again.
pub(in crate::engine::hashcache) fn agree(counted: impl Fn() -> u64, walked: impl Fn() -> u64) -> u64 {
    loop {
        let (before, found, after) = (counted(), walked(), counted());
        if before == after {
            assert_eq!(found, before);
            return found;
        }
    }
}
