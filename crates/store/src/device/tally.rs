//! Counters that the threads of a device share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Counters, Request};

/// What a device was asked and did, counted without a lock: five additions a request, 48 bytes a device.
#[derive(Default)]
pub(super) struct Tally {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    seeks: AtomicU64,
    head_at: AtomicU64,
}

impl Tally {
    /// A request was accepted: where it begins decides whether it is a seek.
    pub(super) fn accepted(&self, request: &Request) {
        let Some((at, bytes)) = request.extent() else { return };
        if self.head_at.swap(at.saturating_add(bytes), Relaxed) != at {
            self.seeks.fetch_add(1, Relaxed);
        }
    }

    /// A read of so many bytes succeeded.
    pub(super) fn read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// A write of so many bytes succeeded.
    pub(super) fn wrote(&self, bytes: usize) {
        self.writes.fetch_add(1, Relaxed);
        self.write_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn get(&self) -> Counters {
        Counters {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            write_bytes: self.write_bytes.load(Relaxed),
            seeks: self.seeks.load(Relaxed),
        }
    }
}
