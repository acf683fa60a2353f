//! A store with a fault, as if one of its invariants did not hold.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tinaja_store::{
    Cursor, FillId, HeadEdit, Hint, Hit, Key, Lookup, Pending, Reference, Removed, ScanPage, Stats, Store, StoreError,
    Updated, Writer,
};

/// Panics when it is to keep an object whose head has `x-panic` in it.
pub struct BrokenStore(Reference);

impl BrokenStore {
    pub fn shared() -> Arc<dyn Store> {
        Arc::new(BrokenStore(Reference::new()))
    }
}

impl Store for BrokenStore {
    fn lookup(&self, key: &Key, deadline: Instant) -> Lookup {
        self.0.lookup(key, deadline)
    }

    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit> {
        self.0.follow(key, fill)
    }

    fn followers(&self, key: &Key, fill: FillId) -> usize {
        self.0.followers(key, fill)
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        let named = head.to_ascii_lowercase().windows(7).any(|window| window == b"x-panic");
        assert!(!named, "the test asks for it");
        self.0.put(key, head, hint)
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        self.0.update_head(key, edit)
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        self.0.remove(key)
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        self.0.scan(from, most)
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        self.0.flush()
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        self.0.close()
    }
}
