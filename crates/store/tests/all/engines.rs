//! Every engine keeps the contract of the store.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tinaja_store::contract::{Harness, Size, Subject};
use tinaja_store::layout::Superblock;
use tinaja_store::{Cache, CacheOptions, EngineRef, Secret, Settings, Store, block_on, engines};

struct OnDisk {
    engine: EngineRef,
    memory_bytes: u64,
    disks: usize,
    prefetch: bool,
    /// Whether positions lie in a directory of their own.
    apart: bool,
    /// Whether a pointer goes round to choose who makes room in a mapped file.
    cyclic: bool,
    /// Whether the directories of hosts overlap, and pages of the mapped file have 4096 bytes.
    overlapping: bool,
    small_pages: bool,
    /// Memory of an index that lies on the disk.
    index_memory: Option<u64>,
}

impl Default for OnDisk {
    fn default() -> Self {
        OnDisk {
            engine: engines::HASHCACHE_LOG,
            memory_bytes: 0,
            disks: 1,
            prefetch: false,
            apart: false,
            cyclic: false,
            overlapping: false,
            small_pages: false,
            index_memory: None,
        }
    }
}

struct Opened {
    options: CacheOptions,
    cache: Option<Arc<Cache>>,
    _dir: TempDir,
}

impl OnDisk {
    fn has_table(&self) -> bool {
        self.engine.has(&engines::BIN_SIZE)
    }
}

impl Harness for OnDisk {
    fn fresh(&self, size: Size) -> Box<dyn Subject> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let more_dirs: Vec<_> = (1..self.disks).map(|n| dir.path().join(n.to_string())).collect();
        let mut settings = Settings::new();
        if self.prefetch {
            settings.set(&engines::PREFETCH, 1);
        }
        if self.cyclic {
            settings.set(&engines::CYCLIC_REPLACEMENT, 1);
        }
        if self.overlapping {
            settings.set(&engines::OVERLAPPING_MASKS, 1);
        }
        if self.small_pages {
            settings.set(&engines::PAGE_SIZE, 4096);
        }
        if let Some(bytes) = self.index_memory {
            settings.set(&engines::INDEX_MEMORY, bytes);
        }
        // A third of a disk with a table is log. It is to hold heads of 64 KiB, and 1 MB in one object where it is tiny.
        let log_bytes = if size == Size::Ample { 128 << 20 } else { 8 << 20 };
        let options = CacheOptions::new(dir.path())
            .engine(self.engine)
            .settings(settings)
            .memory_bytes(self.memory_bytes)
            .disk_bytes(if self.has_table() { 2 * log_bytes } else { log_bytes })
            .more_dirs(more_dirs.clone())
            .when(self.apart.then(|| dir.path().join("positions")), CacheOptions::positions_dir)
            .mean_object_bytes(8192);
        if self.has_table() {
            drop(Cache::open(options.clone()).unwrap());
            with_known_secret(dir.path());
            more_dirs.iter().for_each(|dir| with_known_secret(dir));
        }
        let cache = Some(Arc::new(Cache::open(options.clone()).unwrap()));
        Box::new(Opened { options, cache, _dir: dir })
    }

    /// With one way 500 objects in 21,800 bins push out 6 of each other.
    fn keeps(&self) -> f64 {
        match self.engine.name {
            "hashcache-basic" => 0.97,
            "hashcache-log" | "hashcache-logn" => 0.99,
            // Two of one fingerprint of eight bits in one of 2000 sets.
            _ => 0.98,
        }
    }

    fn counts(&self) -> bool {
        self.engine.counts_objects
    }

    /// Those with all places in memory, over a log.
    fn sweeps(&self) -> bool {
        let all = ["hashcache-log", "hashcache-logn", "segmented", "generational"];
        all.contains(&self.engine.name) && self.index_memory.is_none()
    }
}

/// Make the cache in a directory anew with a secret of ours: where the tests' objects lie in a table, and which of them push out
/// each other, is then the same in every run.
fn with_known_secret(dir: &Path) {
    let file = File::options().read(true).write(true).open(dir.join("tinaja.cache")).unwrap();
    let bytes = file.metadata().unwrap().len();
    let mut block = vec![0; 4096];
    file.read_exact_at(&mut block, 0).unwrap();
    let superblock = Superblock::decode(&block).unwrap();
    let superblock = Superblock { secret: Secret::from_bytes([7; 32]), ..superblock };
    file.set_len(0).unwrap();
    file.set_len(bytes).unwrap();
    file.write_all_at(&superblock.encode(), 0).unwrap();
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

/// Every rule for one engine, in each of these ways.
macro_rules! contract_of {
    ($name:ident, $engine:expr, $($way:ident: { $($field:ident: $value:expr),* }),+ $(,)?) => {
        mod $name {
            use super::*;
            $(mod $way {
                use super::*;
                tinaja_store::contract_tests!(OnDisk { engine: $engine, $($field: $value,)* ..OnDisk::default() });
            })+
        }
    };
    // Without hot objects and with, and on two disks.
    ($name:ident, $engine:expr) => {
        contract_of!(
            $name, $engine,
            without_hot_objects: {},
            with_hot_objects: { memory_bytes: 4 << 20 },
            on_two_disks: { disks: 2 },
        );
    };
}

/// [`contract_of`] each: see [`tinaja_store::for_built_in_engines`].
macro_rules! contract_of_each {
    (() $($name:ident: $engine:ident = $folder:ident::$record:ident,)*) => {
        $(contract_of!($name, engines::$engine);)*
    };
}

tinaja_store::for_built_in_engines!(contract_of_each);
contract_of!(squid, engines::SQUID);
// The same engine with other names of files.
contract_of!(squid2, engines::SQUID2, without_hot_objects: {});
contract_of!(
    squidl, engines::SQUIDL,
    with_hot_objects: { memory_bytes: 4 << 20 },
    with_overlapping_masks: { overlapping: true },
);
contract_of!(squidl_k, engines::SQUIDL_K, on_two_disks: { disks: 2 });
// With a list in each directory.
contract_of!(cern, engines::CERN, on_two_disks: { disks: 2 });
// Small objects in a mapped file.
contract_of!(squidm, engines::SQUIDM, without_hot_objects: {});
contract_of!(squidml, engines::SQUIDML, on_two_disks: { disks: 2 });
contract_of!(
    squidmla, engines::SQUIDMLA,
    with_hot_objects: { memory_bytes: 4 << 20 },
    cyclic: { cyclic: true },
    with_small_pages: { small_pages: true },
);

// With the index on the disk, and nothing of it in memory that need not be, or a part.
contract_of!(
    generational_index_on_disk,
    engines::GENERATIONAL,
    without_memory: { index_memory: Some(0) },
    with_hot_objects: { index_memory: Some(8 << 10), memory_bytes: 4 << 20 },
    on_two_disks: { index_memory: Some(64 << 10), disks: 2 },
);

contract_of!(
    loglru_with_positions_apart,
    engines::HASHCACHE_LOGLRU,
    on_one_disk: { apart: true },
    on_two_disks_with_prefetching: { apart: true, disks: 2, prefetch: true },
);

/// Every rule for one engine that reads related objects together: on one disk without hot objects, and on two with them.
macro_rules! contract_with_prefetching_of {
    ($name:ident, $engine:expr) => {
        contract_of!(
            $name, $engine,
            on_one_disk: { prefetch: true },
            on_two_disks: { prefetch: true, disks: 2, memory_bytes: 4 << 20 },
        );
    };
}

contract_with_prefetching_of!(basic_with_prefetching, engines::HASHCACHE_BASIC);
contract_with_prefetching_of!(set_with_prefetching, engines::HASHCACHE_SET);
contract_with_prefetching_of!(setmem_with_prefetching, engines::HASHCACHE_SETMEM);
contract_with_prefetching_of!(setmemlru_with_prefetching, engines::HASHCACHE_SETMEMLRU);
contract_with_prefetching_of!(log_with_prefetching, engines::HASHCACHE_LOG);
contract_with_prefetching_of!(loglru_with_prefetching, engines::HASHCACHE_LOGLRU);

/// Whoever stores says where an object comes from to those that go by it. The others are not told, for that takes time.
#[test]
fn who_goes_by_where_objects_come_from() {
    for (engine, goes_by_origin) in [
        (engines::GENERATIONAL, false),
        (engines::HASHCACHE_LOG, false),
        (engines::HASHCACHE_SET, false),
        (engines::SEGMENTED, false),
        (engines::DAMELO, true),
        (engines::SQUID, false),
        (engines::SQUIDL, true),
        (engines::SQUIDML, true),
        (engines::CERN, true),
    ] {
        for disks in [1, 2] {
            let subject = OnDisk { engine, disks, ..OnDisk::default() }.fresh(Size::Tiny);
            assert_eq!(subject.store().goes_by_origin(), goes_by_origin, "{} on {disks}", engine.name);
        }
    }
}
