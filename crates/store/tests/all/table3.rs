//! HashCache's Table 3 for the engines that there are: bits a slot as allocated, and the requests that a hit, a write and a
//! miss cost, counted at the device, for objects of one block.

use tinaja_store::device::{Counters, Device, Medium};
use tinaja_store::{Cache, CacheOptions, Commit, EngineRef, Settings, Store, block_on, engines};

use crate::support::{get, open_as, open_planned, plan_as, plan_with, put, section_of, settle, sound};

fn cache(engine: EngineRef, mebibytes: u64) -> Cache {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = CacheOptions::new(dir.path()).engine(engine).disk_bytes(mebibytes << 20).memory_bytes(0);
    Cache::open(options).unwrap()
}

/// Bits a slot as allocated, locks and links and padding included, to within half a bit of the paper's formula.
#[test]
fn bits_a_slot_are_the_papers() {
    for (engine, paper) in [
        (engines::HASHCACHE_BASIC, 0.0),
        (engines::HASHCACHE_SET, 0.0),
        (engines::HASHCACHE_SETMEM, 11.0),
        (engines::HASHCACHE_LOGN, 47.0),
        (engines::HASHCACHE_LOG, 47.0),
    ] {
        for mebibytes in [64, 1024, 4096] {
            let stats = cache(engine, mebibytes).stats();
            println!("{engine}, {mebibytes} MiB: {} slots, {:.3} bits each", stats.slots, stats.bits_per_slot());
            assert!((paper..=paper + 0.5).contains(&stats.bits_per_slot()), "{engine}");
            assert!(paper > 0.0 || stats.index_bytes == 0);
        }
    }
    for mebibytes in [64, 1024, 4096] {
        let bits = cache(engines::HASHCACHE_SETMEMLRU, mebibytes).stats().bits_per_slot();
        println!("hashcache-setmemlru at 40 %, {mebibytes} MiB: {bits:.3} bits a slot");
        assert!((0.4 * 11.0..11.0).contains(&bits));
        let bits = cache(engines::HASHCACHE_LOGLRU, mebibytes).stats().bits_per_slot();
        println!("hashcache-loglru with 4 of 8, {mebibytes} MiB: {bits:.3} bits a slot");
        assert!((31.0..=31.5).contains(&bits), "section 3.4: 31 bits");
    }
}

/// Memory is a knob: LogLRU's bits are 15 + 32 k / 8, and SetMemLRU's grow with its share, past SetMem's near the half.
#[test]
fn bits_a_slot_follow_the_settings() {
    let bits = |engine, settings: &Settings| {
        let disk = sound(&Medium::zeroed(256 << 20));
        open_planned(&*plan_with(engine, settings, 256 << 20), disk).unwrap().stats().bits_per_slot()
    };
    for positions_in_memory in 1..=8 {
        let settings = Settings::new().with(&engines::POSITIONS_IN_MEMORY, positions_in_memory);
        let now = bits(engines::HASHCACHE_LOGLRU, &settings);
        let formula = 15.0 + 4.0 * positions_in_memory as f64;
        println!("hashcache-loglru, {positions_in_memory} of 8: {now:.3} bits a slot, formula {formula}");
        assert!((formula..=formula + 0.5).contains(&now));
    }
    let mut before = 0.0;
    for sets_in_memory_percent in [10, 30, 40, 50, 60, 100] {
        let settings = Settings::new().with(&engines::SETS_IN_MEMORY, sets_in_memory_percent);
        let now = bits(engines::HASHCACHE_SETMEMLRU, &settings);
        println!("hashcache-setmemlru, {sets_in_memory_percent} %: {now:.3} bits a slot");
        assert!(now > before && now > 0.11 * sets_in_memory_percent as f64);
        assert!(sets_in_memory_percent > 40 || now < 11.0);
        before = now;
    }
    assert!(before > 11.0, "all rows cost less without links");
}

/// With prefetching (section 3.5) each position in memory has 8 bits more: Log 55, LogLRU 15 + 40 k / 8, which is 35 with half
/// of them. Policies without positions in memory have the length in the bin, and no bit more.
#[test]
fn prefetching_takes_eight_bits_for_each_position_in_memory() {
    let bits = |engine, settings: &Settings| {
        let disk = sound(&Medium::zeroed(256 << 20));
        open_planned(&*plan_with(engine, settings, 256 << 20), disk).unwrap().stats().bits_per_slot()
    };
    let with = Settings::new().with(&engines::PREFETCH, 1);
    let log = bits(engines::HASHCACHE_LOG, &with);
    println!("hashcache-log with prefetching: {log:.3} bits a slot");
    assert!((55.0..=55.5).contains(&log));
    for positions_in_memory in 1..=8 {
        let settings = with.clone().with(&engines::POSITIONS_IN_MEMORY, positions_in_memory);
        let now = bits(engines::HASHCACHE_LOGLRU, &settings);
        let formula = 15.0 + 5.0 * positions_in_memory as f64;
        println!(
            "hashcache-loglru with prefetching, {positions_in_memory} of 8: {now:.3} bits a slot, formula {formula}"
        );
        assert!((formula..=formula + 0.5).contains(&now));
    }
    for engine in [engines::HASHCACHE_BASIC, engines::HASHCACHE_SET, engines::HASHCACHE_SETMEM] {
        assert_eq!(bits(engine, &with), bits(engine, &Settings::new()), "{engine}");
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let refused = Cache::open(CacheOptions::new(dir.path()).engine(engines::HASHCACHE_LOGN).settings(with));
    assert!(refused.is_err_and(|error| error.to_string().contains("never prefetches")));
}

/// Requests a hit, a miss, and a write of an object that was looked for before.
#[derive(Debug)]
struct Costs {
    hit: f64,
    hit_seeks: f64,
    miss: f64,
    write: f64,
    write_seeks: f64,
    read_to_write: f64,
}

const OBJECTS: u64 = 2000;

/// Of one block each, over a table of 10,900 bins, in an order that has nothing to do with where they lie.
fn costs(engine: EngineRef) -> Costs {
    let disk = sound(&Medium::zeroed(64 << 20));
    let store = open_as(engine, disk.clone()).unwrap();
    assert!(section_of(&*plan_as(engine, 64 << 20)).slots > 10_000);
    let counted = |work: &mut dyn FnMut()| {
        let before = disk.counters();
        work();
        let after = disk.counters();
        let less = |of: fn(&Counters) -> u64| of(&after) - of(&before);
        (less(|of| of.reads) as f64, less(|of| of.writes) as f64, less(|of| of.seeks) as f64)
    };
    let mut costs = Costs { hit: 0.0, hit_seeks: 0.0, miss: 0.0, write: 0.0, write_seeks: 0.0, read_to_write: 0.0 };
    for n in 0..OBJECTS {
        costs.miss += counted(&mut || assert_eq!(get(&store, n), None)).0;
        let (reads, writes, seeks) = counted(&mut || assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. })));
        costs.read_to_write += reads;
        costs.write += writes;
        costs.write_seeks += seeks;
    }
    block_on(store.flush()).unwrap();
    let mut hits = 0.0;
    for n in (0..OBJECTS).map(|n| n * 997 % OBJECTS) {
        let (reads, _, seeks) = counted(&mut || hits += f64::from(u8::from(get(&store, n).is_some())));
        costs.hit += reads;
        costs.hit_seeks += seeks;
    }
    let objects = OBJECTS as f64;
    let all = |sum: f64| sum / objects;
    println!("{engine}: {hits} of {objects} are there");
    assert!(hits > objects * if engine == engines::HASHCACHE_BASIC { 0.8 } else { 0.95 });
    let Costs { hit, hit_seeks, miss, write, write_seeks, read_to_write } = costs;
    let costs = Costs {
        // What is not there costs a read too, where nothing says so.
        hit: all(hit),
        hit_seeks: all(hit_seeks),
        miss: all(miss),
        write: all(write),
        write_seeks: all(write_seeks),
        read_to_write: all(read_to_write),
    };
    println!("{engine}: {costs:.3?}");
    costs
}

#[test]
fn a_table_without_an_index_costs_one_request_each() {
    for engine in [engines::HASHCACHE_BASIC, engines::HASHCACHE_SET] {
        let costs = costs(engine);
        assert_eq!((costs.hit, costs.miss, costs.write, costs.read_to_write), (1.0, 1.0, 1.0, 0.0), "{engine}");
        assert!(costs.hit_seeks > 0.98 && costs.write_seeks > 0.0);
    }
}

#[test]
fn with_every_row_in_memory_a_miss_costs_nothing() {
    let costs = costs(engines::HASHCACHE_SETMEM);
    assert_eq!((costs.write, costs.read_to_write), (1.0, 0.0));
    assert!(costs.hit <= 1.0 && costs.hit > 0.95 && costs.hit_seeks > 0.95);
    // Fingerprints of eight bits, with up to 1.5 objects in a set while they come.
    assert!(costs.miss < 0.01, "{} false reads a miss", costs.miss);
    assert!(costs.write_seeks > 0.98);
}

#[test]
fn with_some_rows_in_memory_some_misses_cost_nothing() {
    let costs = costs(engines::HASHCACHE_SETMEMLRU);
    assert_eq!((costs.write, costs.read_to_write), (1.0, 0.0), "a set that was looked up is in memory");
    assert!((0.5..0.7).contains(&costs.miss), "two sets in five are in memory: {}", costs.miss);
    assert!(costs.hit <= 1.0 && costs.hit > 0.95);
}

#[test]
fn in_a_log_writes_are_gathered() {
    for engine in [engines::HASHCACHE_LOGN, engines::HASHCACHE_LOG] {
        let costs = costs(engine);
        assert!(costs.write < 0.1 && costs.write_seeks < 0.1 && costs.read_to_write == 0.0);
        assert!((0.95..1.01).contains(&costs.hit) && costs.hit_seeks > 0.95 && costs.miss < 0.01, "{costs:?}");
    }
}

/// Objects of full sets, asked for at random: the fewer positions are in memory, the more of them are read first; and what
/// is asked for again and again has its position in memory.
#[test]
fn with_some_positions_in_memory_a_hit_costs_little_more_than_one() {
    let mut before = f64::INFINITY;
    for positions_in_memory in [1, 4, 8] {
        let settings = Settings::new().with(&engines::POSITIONS_IN_MEMORY, positions_in_memory);
        let disk = sound(&Medium::zeroed(16 << 20));
        let store = open_planned(&*plan_with(engines::HASHCACHE_LOGLRU, &settings, 16 << 20), disk.clone()).unwrap();
        for n in 0..4000 {
            assert!(matches!(put(&store, n, 1, 2000), Commit::Stored { .. }));
        }
        block_on(store.flush()).unwrap();
        settle(&*disk);
        let written = disk.counters().writes as f64 / 4000.0;
        let hits = |keys: &mut dyn Iterator<Item = u64>| {
            // Of what was lost to full sets a few cost a read all the same: another's fingerprint is theirs.
            let reads = || disk.counters().reads - store.stats().false_reads;
            let (before, mut hits) = (reads(), 0);
            keys.for_each(|n| hits += u64::from(get(&store, n).is_some()));
            (reads() - before) as f64 / hits as f64
        };
        let random = hits(&mut (0..4000).map(|n| n * 997 % 4000));
        settle(&*disk);
        // So few that no two of them share a set, where with one position in memory they would take turns in it.
        let hot = hits(&mut (0..4000).map(|n| n % 8));
        println!(
            "{positions_in_memory} of 8: {random:.3} reads a hit at random, {hot:.3} of a few; {written:.4} writes a put"
        );
        assert!(random < before && random < 2.2 && written < 0.1);
        // The first time each costs a read more, and one by the clock for the position that had to go.
        assert!(hot < 1.03, "{hot}");
        assert!((positions_in_memory == 8) == (random < 1.05));
        before = random;
    }
}
