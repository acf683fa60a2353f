//! The rival keeps the contract of a backend.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use tinaja_backend::Backend;
use tinaja_backend::contract::{BackendHarness, BackendSubject};
use tinaja_lab::rig::{Clock, PageCache, PageCacheOptions, Sparse};
use tinaja_lab::rival::{Ages, Blockfile, BlockfileOptions};

struct Rival;

struct Subject(Arc<Blockfile>);

impl BackendHarness for Rival {
    fn fresh(&self) -> Box<dyn BackendSubject> {
        let (bytes, clock) = (64 << 20, Clock::default());
        let device = Arc::new(Sparse::new(Blockfile::device_bytes(bytes)));
        let disk = Arc::new(PageCache::new(device, PageCacheOptions::phone(), clock.clone()));
        Box::new(Subject(Arc::new(Blockfile::new(disk, BlockfileOptions { bytes, ages: Ages::Ignored }, clock))))
    }
}

impl BackendSubject for Subject {
    fn backend(&self) -> Arc<dyn Backend> {
        self.0.clone()
    }

    /// It keeps nothing.
    fn reopen(&mut self) -> bool {
        false
    }
}

tinaja_backend::backend_contract_tests!(Rival);
