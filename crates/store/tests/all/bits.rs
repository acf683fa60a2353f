//! One bit of a store flipped, at every byte of it: never a wrong byte, and a counter for each that changes what is found.
//!
//! By default one bit of every few bytes is tried, chosen by a seed that is printed. `TINAJA_BITS=all` tries every bit
//! (an hour), `TINAJA_BITS=N` one bit of every Nth byte; `TINAJA_SEED` repeats a run.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;

use tinaja_store::device::Medium;
use tinaja_store::{Cache, CacheOptions, Commit, Store, block_on};

use crate::support::bits::{bits, chosen, flipped};
use crate::support::{get, key, open, plan, put, sound};

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

/// What is found of every object, and what was counted: damage seen by opening, records that did not verify when read.
struct Looked {
    found: Vec<Option<u64>>,
    at_open: u64,
    at_lookup: u64,
}

/// Look at everything. Bytes other than those written end the test.
fn look(whole: &Medium, bit: Option<usize>) -> Looked {
    let opened = open(sound(&flipped(whole, bit)));
    let store = opened.unwrap_or_else(|error| panic!("bit {bit:?}: it does not open: {error}"));
    let found = (0..OBJECTS).map(|n| get(&store, n)).collect();
    let stats = store.stats();
    Looked { found, at_open: stats.damaged_at_open, at_lookup: stats.corrupt }
}

/// How many of the bits tried were noticed where.
#[derive(Default)]
struct Noticed {
    at_open: usize,
    at_lookup: usize,
    costly: usize,
    harmless: usize,
}

impl Noticed {
    /// Each flip is counted once, or changes nothing. Returns the objects that are not as they should be.
    fn add(&mut self, bit: usize, right: &Looked, now: &Looked) -> Vec<usize> {
        let other: Vec<_> = (0..right.found.len()).filter(|&n| now.found[n] != right.found[n]).collect();
        let (at_open, at_lookup) = (now.at_open - right.at_open, now.at_lookup - right.at_lookup);
        assert!(other.is_empty() || at_open + at_lookup > 0, "bit {bit} changed {other:?} and was not counted");
        assert!(at_open + at_lookup <= 1, "bit {bit} was counted {at_open} + {at_lookup} times");
        self.at_open += at_open as usize;
        self.at_lookup += at_lookup as usize;
        self.costly += usize::from(!other.is_empty());
        self.harmless += usize::from(at_open + at_lookup == 0);
        other
    }

    fn with(self, other: Noticed) -> Noticed {
        Noticed {
            at_open: self.at_open + other.at_open,
            at_lookup: self.at_lookup + other.at_lookup,
            costly: self.costly + other.costly,
            harmless: self.harmless + other.harmless,
        }
    }

    fn print(&self, tried: usize) {
        let Noticed { at_open, at_lookup, costly, harmless } = self;
        println!(
            "{tried} bits: {at_open} counted when it was opened, {at_lookup} when it was read, {harmless} changed nothing \
             and were not; {costly} cost an object or more"
        );
    }
}

/// Look with each of the bits flipped, several at a time: an opening is mostly waiting. `each` is given the bit, what was
/// found, and the objects that are not as they should be; what it returns is added up.
fn look_with_each(
    whole: &Medium,
    right: &Looked,
    bits: &[usize],
    each: impl Fn(usize, &Looked, &[usize]) -> usize + Sync,
) -> (Noticed, usize) {
    let part = |bits: &[usize]| {
        let (mut noticed, mut sum) = (Noticed::default(), 0);
        for &bit in bits {
            let now = look(whole, Some(bit));
            let other = noticed.add(bit, right, &now);
            sum += each(bit, &now, &other);
        }
        (noticed, sum)
    };
    thread::scope(|scope| {
        let parts: Vec<_> = bits.chunks(bits.len().div_ceil(6)).map(|bits| scope.spawn(|| part(bits))).collect();
        let parts = parts.into_iter().map(|part| part.join().expect("a bit was not noticed; see above"));
        parts.fold((Noticed::default(), 0), |all, part| (all.0.with(part.0), all.1 + part.1))
    })
}

/// Bytes of a medium in which a flip must be noticed by opening: the newest snapshot's pages and both areas' headers.
fn is_snapshot(whole: &[u8], byte: usize) -> bool {
    let layout = plan(MEDIUM_BYTES as u64).snapshots.unwrap();
    let (page, area) = (layout.page_bytes(), layout.area_bytes());
    let in_area = (byte as u64).checked_sub(layout.base).filter(|at| *at < 2 * area).map(|at| (at / area, at % area));
    let Some((area_number, at)) = in_area else { return false };
    let header = (layout.base + area_number * area + layout.pages * page) as usize;
    if whole[header..header + 4] != *b"TjI0" {
        return false;
    }
    let newest = layout.base + (1 - area_number) * area + layout.pages * page;
    let numbers = [header, newest as usize].map(|at| u64::from_le_bytes(whole[at + 8..at + 16].try_into().unwrap()));
    let checked = if at < layout.pages * page { at % page < 32 + layout.page_content_bytes } else { at % page < 32 };
    checked && (at >= layout.pages * page || numbers[0] > numbers[1])
}

/// After a clean close every record is known by its region's summary: one flipped bit costs one object at most, and is
/// counted. What opening relies on is counted by opening.
#[test]
fn a_flipped_bit_of_a_closed_store_costs_one_object_and_is_counted() {
    let medium = small(true);
    let whole = medium.bytes();
    let right = look(&medium, None);
    assert_eq!(right.found, (0..OBJECTS).map(|n| (n >= 3).then_some(2)).collect::<Vec<_>>());
    assert_eq!((right.at_open, right.at_lookup), (0, 0));
    let bits = bits(&whole, chosen(9));
    let (noticed, of_snapshots) = look_with_each(&medium, &right, &bits, |bit, now, other| {
        assert!(other.iter().all(|&n| now.found[n].is_none()), "bit {bit}: {other:?} came back or are old");
        assert!(other.len() <= 1, "bit {bit} cost {other:?}");
        let of_snapshot = is_snapshot(&whole, bit / 8);
        assert!(!of_snapshot || now.at_open == 1, "bit {bit} of a snapshot was not noticed");
        usize::from(of_snapshot)
    });
    let tried = bits.len();
    noticed.print(tried);
    assert!(noticed.costly > tried / 5 && of_snapshots > tried / 100 && noticed.at_open >= of_snapshots);
}

/// The superblock through the whole of opening: every bit that is read makes it refused, and nothing is touched; every
/// other changes nothing.
#[test]
fn every_flipped_bit_of_a_superblock_is_refused_or_harmless() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = || CacheOptions::new(dir.path()).disk_bytes(4 << 20).memory_bytes(0);
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

/// After a kill the open region is walked. A flipped bit there may cost a record, and those behind it in its batch; then
/// what they had replaced or removed may be found. Each is counted, and no byte is wrong.
#[test]
fn a_flipped_bit_of_a_killed_store_never_shows_uncounted() {
    let medium = small(false);
    let right = look(&medium, None);
    assert_eq!(right.found, (0..OBJECTS).map(|n| (n >= 3).then_some(2)).collect::<Vec<_>>());
    let bits = bits(&medium.bytes(), chosen(31));
    let (noticed, found) = look_with_each(&medium, &right, &bits, |_, now, _| now.found.iter().flatten().count());
    let tried = bits.len();
    noticed.print(tried);
    println!("{:.1} objects found on average", found as f64 / tried as f64);
    assert!(noticed.at_open > tried / 5 && found > tried * 15);
}
