//! One request fetches, the others follow: Pingora's cache lock without its gap.
//!
//! Pingora looks an object up and then locks its key. A fill that begins between the two lets go of its lock at once,
//! because others can read along; whoever looked just before then gets the lock too, and asks the origin a second time
//! for what is on its way already. A storage cannot see this, a lock can: it is called in the same breath as the lookup.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use pingora_cache::CacheKey;
use pingora_cache::key::{CacheHashKey, HashBinary};
use pingora_cache::lock::{CacheKeyLock, CacheLock, LockStatus, Locked, WritePermit};
use tinaja_store::{Lookup, Store};

use crate::head::StoredHead;
use crate::name::store_key;

thread_local! {
    /// What this thread has just looked up and not found. Between the answer of a lookup and the lock Pingora waits
    /// for nothing, so the next lock on this thread is that lookup's own. A request that found its object and locks
    /// all the same (to renew it, or because it was told to take none) leaves nothing here.
    static JUST_MISSED: Cell<Option<HashBinary>> = const { Cell::new(None) };
}

/// Say what a lookup of `key` came to, as the last thing before it returns.
pub(crate) fn looked_up(key: &CacheKey, absent: bool) {
    JUST_MISSED.set(absent.then(|| key.combined_bin()));
}

/// A [`CacheLock`] over one storage: see [`crate::TinajaStorage::lock`].
pub(crate) struct FillLock {
    store: Arc<dyn Store>,
    locks: CacheLock,
}

impl FillLock {
    pub(crate) fn new(store: Arc<dyn Store>, age_timeout: Duration) -> FillLock {
        FillLock { store, locks: CacheLock::new(age_timeout) }
    }

    /// Whether an object is there, or on its way, that was not a moment ago. Looks into memory alone: what was not
    /// there can be on disk only if it was filled and pushed out of memory since.
    fn has_come(&self, key: &CacheKey) -> bool {
        match self.store.lookup(&store_key(key), self.store.clock().now()) {
            Lookup::Here(hit) => StoredHead::decode(&hit.head).is_some_and(|head| head.belongs_to(key)),
            Lookup::Absent | Lookup::Wait(_) => false,
        }
    }
}

impl CacheKeyLock for FillLock {
    fn lock(&self, key: &CacheKey, stale_writer: bool) -> Locked {
        let just_missed = JUST_MISSED.take() == Some(key.combined_bin());
        match self.locks.lock(key, stale_writer) {
            Locked::Write(permit) if just_missed && self.has_come(key) => {
                // Wait for ourselves, and be done: Pingora then looks once more and finds it.
                let waiting = self.locks.lock(key, stale_writer);
                self.locks.release(key, permit, LockStatus::Done);
                waiting
            }
            locked => locked,
        }
    }

    fn release(&self, key: &CacheKey, permit: WritePermit, reason: LockStatus) {
        self.locks.release(key, permit, reason);
    }
}
