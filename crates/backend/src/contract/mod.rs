//! The contract of a [`Backend`] as tests: every implementation runs all of them.
//!
//! Implement [`BackendHarness`] and put [`crate::backend_contract_tests!`] in a test file: it makes one test of each rule, and
//! one that drives the backend and a map in memory side by side through random histories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test-suite")]

mod model;
mod rules;
mod sharing;

use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::block_on;

use crate::calls::{Backend, Entry};
use crate::error::{BackendError, STREAMS};

pub use model::random_histories_match_a_map;
pub use rules::*;
pub use sharing::*;

/// Makes backends for the tests.
pub trait BackendHarness {
    /// A new, empty backend of its own, in which nothing that a test writes needs to be evicted: 16 MiB at the least.
    fn fresh(&self) -> Box<dyn BackendSubject>;

    /// The longest stream that tests write, in bytes. Default 300,000: longer than a record of a small disk.
    fn long_bytes(&self) -> usize {
        300_000
    }
}

/// A backend under test.
pub trait BackendSubject {
    /// The backend. The test drops what it got before it calls [`BackendSubject::reopen`].
    fn backend(&self) -> Arc<dyn Backend>;
    /// Stop the backend and open what it left; false for one that keeps nothing.
    fn reopen(&mut self) -> bool;
}

/// One `#[test]` for each rule of the contract; the argument is an expression of a [`BackendHarness`].
#[macro_export]
macro_rules! backend_contract_tests {
    ($harness:expr) => {
        $crate::backend_contract_tests!(@each $harness;
            what_was_closed_comes_back, streams_are_written_anywhere, an_update_keeps_the_other_streams,
            long_streams_come_back, what_was_doomed_is_gone, a_doomed_key_is_made_anew, calls_that_make_no_sense_are_refused,
            all_who_have_it_open_see_the_same, a_dropped_entry_is_closed, dropped_calls_leave_nothing_behind,
            there_are_never_too_many_open, a_stopped_backend_refuses, threads_take_turns, random_histories_match_a_map);
    };
    (@each $harness:expr; $($rule:ident),*) => {
        $(#[test] fn $rule() { $crate::contract::$rule(&$harness); })*
    };
}

fn create(backend: &dyn Backend, key: &[u8]) -> Arc<dyn Entry> {
    block_on(backend.create_entry(key)).expect("nothing has this key")
}

fn open(backend: &dyn Backend, key: &[u8]) -> Arc<dyn Entry> {
    block_on(backend.open_entry(key)).expect("it was made")
}

fn is_absent(backend: &dyn Backend, key: &[u8]) -> bool {
    matches!(block_on(backend.open_entry(key)), Err(BackendError::NotFound))
}

fn write(entry: &Arc<dyn Entry>, stream: usize, offset: u64, data: &[u8], truncate: bool) {
    block_on(entry.write_data(stream, offset, Bytes::copy_from_slice(data), truncate)).expect("it may be written");
}

fn read(entry: &Arc<dyn Entry>, stream: usize) -> Bytes {
    let bytes = entry.data_bytes(stream).expect("there is such a stream");
    block_on(entry.read_data(stream, 0, bytes as usize)).expect("it can be read")
}

fn close(entry: Arc<dyn Entry>) {
    block_on(entry.close()).expect("it is kept");
}

/// Make an entry whose streams are these, and close it.
fn keep(backend: &dyn Backend, key: &[u8], streams: [&[u8]; STREAMS]) {
    let entry = create(backend, key);
    for (n, data) in streams.into_iter().enumerate().filter(|(_, data)| !data.is_empty()) {
        write(&entry, n, 0, data, false);
    }
    close(entry);
}

/// Whether the streams of an entry are these.
fn is_there(backend: &dyn Backend, key: &[u8], streams: [&[u8]; STREAMS]) -> bool {
    let entry = open(backend, key);
    let same = (0..STREAMS).all(|n| read(&entry, n) == streams[n]);
    close(entry);
    same
}
