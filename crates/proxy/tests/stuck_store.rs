//! A store that says nothing, as on a disk that stalls: clients have their answers all the same.
//!
//! Which variants a URL has was once noted under one lock, for as long as the disk took: one stalled lookup held up every
//! answer with a Vary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod support;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use support::{Origin, Proxy, reply};
use tinaja_store::{
    Cursor, FillId, HeadEdit, Hint, Hit, Key, Lookup, Pending, Reference, Removed, ScanPage, Stats, Store, StoreError,
    Updated, Writer,
};

/// Finds nothing out that it would have to ask its disk for.
struct StuckStore(Reference);

impl Store for StuckStore {
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

    /// What a lookup that waits for a stalled disk does, but without its deadline.
    fn find(&self, _: &Key) -> Pending<Option<Hit>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn answers_that_vary_pass_without_being_stored() {
    let origin = Origin::start(|request, stream| {
        let language = request.field("accept-language").unwrap();
        reply(stream, request, 200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", language.as_bytes())
    });
    let proxy = Proxy::over(Arc::new(StuckStore(Reference::new())), |_| {});
    std::thread::scope(|scope| {
        for (path, language) in [("/a", "en"), ("/a", "sw"), ("/a", "de"), ("/b", "en"), ("/c", "en")] {
            let (proxy, origin) = (&proxy, &origin);
            scope.spawn(move || {
                let answer = proxy.get_with(&origin.url(path), &format!("Accept-Language: {language}\r\n"));
                assert_eq!((answer.status, answer.text().as_str()), (200, language), "{path}");
                assert!(!answer.field("cache-status").contains("stored"), "{}", answer.head);
            });
        }
    });
    assert_eq!(proxy.store.stats().live_objects, 0);
}
