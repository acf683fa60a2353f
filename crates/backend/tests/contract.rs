//! The backend over engines keeps the contract of a backend: over segments and over a log, also without memory to hold
//! what is open and where most of what is written goes into files, over a table in
//! place, and on a real disk, where nothing ends at once.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tinaja_backend::contract::{BackendHarness, BackendSubject};
use tinaja_backend::{Backend, EngineBackend, EngineBackendOptions, StreamFiles};
use tinaja_store::device::{Access, Device, Disk, Io, IoEngine, Medium, Memory};
use tinaja_store::{EngineRef, block_on, engines};

use crate::support::{open_as, secret};

/// How a backend is set up.
struct Over {
    engine: EngineRef,
    /// Whether the disk is a file.
    is_real: bool,
    written_bytes: usize,
    held_bytes: usize,
}

struct Subject {
    engine: EngineRef,
    disk: AnyDisk,
    options: EngineBackendOptions,
    backend: Option<Arc<EngineBackend>>,
    _directory: TempDir,
}

/// What is under a backend, and outlives it.
enum AnyDisk {
    Memory(Medium),
    File(PathBuf),
}

const DISK_BYTES: u64 = 16 << 20;

impl AnyDisk {
    fn open(&self) -> Arc<dyn Device> {
        match self {
            AnyDisk::Memory(medium) => Arc::new(Memory::over(medium)),
            AnyDisk::File(path) => Arc::new(Disk::open(path, Access::Alone, &Io::new(IoEngine::Auto, 2)).unwrap()),
        }
    }
}

fn opened(engine: EngineRef, disk: &AnyDisk, options: &EngineBackendOptions) -> Arc<EngineBackend> {
    let engine = open_as(engine, disk.open()).unwrap();
    Arc::new(EngineBackend::over(engine, secret(), options.clone()).unwrap())
}

impl BackendHarness for Over {
    fn fresh(&self) -> Box<dyn BackendSubject> {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let disk = if self.is_real {
            let path = directory.path().join("disk");
            File::create(&path).unwrap().set_len(DISK_BYTES).unwrap();
            AnyDisk::File(path)
        } else {
            AnyDisk::Memory(Medium::zeroed(DISK_BYTES as usize))
        };
        let files = StreamFiles { directory: directory.path().join("streams"), most_bytes: 64 << 20 };
        let options = EngineBackendOptions {
            written_bytes: self.written_bytes,
            held_bytes: self.held_bytes,
            files: Some(files),
            ..EngineBackendOptions::default()
        };
        let backend = Some(opened(self.engine, &disk, &options));
        Box::new(Subject { engine: self.engine, disk, options, backend, _directory: directory })
    }
}

impl BackendSubject for Subject {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone().unwrap()
    }

    fn reopen(&mut self) -> bool {
        let before = self.backend.take().unwrap();
        assert_eq!(Arc::strong_count(&before), 1, "the test has let go of it");
        block_on(before.stop()).unwrap();
        drop(before);
        self.backend = Some(opened(self.engine, &self.disk, &self.options));
        true
    }
}

mod over_a_log {
    use super::*;
    tinaja_backend::backend_contract_tests!(Over {
        engine: engines::HASHCACHE_LOG,
        is_real: false,
        written_bytes: 4 << 20,
        held_bytes: 4 << 20,
    });
}

mod over_segments {
    use super::*;
    tinaja_backend::backend_contract_tests!(Over {
        engine: engines::SEGMENTED,
        is_real: false,
        written_bytes: 4 << 20,
        held_bytes: 4 << 20,
    });
}

mod with_memory_for_little {
    use super::*;
    tinaja_backend::backend_contract_tests!(Over {
        engine: engines::SEGMENTED,
        is_real: false,
        written_bytes: 3000,
        held_bytes: 0,
    });
}

mod over_a_table {
    use super::*;
    tinaja_backend::backend_contract_tests!(Over {
        engine: engines::HASHCACHE_SET,
        is_real: false,
        written_bytes: 4 << 20,
        held_bytes: 4 << 20,
    });
}

mod on_a_real_disk {
    use super::*;
    tinaja_backend::backend_contract_tests!(Over {
        engine: engines::SEGMENTED,
        is_real: true,
        written_bytes: 50_000,
        held_bytes: 50_000,
    });
}
