//! Files of each engine: looked at without a change, refused by every other engine, made in every size or refused with what
//! to do; and superblocks as they have been since version 1.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use tempfile::TempDir;
use tinaja_store::contract::bytes_of;
use tinaja_store::engine::generational::FORMAT;
use tinaja_store::engine::hashcache::settings::POSITIONS_APART;
use tinaja_store::engine::registry::{Ask, Identity};
use tinaja_store::layout::{Stamp, Superblock};
use tinaja_store::{
    Cache, CacheOptions, Commit, Cursor, EngineRef, Hint, Key, Secret, Settings, Store, block_on, engines,
};

fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options(dir: &Path, engine: Option<EngineRef>) -> CacheOptions {
    CacheOptions::new(dir).when(engine, CacheOptions::engine).disk_bytes(16 << 20).memory_bytes(0)
}

fn put(store: &Cache, n: u64, size: usize) {
    let mut writer = store.put(&Key::from_name(&n.to_le_bytes()), Bytes::from_static(b"head"), Hint::default());
    block_on(writer.write(bytes_of(n, size)));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
}

fn found(store: &Cache, n: u64) -> Option<Bytes> {
    let mut hit = block_on(store.find(&Key::from_name(&n.to_le_bytes())))?;
    block_on(hit.body.collect(usize::MAX)).ok()
}

const SIZES: [usize; 3] = [100, 20_000, 200_000];

/// A cache with three objects, and its file's bytes.
///
/// In one of some 500 caches two of them have one bin, by the cache's secret, and the later one pushes out the other: such a
/// cache is made anew.
fn made(dir: &Path, engine: EngineRef) -> Vec<u8> {
    let cache = Cache::open(options(dir, Some(engine))).unwrap();
    SIZES.into_iter().enumerate().for_each(|(n, size)| put(&cache, n as u64, size));
    let pushed_out = (0..3).any(|n| found(&cache, n).is_none());
    block_on(cache.close()).unwrap();
    if pushed_out && engine == engines::HASHCACHE_BASIC {
        drop(cache);
        fs::remove_file(dir.join("tinaja.cache")).unwrap();
        return made(dir, engine);
    }
    all_of(dir)
}

/// What a cache's directory holds: its file, or those of an engine that has many, with their names.
fn all_of(dir: &Path) -> Vec<u8> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let of = |path: &Path| if path.is_dir() { all_of(path) } else { fs::read(path).unwrap() };
    paths.iter().flat_map(|path| [path.as_os_str().as_encoded_bytes(), &of(path)].concat()).collect()
}

/// An engine's record lists its figures, and [`Stats::of_engine`] has just these: a ninth would be left out.
///
/// [`Stats::of_engine`]: tinaja_store::Stats::of_engine
#[test]
fn an_engine_tells_the_figures_that_its_record_lists() {
    for engine in engines::built_in().iter() {
        let dir = place();
        let cache = Cache::open(options(dir.path(), Some(engine))).unwrap();
        let told: Vec<_> = cache.stats().of_engine.iter().map(|(figure, _)| figure.name).collect();
        let listed: Vec<_> = engine.figures.iter().map(|figure| figure.name).collect();
        assert_eq!(told, listed, "{engine}");
    }
}

#[test]
fn looking_at_a_cache_of_any_engine_changes_nothing() {
    for engine in engines::built_in().iter() {
        let dir = place();
        let before = made(dir.path(), engine);
        let [one, other] = [(); 2].map(|()| Cache::open_read_only(&[dir.path().into()]).unwrap());
        for cache in [&one, &other] {
            assert_eq!(cache.stats().engine, engine.name);
            let found: Vec<_> = (0..4).map(|n| found(cache, n).map(|body| body.len())).collect();
            assert_eq!(found, [Some(100), Some(20_000), Some(200_000), None], "{engine}");
            let (mut listed, mut cursor) = (0, Some(Cursor::default()));
            while let Some(at) = cursor {
                let page = block_on(cache.scan(at, 100)).unwrap();
                listed += page.entries.len();
                cursor = page.next;
            }
            assert_eq!(listed, 3, "{engine}");
            let mut writer = cache.put(&Key::from_name(b"new"), Bytes::new(), Hint::default());
            block_on(writer.write("body".into()));
            assert!(matches!(block_on(writer.commit()), Commit::NotStored(_)), "{engine}");
        }
        drop((one, other));
        assert!(all_of(dir.path()) == before, "{engine}");
    }
}

/// Once in some eighty runs this found hashcache-loglru's file touched: its positions were still on their way when it had said
/// that it was closed, and would have gone over those of a process that opened it next.
#[test]
fn no_engine_opens_another_ones_file() {
    for engine in engines::built_in().iter() {
        let dir = place();
        let before = made(dir.path(), engine);
        for other in engines::built_in().iter().filter(|other| *other != engine) {
            let error = Cache::open(options(dir.path(), Some(other))).err().unwrap().to_string();
            let says = format!("was made with the engine {engine}, not {other}: leave the setting out");
            assert!(error.contains(&says) && error.contains("make it anew"), "{error}");
        }
        assert!(all_of(dir.path()) == before, "{engine} was touched");
        let size = options(dir.path(), None).disk_bytes(32 << 20);
        let error = Cache::open(size).err().unwrap().to_string();
        assert!(error.contains("a size of"), "{error}");
        assert_eq!(found(&Cache::open(options(dir.path(), None)).unwrap(), 0), Some(bytes_of(0, 100)));
    }
}

/// Found where a disk was cut by what was asked for, and only then compared with what it was made with: it was said to be
/// damaged.
#[test]
fn a_cache_keeps_whether_it_prefetches() {
    for engine in engines::built_in().iter().filter(|engine| engine.has(&engines::PREFETCH)) {
        for (made, there, other) in [(0, "off", "on"), (1, "on", "off")] {
            let dir = place();
            let asked = |engine, prefetch| {
                let settings = Settings::new().with(&engines::PREFETCH, prefetch);
                options(dir.path(), engine).settings(settings)
            };
            put(&Cache::open(asked(Some(engine), made)).unwrap(), 1, 3000);
            let error = Cache::open(asked(None, 1 - made)).err().unwrap().to_string();
            let says = format!("was made with prefetching {there}, not {other}: leave the setting out");
            assert!(error.contains(&says), "{engine}: {error}");
            for again in [asked(None, made), options(dir.path(), None)] {
                assert_eq!(found(&Cache::open(again).unwrap(), 1), Some(bytes_of(1, 3000)), "{engine}");
            }
        }
    }
}

/// From objects of a few bytes to ones of which not a set has room: made and used, or refused, and nothing left behind.
#[test]
fn every_geometry_is_made_or_refused() {
    let (mut made, mut refused) = (0, 0);
    for engine in engines::built_in().iter() {
        for mean_object_bytes in [1, 100, 5000, 8192, 60_000, 1 << 20, 1 << 40] {
            for disk_bytes in [4 << 20, (5 << 20) + 12_345, 64 << 20] {
                let dir = place();
                let prefetch = engine.has(&engines::PREFETCH) && made % 2 == 0;
                let settings = Settings::new().with(&engines::PREFETCH, prefetch.into());
                let engine = Some(engine);
                let options = options(dir.path(), engine)
                    .mean_object_bytes(mean_object_bytes)
                    .disk_bytes(disk_bytes)
                    .settings(settings);
                match Cache::open(options.clone()) {
                    Ok(cache) => {
                        put(&cache, 1, 3000);
                        assert_eq!(found(&cache, 1), Some(bytes_of(1, 3000)));
                        drop(cache);
                        assert_eq!(found(&Cache::open(options).unwrap(), 1), Some(bytes_of(1, 3000)), "{engine:?}");
                        made += 1;
                    }
                    Err(error) => {
                        let says = ["choose a size", "choose an object size"];
                        assert!(says.iter().any(|says| error.to_string().contains(says)), "{engine:?}: {error}");
                        assert!(!dir.path().join("tinaja.cache").exists());
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("{made} made, {refused} refused");
    assert!(made > 60 && refused > 5);
}

/// Every engine's superblock, on a disk of 64 MiB, of version 1 without a Disk Table and 2 with one: a change is another
/// version, and keeps this file.
#[test]
fn superblocks_are_those_of_the_golden_file() {
    assert_eq!(superblocks(false), include_str!("../golden/superblocks-v2.txt"));
    assert_eq!(superblocks(true), include_str!("../golden/superblocks-ahead-v2.txt"));
    // Whose objects may be in two sets of the index, and whose pages are of 48 KiB, and of 4.
    let of = |format| superblock(engines::GENERATIONAL, &Settings::new().with(&FORMAT, format));
    assert_eq!(of(2), include_str!("../golden/superblock-generational-2.txt"));
    assert_eq!(of(3), include_str!("../golden/superblock-generational-3.txt"));
    assert_eq!(superblock(engines::GENERATIONAL, &Settings::new()), of(3));
    // Of version 3, whose sections are longer.
    let damelo = superblock(engines::DAMELO, &Settings::new());
    assert_eq!(damelo, include_str!("../golden/superblock-damelo-v3.txt"));
    let apart = [false, true].map(|prefetch| {
        let settings = Settings::new().with(&engines::PREFETCH, prefetch.into()).with(&POSITIONS_APART, 1);
        superblock(engines::HASHCACHE_LOGLRU, &settings)
    });
    assert_eq!(apart.concat(), include_str!("../golden/superblocks-apart-v2.txt"));
}

/// Of version 1, logs are opened as ever; tables, whose bins held no beginnings of larger objects, are refused untouched.
#[test]
fn of_the_version_before_logs_are_opened_and_tables_refused() {
    let lines = [include_str!("../golden/superblocks-v1.txt"), include_str!("../golden/superblocks-ahead-v1.txt")];
    for line in lines.iter().flat_map(|lines| lines.lines()) {
        let (name, hex) = line.split_once(' ').unwrap();
        let engine: EngineRef = name.parse().unwrap();
        let mut block: Vec<_> = (0..144).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect();
        block.resize(4096, 0);
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = dir.path().join("tinaja.cache");
        fs::write(&path, &block).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(64 << 20).unwrap();
        match Cache::open(CacheOptions::new(dir.path()).flush_every(None)) {
            Ok(cache) => {
                assert!(!engine.has(&engines::BIN_SIZE), "{name}");
                put(&cache, 1, 3000);
                assert_eq!(found(&cache, 1), Some(bytes_of(1, 3000)));
            }
            Err(error) => {
                let error = error.to_string();
                assert!(engine.has(&engines::BIN_SIZE), "{error}");
                for words in
                    ["format version 1", "version 2", "the program that wrote it", "delete the file", "not touched"]
                {
                    assert!(error.contains(words), "{error}");
                }
                assert!(fs::read(&path).unwrap()[..4096] == block);
            }
        }
    }
}

/// A cache of `generational` from before an object could be in two sets is used on, with one, also when it is stopped and opened again; and
/// so is one from before pages were small. With the index in memory, and on the disk.
#[test]
fn caches_of_generational_from_before_are_used_as_they_were() {
    for golden in
        [include_str!("../golden/superblocks-v2.txt"), include_str!("../golden/superblock-generational-2.txt")]
    {
        used_as_it_was(golden);
    }
}

fn used_as_it_was(golden: &str) {
    let line = golden.lines().find_map(|line| line.strip_prefix("generational ")).unwrap();
    let mut block: Vec<_> = (0..144).map(|n| u8::from_str_radix(&line[2 * n..2 * n + 2], 16).unwrap()).collect();
    block.resize(4096, 0);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("tinaja.cache");
    fs::write(&path, &block).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(64 << 20).unwrap();
    for round in 0..3 {
        let memory = [0, 8 << 10, 0][round as usize];
        let options = CacheOptions::new(dir.path()).flush_every(None).memory_bytes(memory);
        let cache = Cache::open(options).unwrap();
        assert_eq!(cache.stats().of_engine.named("index_disk_bytes") > 0, memory > 0, "round {round}");
        (0..round * 500).for_each(|n| assert_eq!(found(&cache, n), Some(bytes_of(n, 3000)), "{n} in round {round}"));
        (round * 500..(round + 1) * 500).for_each(|n| put(&cache, n, 3000));
        drop(cache);
        assert_eq!(fs::read(&path).unwrap()[..144], block[..144]);
    }
}

/// Those of engines that read related objects together, or those of all that need not.
fn superblocks(prefetch: bool) -> String {
    let all = engines::on_devices();
    let some = all.iter().filter(|engine| engine.has(&engines::PREFETCH) || !prefetch);
    let some = some.filter(|engine| *engine != engines::DAMELO);
    let settings = Settings::new().with(&engines::PREFETCH, prefetch.into());
    let oldest = settings.clone().with(&FORMAT, 1);
    some.map(|engine| superblock(engine, if engine.has(&FORMAT) { &oldest } else { &settings })).collect()
}

/// A superblock's first 144 bytes, or more if its section is longer, behind the engine's name.
fn superblock(engine: EngineRef, settings: &Settings) -> String {
    let secret = Secret::from_bytes([7; 32]);
    let (stamp, bytes) = (Stamp { seed: secret.seed() }, 64 << 20);
    let ask = Ask { bytes, reserved: 4096, mean_object_bytes: 8192, stamp, settings };
    let cut = engine.cut(&ask).unwrap();
    let superblock = engine.superblock(&*cut, Identity { secret, disk: (0, 1) });
    let bytes = superblock.encode();
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    assert!(used <= 144 || engine == engines::DAMELO);
    let read = Superblock::decode(&bytes).unwrap();
    let made = engine.made_with(&read).unwrap();
    assert!(settings.iter().all(|(setting, value)| made.get(setting).unwrap_or(0) == value), "{engine}: {made:?}");
    assert!(engines::on_devices().iter().all(|other| other == engine || other.made_with(&read).is_none()), "{engine}");
    let again = engine.cut_before(&read, &Ask { settings: &made, ..ask }).unwrap();
    assert_eq!((again.section(), again.end()), (read.section, cut.end()), "{engine}");
    let hex: String = bytes[..used.max(144)].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{engine} {hex}\n")
}
