//! The cache as the rest of the proxy sees it: a store that may be another process's for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use parking_lot::RwLock;
use tinaja_store::{
    Clock, Cursor, FillId, HeadEdit, Hint, Hit, Judge, Key, Lookup, Pending, Removed, ScanPage, Stats, Store,
    StoreError, Swept, Updated, Writer,
};
use tokio::sync::watch;

use super::Storage;
use super::nothing::Nothing;

/// A removal waits so long for the cache to come. What is removed must not be found in it afterwards.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);

/// Whose the cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Another process's, which is about to leave it to this one.
    Coming,
    /// Another process's, to which this one has left it.
    Theirs,
}

/// A store that can be exchanged while it is used. Memory: that of the store in it.
pub struct Switch {
    store: Arc<RwLock<Storage>>,
    whose: watch::Sender<Whose>,
    /// Counts how often it came and went: even while it is ours. What is not found is not there only if this stayed the same.
    turn: AtomicU64,
}

/// A time during which the cache is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn(u64);

impl Switch {
    /// With a store in it.
    pub fn holding(store: Storage) -> Arc<Switch> {
        Switch::new(store, Whose::Ours)
    }

    fn new(store: Storage, whose: Whose) -> Arc<Switch> {
        let turn = AtomicU64::new(u64::from(whose != Whose::Ours));
        Arc::new(Switch { store: Arc::new(RwLock::new(store)), whose: watch::Sender::new(whose), turn })
    }

    /// Without one: nothing is found, and nothing is stored, until [`Switch::take_in`]. Removals wait for that, ten
    /// seconds at most by this clock, and then fail.
    pub fn waiting(clock: Clock) -> Arc<Switch> {
        Switch::new(Arc::new(Nothing(clock)), Whose::Coming)
    }

    /// With one that another process is about to leave, as if lookups could reach it.
    #[cfg(test)]
    pub(crate) fn coming(store: Storage) -> Arc<Switch> {
        Switch::new(store, Whose::Coming)
    }

    /// Use this store from now on. What was begun with the one before is ended with it.
    pub fn take_in(&self, store: Storage) {
        *self.store.write() = store;
        self.whose.send_replace(Whose::Ours);
        self.turns(0);
    }

    /// Leave it to another process: requests are to pass by from now on. What is going on goes on.
    pub(crate) fn leave(&self) {
        self.whose.send_replace(Whose::Theirs);
        self.turns(1);
    }

    /// To the next number that leaves this rest when it is halved.
    fn turns(&self, rest: u64) {
        let next = |turn: u64| Some(turn + if turn % 2 == rest { 2 } else { 1 });
        let _ = self.turn.fetch_update(SeqCst, SeqCst, next);
    }

    /// Whether the cache is another process's at this moment, so that requests are to pass by.
    pub(crate) fn is_away(&self) -> bool {
        self.turn().is_none()
    }

    /// Since when it is ours; `None` while it is another process's.
    pub(crate) fn turn(&self) -> Option<Turn> {
        Some(self.turn.load(SeqCst)).filter(|turn| turn % 2 == 0).map(Turn)
    }

    /// Whether it is ours still, and was all the time.
    pub(crate) fn is_still(&self, turn: Turn) -> bool {
        self.turn() == Some(turn)
    }
}

impl Store for Switch {
    fn clock(&self) -> Clock {
        self.store.read().clock()
    }

    fn lookup_with(&self, key: &Key, hint: &Hint, deadline: Instant) -> Lookup {
        self.store.read().lookup_with(key, hint, deadline)
    }

    fn find(&self, key: &Key) -> Pending<Option<Hit>> {
        self.store.read().find(key)
    }

    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit> {
        self.store.read().follow(key, fill)
    }

    fn followers(&self, key: &Key, fill: FillId) -> usize {
        self.store.read().followers(key, fill)
    }

    fn goes_by_origin(&self) -> bool {
        self.store.read().goes_by_origin()
    }

    fn max_object_bytes(&self) -> u64 {
        self.store.read().max_object_bytes()
    }

    fn distrusted_before(&self) -> Option<SystemTime> {
        self.store.read().distrusted_before()
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        self.store.read().put(key, head, hint)
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        self.store.read().update_head(key, edit)
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        if *self.whose.borrow() != Whose::Coming {
            return self.store.read().remove(key);
        }
        let (key, store, mut whose) = (key.clone(), self.store.clone(), self.whose.subscribe());
        let clock = self.clock();
        Box::pin(async move {
            let came = whose.wait_for(|whose| *whose == Whose::Ours);
            if !clock.timeout(REMOVAL_PATIENCE, came).await.is_ok_and(|came| came.is_ok()) {
                return Err(StoreError::Closed);
            }
            let removal = store.read().remove(&key);
            removal.await
        })
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        self.store.read().scan(from, most)
    }

    fn sweep(&self, from: Cursor, most: usize, judge: Judge) -> Pending<Result<Swept, StoreError>> {
        self.store.read().sweep(from, most, judge)
    }

    fn begin_epoch(&self, after: u64) -> Option<u64> {
        self.store.read().begin_epoch(after)
    }

    fn saved_epoch(&self) -> u64 {
        self.store.read().saved_epoch()
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        self.store.read().flush()
    }

    fn stats(&self) -> Stats {
        self.store.read().stats()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        self.store.read().close()
    }
}

#[cfg(test)]
mod tests {
    use tinaja_store::{Reference, block_on};

    use super::*;

    #[test]
    fn a_store_comes_and_goes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let key = Key::from_name(b"a");
        let store: Storage = Arc::new(Reference::new());
        let writer = store.put(&key, Bytes::from_static(b"head"), Hint::default());
        assert!(matches!(block_on(writer.commit()), tinaja_store::Commit::Stored { .. }));
        let switch = Switch::waiting(Clock::system());
        assert!(switch.is_away() && matches!(switch.lookup(&key, Instant::now()), Lookup::Absent));
        // In vain, since it does not come; and one that waits for it.
        assert_eq!(runtime.block_on(switch.remove(&key)), Err(StoreError::Closed));
        let removal = switch.remove(&key);
        switch.take_in(store);
        assert!(!switch.is_away() && matches!(switch.lookup(&key, Instant::now()), Lookup::Here(_)));
        assert_eq!(runtime.block_on(removal), Ok(Removed::Gone));
        assert!(matches!(switch.lookup(&key, Instant::now()), Lookup::Absent));
        let turn = switch.turn().unwrap();
        assert!(switch.is_still(turn));
        switch.leave();
        assert!(switch.is_away() && !switch.is_still(turn));
        assert_eq!(runtime.block_on(switch.remove(&key)), Ok(Removed::Absent), "not waited for");
        switch.take_in(Arc::new(Reference::new()));
        assert!(!switch.is_away() && !switch.is_still(turn), "it was away between");
    }
}
