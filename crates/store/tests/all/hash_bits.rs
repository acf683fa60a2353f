//! How many bits of hash an index keeps (HashCache, sections 3.3 and 4.4): each costs a bit a slot and halves the lookups that
//! read for nothing; a cache keeps what it was made with.

use std::path::Path;

use tinaja_store::device::{Device, Medium};
use tinaja_store::{Cache, CacheOptions, Commit, EngineRef, Removed, Settings, Store, block_on, engines};

use crate::support::{get, key, open_planned, plan_with, put, sound};

/// The engines with a choice of bits.
fn with() -> impl Iterator<Item = EngineRef> {
    let all: Vec<_> = engines::built_in().iter().filter(|engine| engine.has(&engines::HASH_BITS)).collect();
    assert_eq!(all.len(), 5);
    all.into_iter()
}

fn settings(hash_bits: u8, prefetch: bool) -> Settings {
    Settings::new().with(&engines::HASH_BITS, hash_bits.into()).with(&engines::PREFETCH, prefetch.into())
}

#[test]
fn each_bit_of_hash_costs_a_bit_a_slot() {
    for (engine, prefetch) in with().flat_map(|engine| [(engine, false), (engine, true)]) {
        for hash_bits in 8..=16 {
            let plan = plan_with(engine, &settings(hash_bits, prefetch && engine.has(&engines::PREFETCH)), 256 << 20);
            let store = open_planned(&*plan, sound(&Medium::zeroed(256 << 20))).unwrap();
            let (found, reach) =
                (store.stats().bits_per_slot(), if plan.made_with().is_on(&engines::PREFETCH) { 8.0 } else { 0.0 });
            let formula = f64::from(hash_bits)
                + match engine.name {
                    "hashcache-loglru" => 7.0 + (32.0 + reach) / 2.0,
                    "hashcache-setmem" | "hashcache-setmemlru" => 3.0,
                    _ => 39.0 + reach,
                };
            println!("{engine}, prefetching {prefetch}, {hash_bits} bits of hash: {found:.3} bits a slot, {formula}");
            match engine.name {
                // 40 % of the rows, each with links and the number of its set.
                "hashcache-setmemlru" => assert!((0.4 * formula..0.4 * formula + 3.5).contains(&found)),
                _ => assert!((formula..=formula + 0.5).contains(&found), "{engine}: {found}, not {formula}"),
            }
        }
    }
}

/// Objects of full sets, and lookups of as many others: of these one in 2^h for each way in use costs a read.
#[test]
fn with_each_bit_of_hash_half_as_many_lookups_read_for_nothing() {
    const OTHERS: u64 = 40_000;
    for engine in [engines::HASHCACHE_SETMEM, engines::HASHCACHE_LOG] {
        let false_reads = [8, 10, 12, 16].map(|hash_bits| {
            let disk = sound(&Medium::zeroed(16 << 20));
            let store = open_planned(&*plan_with(engine, &settings(hash_bits, false), 16 << 20), disk.clone()).unwrap();
            let objects = store.stats().slots;
            (0..objects).for_each(|n| assert!(matches!(put(&store, n, 1, 100), Commit::Stored { .. })));
            block_on(store.flush()).unwrap();
            let before = disk.counters().reads;
            (0..OTHERS).for_each(|n| assert_eq!(get(&store, objects + n), None));
            let reads = disk.counters().reads - before;
            let ways = 8.0 * store.stats().live_objects as f64 / objects as f64;
            let predicted = OTHERS as f64 * ways / f64::from(1 << hash_bits);
            println!("{engine}, {hash_bits} bits: {reads} reads for nothing in {OTHERS}, {predicted:.0} predicted");
            // Four standard deviations of a Poisson distribution, and what it is off for few.
            let off = 4.0 * predicted.sqrt() + 4.0;
            assert!((reads as f64 - predicted).abs() <= off, "{engine}, {hash_bits} bits: {reads}, not {predicted:.0}");
            reads
        });
        assert!(false_reads[0] > 8 * false_reads[2] && false_reads[3] < 30);
    }
}

/// Found, replaced, removed, after a clean stop and after a kill, whatever the number of bits.
#[test]
fn every_number_of_bits_works_as_eight_do() {
    for (engine, hash_bits) in with().flat_map(|engine| [9, 13, 16].map(|hash_bits| (engine, hash_bits))) {
        let prefetch = hash_bits == 16 && engine.has(&engines::PREFETCH);
        let medium = Medium::zeroed(16 << 20);
        let plan = plan_with(engine, &settings(hash_bits, prefetch), 16 << 20);
        let store = open_planned(&*plan, sound(&medium)).unwrap();
        for version in [1, 2] {
            (0..500).for_each(|n| drop(put(&store, n, version, (n * 37 % 6000) as usize)));
        }
        // A few were pushed out of full sets.
        let gone = (0..500).step_by(5).filter(|n| block_on(store.remove(&key(*n))) == Ok(Removed::Gone)).count();
        assert!(gone > 95, "{engine}, {hash_bits} bits: {gone}");
        block_on(store.flush()).unwrap();
        let all = |store: &Cache| (0..500).map(|n| get(store, n)).collect::<Vec<_>>();
        let before = all(&store);
        assert!((0..500).all(|n| [None, if n % 5 == 0 { None } else { Some(2) }].contains(&before[n])));
        assert!(before.iter().flatten().count() > 380, "{engine}, {hash_bits} bits");
        let killed = medium.copy();
        block_on(store.close()).unwrap();
        for medium in [medium, killed] {
            let store = open_planned(&*plan, sound(&medium)).unwrap();
            assert!(all(&store) == before, "{engine}, {hash_bits} bits");
        }
    }
}

fn options(dir: &Path, engine: Option<EngineRef>, hash_bits: Option<u8>) -> CacheOptions {
    let none = Settings::new();
    let settings = hash_bits.map_or(none, |bits| Settings::new().with(&engines::HASH_BITS, bits.into()));
    CacheOptions::new(dir).when(engine, CacheOptions::engine).settings(settings).disk_bytes(16 << 20).memory_bytes(0)
}

fn refused(options: CacheOptions) -> String {
    let checked = Cache::check(&options).err().map(|error| error.to_string());
    let error = Cache::open(options).err().expect("it was opened").to_string();
    assert_eq!(checked, Some(error.clone()), "check says what open says");
    error
}

#[test]
fn a_cache_keeps_the_bits_it_was_made_with() {
    for (engine, bits) in with().flat_map(|engine| [None, Some(8), Some(12)].map(|bits| (engine, bits))) {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let cache = Cache::open(options(dir.path(), Some(engine), bits)).unwrap();
        assert!(matches!(put(&cache, 1, 1, 3000), Commit::Stored { .. }));
        let bytes = cache.stats().index_bytes;
        block_on(cache.close()).unwrap();
        drop(cache);
        let made = bits.unwrap_or(8);
        let error = refused(options(dir.path(), None, Some(made + 1)));
        let says = format!("was made with hashes of {made} bits, not {} bits: leave the setting out", made + 1);
        assert!(error.contains(&says) && error.contains("make it anew"), "{error}");
        for again in [None, Some(made)] {
            let cache = Cache::open(options(dir.path(), None, again)).unwrap();
            assert_eq!((get(&cache, 1), cache.stats().index_bytes), (Some(1), bytes), "{engine} {bits:?}");
        }
        assert_eq!(get(&Cache::open_read_only(&[dir.path().into()]).unwrap(), 1), Some(1));
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    for (engine, bits, says) in [
        (engines::HASHCACHE_LOG, 7, "cannot keep 7 bits of an object's hash: choose 8 to 16"),
        (engines::HASHCACHE_SETMEM, 17, "choose 8 to 16, or leave it out"),
        (engines::HASHCACHE_LOGLRU, 255, "choose 8 to 16"),
        (
            engines::HASHCACHE_BASIC,
            12,
            "hashcache-basic has no index with a configurable number of hash bits: leave that out",
        ),
        (engines::HASHCACHE_SET, 8, "or choose hashcache-setmem"),
    ] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let error = refused(options(dir.path(), Some(engine), Some(bits)));
        assert!(error.contains(says), "{error}");
        assert!(!dir.path().join("tinaja.cache").exists());
        drop(Cache::open(options(dir.path(), Some(engine), None)).unwrap());
        let error = refused(options(dir.path(), None, Some(bits)));
        assert!(error.contains(says), "{error}");
    }
}
