//! The list of unfinished writes, newest last for each object.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::fill::Fill;
use crate::store::FillId;
use crate::terms::{Digest, Key};

/// All unfinished writes of a store. Memory: bounded by [`crate::limits::MAX_OPEN_WRITES`] fills and those refused.
#[derive(Default)]
pub(crate) struct Fills {
    by_object: Mutex<HashMap<Digest, Vec<Arc<Fill>>, RandomState>>,
    /// So that lookups need no lock while nothing is being written.
    count: AtomicUsize,
}

impl Fills {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn add(&self, fill: Arc<Fill>) {
        let mut by_object = self.by_object.lock();
        by_object.entry(fill.digest).or_default().push(fill);
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// Take a write off the list; fine if it is not on it.
    pub(crate) fn remove(&self, fill: &Arc<Fill>) {
        let mut by_object = self.by_object.lock();
        let Some(fills) = by_object.get_mut(&fill.digest) else {
            return;
        };
        let before = fills.len();
        fills.retain(|other| !Arc::ptr_eq(other, fill));
        self.count.fetch_sub(before - fills.len(), Ordering::AcqRel);
        if fills.is_empty() {
            by_object.remove(&fill.digest);
        }
    }

    /// This write has been committed: others that go on began before it was.
    pub(crate) fn overtake(&self, committed: &Arc<Fill>) {
        let by_object = self.by_object.lock();
        let fills = by_object.get(&committed.digest).into_iter().flatten();
        for fill in fills.filter(|fill| fill.key == committed.key && !Arc::ptr_eq(fill, committed)) {
            fill.overtaken.store(true, Ordering::Relaxed);
        }
    }

    /// The newest write of an object that can still be read from its first byte, and a new follower of it.
    pub(crate) fn newest(&self, digest: &Digest, key: &Key) -> Option<(Arc<Fill>, u64)> {
        if self.count() == 0 {
            return None;
        }
        let by_object = self.by_object.lock();
        by_object.get(digest)?.iter().rev().filter(|fill| fill.key == *key).find_map(joined)
    }

    /// The write of this number, if it can still be read from its first byte, and a new follower of it.
    pub(crate) fn by_id(&self, digest: &Digest, key: &Key, id: FillId) -> Option<(Arc<Fill>, u64)> {
        let by_object = self.by_object.lock();
        by_object.get(digest)?.iter().filter(|fill| fill.id == id && fill.key == *key).find_map(joined)
    }

    /// How many readers follow the write of this number, wherever in it they are, but for those left behind.
    pub(crate) fn followers(&self, digest: &Digest, key: &Key, id: FillId) -> usize {
        let by_object = self.by_object.lock();
        let fill = by_object.get(digest).and_then(|fills| fills.iter().find(|fill| fill.id == id && fill.key == *key));
        fill.map_or(0, |fill| fill.lock().following())
    }

    /// Take every write of an object off the list.
    pub(crate) fn take(&self, digest: &Digest, key: &Key) -> Vec<Arc<Fill>> {
        let mut by_object = self.by_object.lock();
        let Some(fills) = by_object.get_mut(digest) else {
            return Vec::new();
        };
        let taken: Vec<_> = fills.extract_if(.., |fill| fill.key == *key).collect();
        self.count.fetch_sub(taken.len(), Ordering::AcqRel);
        if fills.is_empty() {
            by_object.remove(digest);
        }
        taken
    }
}

fn joined(fill: &Arc<Fill>) -> Option<(Arc<Fill>, u64)> {
    fill.join_whole().map(|number| (fill.clone(), number))
}
