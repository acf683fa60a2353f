//! The sample beside an LRU cache that is counted exactly, and the row beside a list.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::replace::Lru;

/// Numbers that look random: the same each time.
struct Numbers(u64);

impl Numbers {
    /// The next of splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// From 0 to below 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn digest(object: u64) -> Digest {
    Digest((u128::from(mixed(object)) << 64).to_le_bytes())
}

/// Between 500 bytes and 32 KB.
fn bytes_of(object: u64) -> u64 {
    500 + (mixed(object ^ 77) % 1000).pow(2) / 32
}

/// An LRU cache of so many bytes.
struct Exact {
    left: u64,
    order: Lru<u64>,
    found: HashMap<u64, u32>,
}

impl Exact {
    fn ask(&mut self, object: u64) -> bool {
        if let Some(at) = self.found.get(&object) {
            self.order.touch(*at);
            return true;
        }
        while self.left < bytes_of(object) {
            let gone = self.order.pop_oldest().unwrap();
            self.found.remove(&gone);
            self.left += bytes_of(gone);
        }
        self.left -= bytes_of(object);
        self.found.insert(object, self.order.insert(object));
        false
    }
}

/// Asked for by a law of Zipf's kind, over a cache of `disk` bytes that is LRU itself: what the sample says of twice the disk is what a cache
/// of twice the size finds.
#[test]
fn what_twice_the_disk_would_find_is_known_to_within_two_points() {
    let disk = 100 << 20;
    let reuse = ReuseSample::new(2 * disk);
    let mut numbers = Numbers(5);
    let mut caches = [disk, 2 * disk].map(|left| Exact { left, order: Lru::default(), found: HashMap::new() });
    let (mut all, mut found) = (0, [0; 2]);
    for _ in 0..1_000_000 {
        let object = (numbers.part().powi(3) * 100_000.0) as u64;
        let there = caches.each_mut().map(|cache| cache.ask(object));
        match there[0] {
            true => reuse.found(&digest(object), bytes_of(object)),
            false => {
                reuse.missed(&digest(object));
                reuse.stored(&digest(object), bytes_of(object));
            }
        }
        all += 1;
        (0..2).for_each(|cache| found[cache] += u64::from(there[cache]));
    }
    let larger = reuse.larger(0, disk);
    let exact = found.map(|found| found as f64 / all as f64);
    let told = [larger.disk, larger.twice_disk].map(|found| found.objects as f64 / larger.asked.objects as f64);
    println!("exact {exact:?}, told {told:?} by {} requests", larger.sampled);
    assert!(exact[1] - exact[0] > 0.08, "a larger disk does find more: {exact:?}");
    for (exact, told) in exact.iter().zip(&told) {
        assert!((exact - told).abs() < 0.02, "{exact} and {told}");
    }
    assert!((larger.by_disk().0 - (exact[1] - exact[0])).abs() < 0.02);
    assert!(reuse.sample.lock().followed.len() <= MAX_FOLLOWED);
}

/// Millions of objects that nobody asks for again: what is followed stays bounded, and what is far is forgotten.
#[test]
fn what_is_far_is_forgotten() {
    let reuse = ReuseSample::new(64 << 20);
    for object in 0..300_000 {
        reuse.stored(&digest(object), 10_000);
    }
    let sample = reuse.sample.lock();
    let objects = (64 << 20) / 10_000 / FIRST_SHARE as usize;
    assert!((objects * 8 / 10..objects * 12 / 10).contains(&sample.followed.len()), "{}", sample.followed.len());
    assert_eq!(reuse.bound.load(Relaxed), u64::MAX / FIRST_SHARE, "as many are followed as before");
}

#[test]
fn the_bound_falls_when_too_many_are_followed() {
    let reuse = ReuseSample::new(1 << 40);
    (0..500_000).for_each(|object| reuse.stored(&digest(object), 1000));
    assert!(reuse.sample.lock().followed.len() <= MAX_FOLLOWED);
    assert!(reuse.bound.load(Relaxed) < u64::MAX / FIRST_SHARE / 4);
    let asked = reuse.larger(1 << 30, 1 << 30).asked;
    assert!((400_000..600_000).contains(&asked.objects), "{asked:?}");
    assert_eq!(asked.bytes / asked.objects, 1000);
}

#[test]
fn what_was_removed_or_there_before_counts_for_nothing() {
    let reuse = ReuseSample::new(1 << 30);
    let followed = (0..).map(digest).find(|id| id.high() < u64::MAX / FIRST_SHARE).unwrap();
    reuse.found(&followed, 1000);
    assert_eq!(reuse.larger(0, 1 << 30).sampled, 0, "nobody knows when it was asked for before");
    reuse.removed(&followed);
    reuse.missed(&followed);
    assert_eq!(reuse.larger(0, 1 << 30).sampled, 0);
    reuse.stored(&followed, 2000);
    reuse.found(&followed, 2000);
    let larger = reuse.larger(0, 1 << 30);
    assert_eq!((larger.sampled, larger.asked.objects, larger.by_disk()), (2, 2, (0.0, 0.0)));
}

proptest! {
    /// The row beside a list: bytes since, the oldest, all bytes, over entering, leaving, resizing and closing up.
    #[test]
    fn the_row_is_a_list(steps in proptest::collection::vec((0..4_u8, 0..30_u64, 0..1_000_000_u64), 1..400), close in 0..9_usize) {
        let mut row = Recency::default();
        let (mut turns, mut list) = (HashMap::new(), Vec::<(u64, u64)>::new());
        for (step, (what, number, bytes)) in steps.into_iter().enumerate() {
            let at = list.iter().position(|(there, _)| *there == number);
            match (what, at) {
                (0, Some(at)) => {
                    row.leave(turns.remove(&number).unwrap());
                    list.remove(at);
                }
                (1, Some(at)) => {
                    let turn = row.resize(turns[&number], bytes);
                    turns.insert(number, turn);
                    list[at].1 = bytes;
                }
                (_, at) => {
                    if let Some(at) = at {
                        row.leave(turns[&number]);
                        list.remove(at);
                    }
                    turns.insert(number, row.enter(number, bytes));
                    list.push((number, bytes));
                }
            }
            if step % 9 == close {
                row.close_up(|number, turn| {
                    turns.insert(number, turn);
                });
            }
            prop_assert_eq!(row.bytes(), list.iter().map(|(_, bytes)| bytes).sum::<u64>());
            prop_assert_eq!(row.oldest(), list.first().map(|(number, _)| *number));
            for (at, (number, _)) in list.iter().enumerate() {
                let since: u64 = list.iter().skip(at + 1).map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(row.since(turns[number]), since);
            }
        }
    }
}
