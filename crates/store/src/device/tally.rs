//! Counters that the threads of a device share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use tinaja_clock::Clock;

use super::times::SharedTimes;
use super::{Counters, Kind, Request};

/// What a device was asked and did, counted without a lock: nine additions a request, under 500 bytes a device.
#[derive(Default)]
pub(super) struct Tally {
    clock: Clock,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    seeks: AtomicU64,
    head_at: AtomicU64,
    waiting: AtomicU64,
    read_times: SharedTimes,
    write_times: SharedTimes,
    sync_times: SharedTimes,
}

/// A request that was accepted: of which kind, and when.
#[derive(Clone, Copy)]
pub(super) struct Accepted {
    kind: Kind,
    since: Instant,
}

impl Tally {
    /// Nothing counted yet, and times taken by this clock.
    pub(super) fn by(clock: Clock) -> Self {
        Tally { clock, ..Tally::default() }
    }

    /// The clock that times are taken by.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A request was accepted: where it begins decides whether it is a seek. It waits until [`Tally::ended`].
    pub(super) fn accepted(&self, request: &Request) -> Accepted {
        if let Some((at, bytes)) = request.extent()
            && self.head_at.swap(at.saturating_add(bytes), Relaxed) != at
        {
            self.seeks.fetch_add(1, Relaxed);
        }
        self.began(request.kind())
    }

    /// Something of this kind has begun, at no place of a device's. It waits until [`Tally::ended`].
    pub(super) fn began(&self, kind: Kind) -> Accepted {
        self.waiting.fetch_add(1, Relaxed);
        Accepted { kind, since: self.clock.now() }
    }

    /// A request has ended, well or not.
    pub(super) fn ended(&self, accepted: Accepted) {
        self.waiting.fetch_sub(1, Relaxed);
        let times = match accepted.kind {
            Kind::Read => &self.read_times,
            Kind::Write => &self.write_times,
            Kind::Sync => &self.sync_times,
        };
        times.add(self.clock.since(accepted.since));
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
            waiting: self.waiting.load(Relaxed),
            read_times: self.read_times.get(),
            write_times: self.write_times.get(),
            sync_times: self.sync_times.get(),
        }
    }
}
