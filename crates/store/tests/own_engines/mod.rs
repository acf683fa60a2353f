//! Engines written here alone: one with a file an object, one that streams bodies and uses groups. They register, keep the
//! contract of the store, and survive restarts and power cuts, without a line anywhere else. `processes` has the power cuts
//! under a real file system.

mod grouped;
mod power;
mod tree;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use grouped::{BY_GROUP, GROUPED, SHADE};
use tempfile::TempDir;
use tinaja_store::contract::{Harness, Size, Subject, bytes_of};
use tinaja_store::engine::registry::{Ask, Identity};
use tinaja_store::layout::{Stamp, Superblock};
use tinaja_store::{
    Cache, CacheOptions, Commit, EngineRef, Hint, Key, Lookup, OpenError, Secret, Settings, Store, block_on, engines,
};
use tree::TREE;

/// A cache of whatever engine its directory says, of those that come with Tinaja and these two.
fn of_any(dir: &std::path::Path) -> CacheOptions {
    CacheOptions::new(dir.join("cache"))
        .engines(engines::built_in().with(&TREE).with(&GROUPED))
        .disk_bytes(128 << 20)
        .memory_bytes(0)
        .flush_every(None)
}

fn options(dir: &std::path::Path, engine: EngineRef) -> CacheOptions {
    of_any(dir).engine(engine)
}

struct Own {
    engine: EngineRef,
    disks: usize,
    memory_bytes: u64,
}

struct Opened {
    options: CacheOptions,
    cache: Option<Arc<Cache>>,
    _dir: TempDir,
}

impl Harness for Own {
    fn fresh(&self, size: Size) -> Box<dyn Subject> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let options = of_any(dir.path())
            .disk_bytes(if size == Size::Ample { 128 << 20 } else { 8 << 20 })
            .more_dirs((1..self.disks).map(|n| dir.path().join(n.to_string())))
            .memory_bytes(self.memory_bytes);
        let cache = Some(Arc::new(Cache::open(options.clone().engine(self.engine)).unwrap()));
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
        // Whose it is the directory says, not the options.
        self.cache = Some(Arc::new(Cache::open(self.options.clone()).unwrap()));
        true
    }
}

mod a_file_an_object {
    use super::*;
    tinaja_store::contract_tests!(Own { engine: &TREE, disks: 1, memory_bytes: 0 });

    mod on_two_disks_with_hot_objects {
        use super::*;
        tinaja_store::contract_tests!(Own { engine: &TREE, disks: 2, memory_bytes: 4 << 20 });
    }
}

mod streamed_by_group {
    use super::*;
    tinaja_store::contract_tests!(Own { engine: &GROUPED, disks: 1, memory_bytes: 0 });

    mod on_two_disks_with_hot_objects {
        use super::*;
        tinaja_store::contract_tests!(Own { engine: &GROUPED, disks: 2, memory_bytes: 4 << 20 });
    }
}

fn put(store: &Cache, n: u64, group: u64, size: usize) {
    let hint = Hint { group: Some(group), ..Hint::default() };
    let mut writer = store.put(&Key::from_name(&n.to_le_bytes()), "head".into(), hint);
    block_on(writer.write(bytes_of(n, size)));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
}

#[test]
fn a_lookup_brings_its_group_to_the_engine() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path(), &GROUPED)).unwrap();
    (0..20).for_each(|n| put(&store, n, n % 2, if n == 7 { 900_000 } else { 5000 }));
    let before = BY_GROUP.load(Relaxed);
    for n in 0..20 {
        let hint = Hint { group: Some(n % 2), ..Hint::default() };
        let deadline = Instant::now() + Duration::from_secs(10);
        let Lookup::Wait(found) = store.lookup_with(&Key::from_name(&n.to_le_bytes()), &hint, deadline) else {
            panic!("it is on the disk");
        };
        let body = block_on(block_on(found).unwrap().body.collect(usize::MAX)).unwrap();
        assert!(body == bytes_of(n, body.len()));
    }
    assert!(BY_GROUP.load(Relaxed) >= before + 20);
}

#[test]
fn they_are_named_checked_and_refused_like_any_other() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let all = engines::built_in().with(&TREE).with(&GROUPED);
    assert_eq!(all.find("test-tree").unwrap().name, "test-tree");
    assert!(all.find("test-three").unwrap_err().ends_with("squidmla, test-tree, test-grouped"));
    let shaded = |engine, shade| {
        let settings = Settings::new().with(&SHADE, shade);
        options(dir.path(), engine).settings(settings)
    };
    let refused = |options: CacheOptions| {
        let checked = Cache::check(&options).unwrap_err().to_string();
        assert_eq!(Cache::open(options).err().unwrap().to_string(), checked);
        checked
    };
    assert!(refused(shaded(&GROUPED, 10)).contains("10 is no shade: choose 1 to 9"));
    assert_eq!(refused(shaded(&TREE, 5)), "test-tree has no shade: leave that out, or choose test-grouped");
    drop(Cache::open(shaded(&GROUPED, 5)).unwrap());
    assert!(refused(shaded(&GROUPED, 6)).contains("was made with a shade of 5 of nine, not 6 of nine"));
    assert!(refused(options(dir.path(), &TREE)).contains("was made with the engine test-grouped, not test-tree"));
    // A program that does not know the engine leaves the disk alone.
    let strange = of_any(dir.path()).engines(engines::built_in());
    assert!(refused(strange).contains("the engine test-grouped"));

    let tree = |name: &str| options(&dir.path().join(name), &TREE);
    let open = Cache::open(tree("tree")).unwrap();
    put(&open, 1, 0, 100);
    assert!(refused(tree("tree")).contains("in use by another process"));
    block_on(open.close()).unwrap();
    drop(open);
    let larger = tree("tree").disk_bytes(256 << 20);
    assert!(refused(larger).contains("a size of 134217728 bytes, not 268435456 bytes"));
    assert!(refused(tree("tree").engine(&GROUPED)).contains("not test-grouped"));
    assert!(matches!(Cache::look(&tree("none")), Err(OpenError::NoCache(_))));
    let looked = Cache::look(&of_any(&dir.path().join("tree"))).unwrap();
    assert_eq!(looked.stats().live_objects, 1);
}

/// The golden file of superblocks of version 3: what an engine with a section of any length has.
#[test]
fn a_superblock_with_a_section_of_its_own_lies_as_it_did() {
    let secret = Secret::from_bytes([7; 32]);
    let settings = Settings::new().with(&SHADE, 5);
    let (stamp, mean_object_bytes) = (Stamp { seed: secret.seed() }, 8192);
    let ask = Ask { bytes: 64 << 20, reserved: 4096, mean_object_bytes, stamp, settings: &settings };
    let cut = GROUPED.cut(&ask).unwrap();
    let block = GROUPED.superblock(&*cut, Identity { secret, disk: (0, 1) }).encode();
    let hex: String = block[..160].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("../golden/superblock-v3.txt").trim());
    assert!(block[160..].iter().all(|byte| *byte == 0));
    let read = Superblock::decode(&block).unwrap();
    assert_eq!(GROUPED.made_with(&read).unwrap().get(&SHADE), Some(5));
    assert_eq!(GROUPED.cut_before(&read, &ask).unwrap().section(), cut.section());
}
