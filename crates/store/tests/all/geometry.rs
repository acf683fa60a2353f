//! How a Disk Table is cut: every size of bin and number of ways works and is kept; others are refused with what to do; and
//! parameters that make no sense are errors.

use std::path::Path;

use tinaja_store::{Cache, CacheOptions, Commit, EngineRef, Settings, Store, block_on, engines};

use crate::support::{get, put};

fn options(dir: &Path, engine: Option<EngineRef>, settings: Settings) -> CacheOptions {
    CacheOptions::new(dir)
        .when(engine, CacheOptions::engine)
        .settings(settings)
        .disk_bytes(16 << 20)
        .memory_bytes(0)
        .flush_every(None)
}

fn bins(bytes: u64, ways: u64) -> Settings {
    Settings::new().with(&engines::BIN_SIZE, bytes).with(&engines::WAYS, ways)
}

fn refused(options: CacheOptions) -> String {
    let checked = Cache::check(&options).err().map(|error| error.to_string());
    let error = Cache::open(options).err().expect("it was opened").to_string();
    assert_eq!(checked, Some(error.clone()), "check says what open says");
    error
}

#[test]
fn every_cut_is_made_used_and_kept() {
    let all = engines::built_in();
    for engine in all.iter().filter(|engine| engine.has(&engines::BIN_SIZE)) {
        let ways: &[u64] = if engine == engines::HASHCACHE_BASIC { &[1] } else { &[2, 4, 8] };
        for &ways in ways {
            for bytes in [4096, 8192, 64 << 10] {
                let dir = tempfile::tempdir().unwrap();
                let asked = bins(bytes, ways);
                let cache = Cache::open(options(dir.path(), Some(engine), asked.clone())).unwrap();
                let slots = cache.stats().slots;
                let figures = cache.stats().of_engine;
                assert_eq!((figures.named("bin_bytes"), figures.named("set_bins")), (bytes, ways));
                assert!(slots > 0 && slots.is_multiple_of(ways) && slots * bytes <= 16 << 20, "{slots}");
                let objects = (slots / 4).min(150);
                for n in 0..objects {
                    let size = [100, 3900, 30_000][n as usize % 3];
                    assert!(matches!(put(&cache, n, 1, size), Commit::Stored { .. }));
                    assert_eq!(get(&cache, n), Some(1), "{engine} {asked:?} object {n}");
                }
                (0..objects).step_by(2).for_each(|n| assert!(matches!(put(&cache, n, 2, 500), Commit::Stored { .. })));
                let all = |cache: &Cache| {
                    let versions = (0..objects).filter_map(|n| get(cache, n).map(|version| (n, version)));
                    let versions: Vec<_> = versions.collect();
                    assert!(versions.iter().all(|(n, version)| *version == 2 - n % 2), "an older version came back");
                    versions
                };
                let before = all(&cache);
                assert!(before.len() as u64 > objects * 2 / 3, "{engine} {asked:?}: {} of {objects}", before.len());
                block_on(cache.close()).unwrap();
                drop(cache);
                // As it was made, whether it is said again or not.
                let size = Settings::new().with(&engines::BIN_SIZE, bytes);
                for said in [asked.clone(), Settings::new(), size] {
                    let cache = Cache::open(options(dir.path(), None, said)).unwrap();
                    assert_eq!((cache.stats().slots, all(&cache)), (slots, before.clone()), "{engine} {asked:?}");
                }
                let other_bytes = if bytes == 8192 { 16_384 } else { 8192 };
                let error = refused(options(dir.path(), None, bins(other_bytes, ways)));
                let says =
                    format!("was made with bins of {bytes} bytes, not {other_bytes} bytes: leave the setting out");
                assert!(error.contains(&says) && error.contains("make it anew"), "{error}");
                if ways > 1 {
                    let other = if ways == 8 { 4 } else { 8 };
                    let error = refused(options(dir.path(), None, bins(bytes, other)));
                    let says = format!("was made with sets of {ways} bins, not {other} bins: leave the setting out");
                    assert!(error.contains(&says), "{error}");
                }
                assert_eq!(all(&Cache::open(options(dir.path(), None, asked)).unwrap()), before, "it was not touched");
            }
        }
    }
}

#[test]
fn parameters_that_do_not_fit_are_errors_that_say_what_to_do() {
    let set = Some(engines::HASHCACHE_SET);
    for (engine, cut, says) in [
        (set, bins(4 << 20, 8), "a set of 8 bins has 33554432 bytes, and the cache 16777216: choose smaller bins"),
        (set, bins(u64::MAX, 8), "larger cache"),
        (set, bins(128 << 10, 2), "a bin cannot have 131072 bytes: choose 4096, 8192, 16384, 32768 or 65536"),
        (set, bins(5000, 8), "choose 4096"),
        (set, bins(0, 8), "choose 4096"),
        (set, bins(2048, 8), "choose 4096"),
        (set, bins(8192, 3), "a set cannot have 3 bins: choose 2, 4 or 8"),
        (set, bins(4096, 1), "choose 2, 4 or 8"),
        (set, bins(4096, 0), "choose 2, 4 or 8"),
        (set, bins(4096, 16), "choose 2, 4 or 8"),
        (set, bins(4096, u64::MAX), "choose smaller bins, fewer of them"),
        (
            Some(engines::HASHCACHE_BASIC),
            bins(4096, 8),
            "one bin in a set, not 8: leave the number out, or choose hashcache-set",
        ),
        (Some(engines::HASHCACHE_LOG), bins(4096, 8), "hashcache-log keeps no bins"),
        (Some(engines::HASHCACHE_LOGLRU), Settings::new().with(&engines::WAYS, 8), "hashcache-loglru keeps no bins"),
        (None, Settings::new().with(&engines::BIN_SIZE, 8192), "choose hashcache-basic, hashcache-set"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let error = refused(options(dir.path(), engine, cut.clone()));
        assert!(error.contains(says), "{engine:?} {cut:?}: {error}");
        assert!(!dir.path().join("tinaja.cache").exists(), "something was made");
    }
}

/// Of a set of eight, nine positions were taken to mean eight, and none to mean one: nobody learned of the mistake.
#[test]
fn more_positions_than_a_set_has_are_an_error_new_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let tuned = |settings| options(dir.path(), Some(engines::HASHCACHE_LOGLRU), settings);
    let kept = |positions| Settings::new().with(&engines::POSITIONS_IN_MEMORY, positions);
    let percent = |sets| Settings::new().with(&engines::SETS_IN_MEMORY, sets);
    let wrong = [
        (kept(9), "choose 1 to 8"),
        (kept(0), "choose 1 to 8"),
        (percent(0), "choose 1 to 100"),
        (kept(4).over(&percent(101)), "choose 1 to 100"),
    ];
    for made in [false, true] {
        if made {
            drop(Cache::open(tuned(kept(8))).unwrap());
        }
        for (settings, says) in &wrong {
            let error = refused(tuned(settings.clone()));
            assert!(error.contains(says), "{error}");
        }
    }
    let other = options(dir.path(), None, kept(9));
    assert!(refused(other).contains("9 of a set's 8 positions cannot"));
    let other = options(dir.path(), None, kept(4).over(&bins(8192, 8)));
    assert!(refused(other).contains("hashcache-loglru keeps no bins"));
}

/// Found where each of these was accepted and did nothing: whoever says what an engine does not have is told, of a new cache and
/// of one that is there, also where its engine is not said. What is not said is no fault of any engine's.
#[test]
fn what_an_engine_does_not_have_is_refused_where_it_was_said() {
    let sets = Settings::new().with(&engines::SETS_IN_MEMORY, 40);
    let positions = Settings::new().with(&engines::POSITIONS_IN_MEMORY, 4);
    for engine in engines::built_in().iter() {
        let dir = tempfile::tempdir().unwrap();
        let tuned = |engine, settings: &Settings| options(dir.path(), engine, settings.clone());
        for made in [false, true] {
            if made {
                drop(Cache::open(tuned(Some(engine), &Settings::new())).unwrap());
            }
            for (settings, only, limits) in [
                (&sets, engines::HASHCACHE_SETMEMLRU, "sets it indexes"),
                (&positions, engines::HASHCACHE_LOGLRU, "positions it keeps"),
            ] {
                let asked = if made { None } else { Some(engine) };
                let checked = Cache::check(&tuned(asked, settings)).map_err(|error| error.to_string());
                if engine == only {
                    assert_eq!(checked, Ok(()), "{engine}");
                    continue;
                }
                let says =
                    format!("{engine} cannot limit how many {limits} in memory: leave that out, or choose {only}");
                assert_eq!(checked, Err(says.clone()));
                assert_eq!(refused(tuned(asked, settings)), says);
            }
        }
    }
}

/// Found where an object size of 0, or of 1 GiB, was "a cache of 67108864 bytes is too small: choose a size from 4 MiB up", or
/// was served with a slot or two.
#[test]
fn an_object_size_out_of_range_says_so_itself() {
    for engine in engines::built_in().iter() {
        for disk_bytes in [4 << 20, 64 << 20] {
            for (mean_object_bytes, fits) in [
                (0, false),
                (63, false),
                (64, true),
                (disk_bytes / 64, true),
                (disk_bytes / 64 + 1, false),
                (u64::MAX, false),
            ] {
                let dir = tempfile::tempdir().unwrap();
                let options = options(dir.path(), Some(engine), Settings::new());
                let options = options.disk_bytes(disk_bytes).mean_object_bytes(mean_object_bytes);
                let most = disk_bytes / 64;
                match Cache::open(options) {
                    Ok(_) => assert!(fits, "{engine}: objects of {mean_object_bytes} in {disk_bytes}"),
                    Err(error) => {
                        let error = error.to_string();
                        let says = format!("choose an object size from 64 bytes to {most}, or leave it out");
                        assert!(
                            !fits && error.contains(&says),
                            "{engine}, {mean_object_bytes} in {disk_bytes}: {error}"
                        );
                    }
                }
            }
        }
    }
}
