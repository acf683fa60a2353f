//! What `bits.rs` shows of HashCache-Log, for the other engines: one bit flipped, at every byte of a store.

use tinaja_store::device::Medium;
use tinaja_store::{Commit, EngineRef, Store, block_on, engines};

use crate::support;
use crate::support::bits::{bits, chosen, flipped};
use crate::support::{get, has_table, key, open_as, put, sound};

const OBJECTS: u64 = 24;

/// LogLRU, segments, and Log that reads related objects together: no wrong byte, and whatever a flipped bit changes is counted. In
/// LogLRU's file of positions a bit changes nothing, since opening writes it anew.
#[test]
fn a_flipped_bit_of_the_other_logs_never_shows_uncounted() {
    flipped_bits_of_a_log(engines::HASHCACHE_LOGLRU);
    flipped_bits_of_a_log(engines::SEGMENTED);
    support::put_in_groups();
    support::with_prefetching(|| {
        flipped_bits_of_a_log(engines::HASHCACHE_LOG);
        flipped_bits_of_a_log(engines::HASHCACHE_LOGLRU);
    });
}

fn flipped_bits_of_a_log(engine: EngineRef) {
    let (seed, step) = chosen(61);
    for closed in [true, false] {
        let medium = Medium::zeroed(4 << 20);
        let whole = written(engine, &medium, closed);
        let look = |bit: Option<usize>| looked_at(engine, &whole, bit);
        let (right, before) = look(None);
        assert_eq!(right, (0..OBJECTS).map(|n| (n >= 3).then_some(2)).collect::<Vec<_>>());
        let bits = bits(&whole.bytes(), (seed, step));
        let (mut costly, mut counted) = (0, 0);
        for &bit in &bits {
            let (found, noticed) = look(Some(bit));
            assert!(found == right || noticed > before, "{engine}: bit {bit}: {found:?}, and was not counted");
            costly += usize::from(found != right);
            counted += usize::from(noticed > before);
        }
        println!("{engine}, closed: {closed}; {} bits: {counted} counted, {costly} changed what is found", bits.len());
        assert!(bits.len() > 300 && counted > bits.len() / 5 && counted >= costly && costly > 0);
    }
}

/// Two versions of each object, three removed, one large, and what a closed or killed process leaves.
fn written(engine: EngineRef, medium: &Medium, closed: bool) -> Medium {
    let store = open_as(engine, sound(medium)).unwrap();
    for version in [1, 2] {
        (0..OBJECTS).for_each(|n| {
            let size = if n == 5 { 40_000 } else { (n * 37 % 600) as usize };
            assert!(matches!(put(&store, n, version, size), Commit::Stored { .. }));
        });
        block_on(store.flush()).unwrap();
    }
    (0..3).for_each(|n| drop(block_on(store.remove(&key(n)))));
    let killed = medium.copy();
    block_on(store.close()).unwrap();
    if closed { medium.clone() } else { killed }
}

/// What is found of each object with one bit flipped, and how much was counted.
fn looked_at(engine: EngineRef, whole: &Medium, bit: Option<usize>) -> (Vec<Option<u64>>, u64) {
    let store = open_as(engine, sound(&flipped(whole, bit))).unwrap();
    let found: Vec<_> = (0..OBJECTS).map(|n| get(&store, n)).collect();
    (found, store.stats().damaged_at_open + store.stats().corrupt)
}

/// With a Disk Table, closed and killed alike: a flipped bit costs the object of its bin, or of one record of the log, and
/// is counted; nothing older or removed comes back.
#[test]
fn a_flipped_bit_of_a_table_costs_one_object_and_shows_nothing_else() {
    let all = engines::built_in();
    for engine in all.iter().filter(|engine| has_table(engine)) {
        flipped_bits_of_a_table(engine);
    }
}

fn flipped_bits_of_a_table(engine: EngineRef) {
    let (seed, step) = chosen(61);
    for closed in [true, false] {
        let medium = Medium::zeroed(4 << 20);
        let whole = written(engine, &medium, closed);
        let look = |bit: Option<usize>| looked_at(engine, &whole, bit);
        let (right, before) = look(None);
        assert_eq!(right.iter().flatten().filter(|version| **version == 2).count(), right.iter().flatten().count());
        assert!(before == 0 && right[..3] == [None; 3] && right.iter().flatten().count() >= 19, "{right:?}");
        let bits = bits(&whole.bytes(), (seed, step));
        let (mut costly, mut counted) = (0, 0);
        for &bit in &bits {
            let (found, noticed) = look(Some(bit));
            let other: Vec<_> = (0..found.len()).filter(|&n| found[n] != right[n]).collect();
            assert!(other.iter().all(|&n| found[n].is_none()), "bit {bit}: {other:?} came back or are old");
            assert!(other.len() <= 1, "bit {bit} cost {other:?}");
            assert!(other.is_empty() || noticed > 0, "bit {bit} cost {other:?} and was not counted");
            costly += usize::from(!other.is_empty());
            counted += usize::from(noticed > 0);
        }
        println!("{engine}, closed: {closed}; {} bits: {counted} counted, {costly} cost an object", bits.len());
        assert!(bits.len() > 500 && costly > bits.len() / 20 && counted >= costly);
    }
}
