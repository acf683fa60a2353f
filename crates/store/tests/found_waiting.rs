//! Found by review: readers and lookups that were shut out by others who slept, or by a writer that went on at the wrong
//! moment. Each test tells how.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use support::*;
use tinaja_store::*;

/// A lookup found a write that could not be stored, whole from its first byte. Before the reader had joined, the writer
/// went on, saw nobody, and dropped what the reader was to begin with: a hit that broke off at its first byte.
#[test]
fn a_reader_that_finds_a_relay_has_its_first_byte() {
    let store = open(sound(&blank())).unwrap();
    let (mut begun, mut found) = (0_u64, 0_u64);
    let turn = AtomicU64::new(0);
    let until = Instant::now() + std::time::Duration::from_secs(3);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Too large to be stored: all that the readers get goes through the window of bytes.
            let hint = Hint { expected_bytes: Some(100 << 20), ..Hint::default() };
            while Instant::now() < until {
                let mut writer = store.put(&key(1), Bytes::new(), hint);
                turn.fetch_add(1, SeqCst);
                for _ in 0..8 {
                    block_on(writer.write(Bytes::from_static(b"rain")));
                }
            }
            turn.store(u64::MAX, SeqCst);
        });
        while turn.load(SeqCst) < u64::MAX {
            begun = turn.load(SeqCst).max(begun);
            let Lookup::Here(mut hit) = store.lookup(&key(1), Instant::now()) else { continue };
            found += 1;
            let first = block_on(hit.body.next(1));
            assert_ne!(first, Err(ReadError::Gone), "write {begun}, hit {found}: its first byte was dropped");
        }
    });
    println!("{found} hits");
    assert!(found > 100, "{found} hits in {begun} writes");
}
