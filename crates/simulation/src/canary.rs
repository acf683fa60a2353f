//! Bugs planted on purpose: what the simulation must find, or it finds nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tinaja_clock::{Clock, Source};
use tinaja_store::{
    Body, Cursor, FillId, HeadEdit, Hint, Hit, Key, Lookup, Pending, Removed, ScanPage, Stats, Store, StoreError,
    Updated, Writer,
};

/// A bug of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// The time of day goes at half its speed, so that what is stale looks fresh.
    SlowTime,
    /// A removal is reported done and is not.
    ForgottenRemoval,
    /// A body from memory has a wrong byte now and then.
    WrongByte,
    /// A body is another object's now and then.
    OtherBody,
    /// The disk reports syncs done that are not.
    ForgottenSync,
    /// A lookup that needs the disk never ends now and then.
    Hangs,
    /// A lookup panics now and then.
    Panics,
    /// Nobody notes that the machine's clock was put back.
    UnnotedStep,
    /// What was purged since the machine was switched on is forgotten by a cut of the power, though it was written down: from the second time on that it
    /// is switched on.
    LostPurge,
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 9] = [
        Canary::SlowTime,
        Canary::ForgottenRemoval,
        Canary::WrongByte,
        Canary::OtherBody,
        Canary::ForgottenSync,
        Canary::Hangs,
        Canary::Panics,
        Canary::UnnotedStep,
        Canary::LostPurge,
    ];

    /// A store with this bug.
    pub(crate) fn over(self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Sick { canary: self, store, calls: AtomicU64::new(0), last: parking_lot::Mutex::default() })
    }
}

struct Sick {
    canary: Canary,
    store: Arc<dyn Store>,
    calls: AtomicU64,
    last: parking_lot::Mutex<Bytes>,
}

/// A clock whose time of day is late.
struct Slow(Clock, SystemTime);

impl Source for Slow {
    fn beneath(&self) -> Option<&dyn Source> {
        Some(self.0.source())
    }

    fn wall(&self) -> SystemTime {
        self.1 + self.0.wall().duration_since(self.1).unwrap_or_default() / 2
    }
}

impl Sick {
    fn now_and_then(&self) -> bool {
        self.calls.fetch_add(1, SeqCst) % 8 == 7
    }

    fn spoil(&self, mut hit: Hit) -> Hit {
        let Some(bytes) = in_memory(&mut hit.body) else { return hit };
        let spoilt = match self.canary {
            Canary::WrongByte if self.now_and_then() && !bytes.is_empty() => {
                let mut wrong = bytes.to_vec();
                let middle = wrong.len() / 2;
                wrong[middle] ^= 1;
                wrong.into()
            }
            Canary::OtherBody => {
                let other = std::mem::replace(&mut *self.last.lock(), bytes.clone());
                // Of the same length, which nothing else would tell from the right one.
                match other.len() >= bytes.len() && self.now_and_then() {
                    true => other.slice(..bytes.len()),
                    false => bytes,
                }
            }
            _ => bytes,
        };
        Hit { body: Body::from_bytes(spoilt), ..hit }
    }
}

/// A body that is in memory whole.
fn in_memory(body: &mut Body) -> Option<Bytes> {
    let length = body.len()?;
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match body.poll_next(&mut cx, usize::MAX) {
        std::task::Poll::Ready(Ok(Some(bytes))) if bytes.len() as u64 == length => Some(bytes),
        _ => {
            let _ = body.seek(0..u64::MAX);
            None
        }
    }
}

impl Store for Sick {
    fn clock(&self) -> Clock {
        let clock = self.store.clock();
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_272_000);
        if self.canary == Canary::SlowTime { Clock::of(Arc::new(Slow(clock, began))) } else { clock }
    }

    fn lookup_with(&self, key: &Key, hint: &Hint, deadline: Instant) -> Lookup {
        match self.store.lookup_with(key, hint, deadline) {
            Lookup::Here(_) if self.canary == Canary::Panics && self.now_and_then() => panic!("a planted bug"),
            Lookup::Here(hit) => Lookup::Here(self.spoil(hit)),
            Lookup::Wait(_) if self.canary == Canary::Hangs && self.now_and_then() => {
                Lookup::Wait(Box::pin(std::future::pending()))
            }
            other => other,
        }
    }

    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit> {
        self.store.follow(key, fill)
    }

    fn followers(&self, key: &Key, fill: FillId) -> usize {
        self.store.followers(key, fill)
    }

    fn max_object_bytes(&self) -> u64 {
        self.store.max_object_bytes()
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        self.store.put(key, head, hint)
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        self.store.update_head(key, edit)
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        match self.canary {
            Canary::ForgottenRemoval => Box::pin(std::future::ready(Ok(Removed::Gone))),
            _ => self.store.remove(key),
        }
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        self.store.scan(from, most)
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        self.store.flush()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        self.store.close()
    }
}
