//! One bit of a store flipped, at every byte of it: never a wrong byte, and a counter for each object it costs.
//!
//! By default one bit of every few bytes is tried, chosen by a seed that is printed. `TINAJA_BITS=all` tries every bit
//! (half an hour), `TINAJA_BITS=N` one bit of every Nth byte; `TINAJA_SEED` repeats a run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

use support::{get, key, open, put, sound};
use tinaja_store::device::Medium;
use tinaja_store::{Cache, CacheOptions, Commit, Store, block_on};

const OBJECTS: u64 = 24;
const MEDIUM_BYTES: usize = 1400 << 10;

/// A small store: two versions of each object, three removed, one large, and what a closed or killed process leaves.
fn small(closed: bool) -> Medium {
    let medium = Medium::zeroed(MEDIUM_BYTES);
    let store = open(sound(&medium)).unwrap();
    for version in [1, 2] {
        for n in 0..OBJECTS {
            let size = if n == 5 { 40_000 } else { (n * 37 % 600) as usize };
            assert!(matches!(put(&store, n, version, size), Commit::Stored { .. }));
        }
        block_on(store.flush()).unwrap();
    }
    (0..3).for_each(|n| drop(block_on(store.remove(&key(n)))));
    let killed = medium.copy();
    block_on(store.close()).unwrap();
    if closed { medium } else { killed }
}

/// The seed of this run, printed; and every how many bytes a bit is flipped, 0 for every bit of every byte.
fn chosen(step: usize) -> (u64, usize) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed = std::env::var("TINAJA_SEED").ok().map_or_else(now, |seed| seed.parse().expect("a number"));
    let step = match std::env::var("TINAJA_BITS").as_deref() {
        Ok("all") => 0,
        Ok(step) => step.parse::<usize>().expect("a number or `all`").max(1),
        Err(_) => step,
    };
    println!("TINAJA_SEED={seed} TINAJA_BITS={}", if step == 0 { "all".into() } else { step.to_string() });
    (seed, step)
}

fn mixed(seed: u64, n: u64) -> u64 {
    let mut mixed = (seed ^ n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^= mixed >> 31;
    mixed.wrapping_mul(0x94D0_49BB_1331_11EB) >> 33
}

/// The bits to flip of a medium: of the blocks in use only, the others are never looked at.
fn bits(whole: &[u8], (seed, step): (u64, usize)) -> Vec<usize> {
    let used = whole.chunks(512).enumerate().filter(|(_, block)| block.iter().any(|&byte| byte != 0));
    let bytes = used.flat_map(|(block, _)| block * 512..(block + 1) * 512);
    if step == 0 {
        return bytes.flat_map(|byte| byte * 8..byte * 8 + 8).collect();
    }
    bytes
        .filter(|&byte| mixed(seed, (byte / step) as u64) as usize % step == byte % step)
        .map(|byte| byte * 8 + (mixed(seed + 1, byte as u64) % 8) as usize)
        .collect()
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// Open with this bit flipped and look at everything: the objects that it cost, and those that came back.
fn look(whole: &[u8], bit: usize) -> (Vec<u64>, u64) {
    let mut bytes = whole.to_vec();
    flip(&mut bytes, bit);
    let store =
        open(sound(&Medium::from(bytes))).unwrap_or_else(|error| panic!("bit {bit}: it does not open: {error}"));
    let found: Vec<_> = (0..OBJECTS).map(|n| (n, get(&store, n))).collect();
    let corrupt = store.stats().corrupt;
    let missing = found.iter().filter(|(n, found)| *n >= 3 && *found != Some(2));
    let (missing, old): (Vec<_>, Vec<_>) = missing.copied().partition(|(_, found)| found.is_none());
    assert!(old.is_empty(), "bit {bit}: older versions {old:?}");
    let back: Vec<_> = found.iter().filter(|(n, found)| *n < 3 && found.is_some()).collect();
    assert!(back.is_empty(), "bit {bit}: removed objects are back: {back:?}");
    (missing.into_iter().map(|(n, _)| n).collect(), corrupt)
}

/// After a clean close every record is known by its region's summary: one flipped bit costs one object at most, and is
/// counted.
#[test]
fn a_flipped_bit_of_a_closed_store_costs_one_object_and_is_counted() {
    let whole = small(true).bytes();
    let bits = bits(&whole, chosen(9));
    let (mut costly, tried) = (0, bits.len());
    for bit in bits {
        let (missing, corrupt) = look(&whole, bit);
        assert!(missing.len() <= 1, "bit {bit} cost {missing:?}");
        assert!(missing.is_empty() || corrupt == 1, "bit {bit} cost {missing:?}, and {corrupt} were counted");
        costly += missing.len();
    }
    println!("{tried} bits, {costly} of them cost an object");
    assert!(costly > tried / 5 && costly < tried);
}

/// The superblock through the whole of opening: every bit that is read makes it refused, and nothing is touched; every
/// other changes nothing.
#[test]
fn every_flipped_bit_of_a_superblock_is_refused_or_harmless() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = || CacheOptions { disk_bytes: Some(4 << 20), memory_bytes: 0, ..CacheOptions::new(dir.path()) };
    let cache = Cache::open(options()).unwrap();
    assert!(matches!(put(&cache, 1, 1, 5000), Commit::Stored { .. }));
    block_on(cache.close()).unwrap();
    let path = dir.path().join("tinaja.cache");
    let whole = std::fs::read(&path).unwrap();
    let mut harmless = 0;
    for bit in (0..130 * 8).chain((130 * 8..4096 * 8).step_by(997)) {
        let file = File::options().write(true).open(&path).unwrap();
        let byte = whole[bit / 8];
        file.write_all_at(&[byte ^ 1 << (bit % 8)], bit as u64 / 8).unwrap();
        match Cache::open(options()) {
            Ok(cache) => {
                assert!(bit >= 120 * 8, "bit {bit} was not noticed");
                assert_eq!(get(&cache, 1), Some(1), "bit {bit}");
                harmless += 1;
            }
            Err(error) => assert!(error.to_string().contains("it was not touched"), "bit {bit}: {error}"),
        }
        file.write_all_at(&[byte], bit as u64 / 8).unwrap();
        if harmless == 0 {
            assert!(std::fs::read(&path).unwrap() == whole, "bit {bit}: the file was touched");
        }
    }
    assert!((80..200).contains(&harmless), "{harmless} bits are read by nobody");
}

/// After a kill the open region is walked to its first hole, so a flipped bit may cost all that was written there after
/// it. It opens, and no byte is wrong.
#[test]
fn a_flipped_bit_of_a_killed_store_never_shows() {
    let whole = small(false).bytes();
    let bits = bits(&whole, chosen(31));
    let tried = bits.len();
    let mut found = 0;
    for bit in bits {
        let mut bytes = whole.clone();
        flip(&mut bytes, bit);
        let store = open(sound(&Medium::from(bytes))).unwrap();
        found += (0..OBJECTS).filter(|&n| get(&store, n).is_some()).count();
    }
    println!("{tried} bits, {:.1} objects found on average", found as f64 / tried as f64);
    assert!(found > tried * 8);
}
