//! The backend over engines keeps the contract of a backend: over segments and over a log, also without memory to hold
//! what is open and where most of what is written goes into files, and over a table in place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use support::plan_as;
use tempfile::TempDir;
use tinaja_store::backend::{Backend, EngineBackend, EngineBackendOptions, StreamFiles};
use tinaja_store::contract::backend::{BackendHarness, BackendSubject};
use tinaja_store::device::{Medium, Memory};
use tinaja_store::{EngineName, Secret};

/// How a backend is set up.
struct Over {
    engine: EngineName,
    written_bytes: usize,
    held_bytes: usize,
}

struct Subject {
    engine: EngineName,
    medium: Medium,
    options: EngineBackendOptions,
    backend: Option<Arc<EngineBackend>>,
    _directory: TempDir,
}

fn opened(engine: EngineName, medium: &Medium, options: &EngineBackendOptions) -> Arc<EngineBackend> {
    let bytes = medium.with(|bytes| bytes.len()) as u64;
    let engine = plan_as(engine, bytes).open(Arc::new(Memory::over(medium))).unwrap();
    Arc::new(EngineBackend::over(engine, Secret::from_bytes([7; 32]), options.clone()).unwrap())
}

impl BackendHarness for Over {
    fn fresh(&self) -> Box<dyn BackendSubject> {
        let (directory, medium) = (tempfile::tempdir().unwrap(), Medium::zeroed(16 << 20));
        let files = StreamFiles { directory: directory.path().into(), most_bytes: 64 << 20 };
        let options = EngineBackendOptions {
            written_bytes: self.written_bytes,
            held_bytes: self.held_bytes,
            files: Some(files),
            ..EngineBackendOptions::default()
        };
        let backend = Some(opened(self.engine, &medium, &options));
        Box::new(Subject { engine: self.engine, medium, options, backend, _directory: directory })
    }
}

impl BackendSubject for Subject {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone().unwrap()
    }

    fn reopen(&mut self) -> bool {
        let before = self.backend.take().unwrap();
        assert_eq!(Arc::strong_count(&before), 1, "the test has let go of it");
        tinaja_store::block_on(before.stop()).unwrap();
        drop(before);
        self.backend = Some(opened(self.engine, &self.medium, &self.options));
        true
    }
}

mod over_a_log {
    use super::*;
    tinaja_store::backend_contract_tests!(Over {
        engine: EngineName::HashCacheLog,
        written_bytes: 4 << 20,
        held_bytes: 4 << 20,
    });
}

mod over_segments {
    use super::*;
    tinaja_store::backend_contract_tests!(Over {
        engine: EngineName::Segmented,
        written_bytes: 4 << 20,
        held_bytes: 4 << 20,
    });
}

mod with_memory_for_little {
    use super::*;
    tinaja_store::backend_contract_tests!(Over { engine: EngineName::Segmented, written_bytes: 3000, held_bytes: 0 });
}

mod over_a_table {
    use super::*;
    tinaja_store::backend_contract_tests!(Over {
        engine: EngineName::HashCacheSet,
        written_bytes: 4 << 20,
        held_bytes: 4 << 20,
    });
}
