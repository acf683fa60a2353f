//! A node that is alone keeps the whole contract of a store.

use std::sync::Arc;

use tempfile::TempDir;
use tinaja_cluster::{Comers, Joining, Pooled};
use tinaja_store::contract::{Harness, Size, Subject};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

use crate::support::joining;

struct Alone;

impl Harness for Alone {
    fn fresh(&self, size: Size) -> Box<dyn Subject> {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir, size);
        Box::new(OnDisk { dir, size, store: Some(store) })
    }
}

struct OnDisk {
    dir: TempDir,
    size: Size,
    store: Option<Arc<Pooled>>,
}

fn open(dir: &TempDir, size: Size) -> Arc<Pooled> {
    let (disk, object) = if size == Size::Ample { (256 << 20, 4096) } else { (8 << 20, 8192) };
    let options = CacheOptions::new(dir.path()).disk_bytes(disk).mean_object_bytes(object).memory_bytes(1 << 20);
    let joining = Joining { memory_bytes: 1 << 20, ..joining("alone", &[]) };
    Arc::new(Pooled::join(Arc::new(Cache::open(options).unwrap()), joining, Comers::default()).unwrap())
}

impl Subject for OnDisk {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn reopen(&mut self) -> bool {
        block_on(self.store().close()).unwrap();
        self.store = None;
        self.store = Some(open(&self.dir, self.size));
        true
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        if let Some(store) = self.store.take() {
            block_on(store.close()).unwrap();
        }
    }
}

tinaja_store::contract_tests!(Alone);
