//! The contract as tests: every store and every engine runs all of them.
//!
//! Implement [`Harness`] and put [`crate::contract_tests!`] in a test file: it makes one test of each rule, and one
//! that drives the store and [`crate::Reference`] side by side through random histories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test-suite")]

mod model;
mod relayed;
mod rules;
mod sweeps;

use std::sync::Arc;

use bytes::Bytes;

use crate::store::{Commit, Hint, Hit, State, Store};
use crate::terms::Key;
use crate::wait::block_on;

pub use model::random_histories_match_the_reference;
pub use relayed::a_slow_reader_of_what_is_not_stored_is_left_behind;
pub use rules::*;
pub use sweeps::*;

/// How large a store a test wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// At least 64 MiB and 10,000 slots: nothing a test writes needs to be evicted.
    Ample,
    /// A few MiB and about a thousand slots, so that tests fill it several times over.
    Tiny,
}

/// Makes stores for the tests.
pub trait Harness {
    /// A new, empty store of its own.
    fn fresh(&self, size: Size) -> Box<dyn Subject>;
    /// The least share of objects that an ample store still has of those it was given: all but a few by default. Less
    /// where a new object may push out any other, as in HashCache-Basic.
    fn keeps(&self) -> f64 {
        0.99
    }
    /// Whether the store sweeps ([`crate::Store::sweep`]).
    fn sweeps(&self) -> bool {
        false
    }
    /// Whether the store counts the objects in it, which takes an index in memory.
    fn counts(&self) -> bool {
        true
    }
}

/// A store under test.
pub trait Subject {
    /// The store. The test drops what it got before it calls [`Subject::reopen`].
    fn store(&self) -> Arc<dyn Store>;
    /// Stop the store and open what it left on disk; false for a store that keeps nothing.
    fn reopen(&mut self) -> bool;
}

/// One `#[test]` for each rule of the contract; the argument is an expression of a [`Harness`].
#[macro_export]
macro_rules! contract_tests {
    ($harness:expr) => {
        $crate::contract_tests!(@each $harness;
            objects_of_every_size_come_back, followers_read_along, followers_are_counted, an_abort_undoes, a_beginning_is_kept, the_last_commit_wins,
            removal_is_final, removal_reaches_unfinished_writes, a_head_update_keeps_the_body,
            a_body_of_another_length_is_not_stored, keys_that_share_a_digest_stay_apart, full_stores_never_mix_objects,
            an_overtaken_reader_is_told, bytes_never_change, ranges_are_read_by_seek, a_scan_lists_what_is_stored,
            a_scan_lists_what_memory_alone_has, a_sweep_forgets_what_it_has_shown, a_sweep_forgets_nothing_newer,
            a_sweep_shows_what_memory_alone_has, a_sweep_ends_on_a_busy_store,
            a_closed_store_refuses, objects_too_large_still_reach_followers,
            what_only_passes_reaches_followers_and_is_not_kept,
            a_slow_reader_of_what_is_not_stored_is_left_behind, an_idle_reader_stops_nobody,
            what_is_stored_survives_reopening, writers_in_parallel_stay_apart, random_histories_match_the_reference);
    };
    (@each $harness:expr; $($rule:ident),*) => {
        $(#[test] fn $rule() { $crate::contract::$rule(&$harness); })*
    };
}

/// Bytes that differ for every `seed` and at every place, the same each time.
pub fn bytes_of(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = vec![0; len.next_multiple_of(8)];
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

fn key(name: u64) -> Key {
    Key::from_name(format!("http://example.net/{name}").as_bytes())
}

fn put(store: &dyn Store, key: &Key, head: Bytes, body: &Bytes) -> Commit {
    // Half of all objects belong to one of three groups.
    let group = Some(u64::from(key.digest()[0]) % 6).filter(|group| *group < 3);
    let hint = Hint { expected_bytes: Some(body.len() as u64), group, ..Hint::default() };
    let mut writer = store.put(key, head, hint);
    block_on(async {
        for piece in body.chunks(40_000) {
            writer.write(Bytes::copy_from_slice(piece)).await;
        }
        writer.commit().await
    })
}

fn stored(store: &dyn Store, key: &Key, head: Bytes, body: &Bytes) {
    assert!(matches!(put(store, key, head, body), Commit::Stored { .. }), "{key:?} was not stored");
}

fn get(store: &dyn Store, key: &Key) -> Option<(Bytes, Bytes)> {
    let mut hit = block_on(store.find(key))?;
    assert_eq!(hit.state, State::Whole);
    let body = block_on(hit.body.collect(usize::MAX)).expect("a whole object that nobody evicts reads to its end");
    Some((hit.head, body))
}

fn read_all(hit: &mut Hit) -> Result<Bytes, crate::terms::ReadError> {
    block_on(hit.body.collect(usize::MAX))
}
