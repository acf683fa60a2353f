//! HashCache-Log keeps the contract of the store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use tempfile::TempDir;
use tinaja_store::contract::{Harness, Size, Subject};
use tinaja_store::{Cache, CacheOptions, EngineName, Store, block_on};

struct OnDisk {
    memory_bytes: u64,
    disks: usize,
}

struct Opened {
    options: CacheOptions,
    cache: Option<Arc<Cache>>,
    _dir: TempDir,
}

impl Harness for OnDisk {
    fn fresh(&self, size: Size) -> Box<dyn Subject> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut options = CacheOptions::new(dir.path());
        options.engine = Some(EngineName::HashCacheLog);
        options.memory_bytes = self.memory_bytes;
        let (disk_bytes, mean) = if size == Size::Ample { (128 << 20, 8192) } else { (8 << 20, 8192) };
        options.disk_bytes = Some(disk_bytes);
        options.more_dirs = (1..self.disks).map(|n| dir.path().join(n.to_string())).collect();
        options.mean_object_bytes = mean;
        let cache = Some(Arc::new(Cache::open(options.clone()).unwrap()));
        Box::new(Opened { options, cache, _dir: dir })
    }
}

impl Subject for Opened {
    fn store(&self) -> Arc<dyn Store> {
        self.cache.clone().unwrap()
    }

    fn reopen(&mut self) -> bool {
        if let Some(cache) = self.cache.take() {
            block_on(cache.close()).unwrap();
        }
        self.cache = Some(Arc::new(Cache::open(self.options.clone()).unwrap()));
        true
    }
}

mod without_hot_objects {
    use super::*;
    tinaja_store::contract_tests!(OnDisk { memory_bytes: 0, disks: 1 });
}

mod with_hot_objects {
    use super::*;
    tinaja_store::contract_tests!(OnDisk { memory_bytes: 4 << 20, disks: 1 });
}

mod on_two_disks {
    use super::*;
    tinaja_store::contract_tests!(OnDisk { memory_bytes: 0, disks: 2 });
}
