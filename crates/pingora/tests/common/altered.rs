//! The reference store with some of its answers altered.

use std::time::Instant;

use bytes::Bytes;
use tinaja_store::*;

type OnLookup = Box<dyn Fn(&Reference, &Key, Instant) -> Lookup + Send + Sync>;
type OnFollow = Box<dyn Fn() + Send + Sync>;
type OnUpdate = Box<dyn Fn(&Reference, &Key, HeadEdit) -> Pending<Result<Updated, StoreError>> + Send + Sync>;

/// Each field takes the place of one answer, or watches it; the rest is the reference store's.
pub struct Altered {
    pub on_lookup: OnLookup,
    pub on_follow: OnFollow,
    pub on_update: OnUpdate,
    pub inner: Reference,
}

impl Default for Altered {
    fn default() -> Altered {
        Altered {
            on_lookup: Box::new(Reference::lookup),
            on_follow: Box::new(|| ()),
            on_update: Box::new(Reference::update_head),
            inner: Reference::new(),
        }
    }
}

impl Store for Altered {
    fn lookup_with(&self, key: &Key, _: &Hint, deadline: Instant) -> Lookup {
        (self.on_lookup)(&self.inner, key, deadline)
    }

    fn follow(&self, key: &Key, id: FillId) -> Option<Hit> {
        (self.on_follow)();
        self.inner.follow(key, id)
    }

    fn followers(&self, key: &Key, id: FillId) -> usize {
        self.inner.followers(key, id)
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        self.inner.put(key, head, hint)
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        (self.on_update)(&self.inner, key, edit)
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        self.inner.remove(key)
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        self.inner.scan(from, most)
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        self.inner.flush()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        self.inner.close()
    }
}
