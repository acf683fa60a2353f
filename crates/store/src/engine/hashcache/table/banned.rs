//! Objects that must not be found though the disk may hold them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::engine::hashcache::table::limits::MAX_UNWRITTEN_REMOVALS;
use crate::terms::Digest;

/// Removals that could not be written down: until a restart memory keeps them. Memory: 16 bytes each, up to
/// [`MAX_UNWRITTEN_REMOVALS`]; beyond that nothing is found at all.
#[derive(Default)]
pub(super) struct Banned {
    ids: Mutex<HashSet<Digest>>,
    /// So that lookups need no lock while there are none.
    count: AtomicUsize,
}

impl Banned {
    pub(super) fn add(&self, id: &Digest) {
        let mut ids = self.ids.lock();
        if ids.len() <= MAX_UNWRITTEN_REMOVALS {
            ids.insert(*id);
        }
        self.count.store(ids.len(), Ordering::Release);
    }

    /// The object was stored anew.
    pub(super) fn remove(&self, id: &Digest) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut ids = self.ids.lock();
            if ids.len() <= MAX_UNWRITTEN_REMOVALS && ids.remove(id) {
                self.count.store(ids.len(), Ordering::Release);
            }
        }
    }

    pub(super) fn has(&self, id: &Digest) -> bool {
        match self.count.load(Ordering::Acquire) {
            0 => false,
            count => count > MAX_UNWRITTEN_REMOVALS || self.ids.lock().contains(id),
        }
    }
}
