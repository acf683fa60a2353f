//! The index over segments that are there without a log; and what is counted, against a walk of every slot.

use tinaja_clock::Clock;

use super::*;

fn index(slots: u64) -> Index {
    let layout = LogLayout::new(4096, 64 << 20, 4096).unwrap();
    let closed = (1..60).map(|n| Place(layout.log_bytes() + n * layout.region_bytes));
    let segments = Segments::new(Clock::system(), layout, 64, closed, Some(Place(layout.log_bytes() * 2)));
    Index::over(Index::room(slots), Arc::new(segments), layout)
}

fn place(region: u64, offset: u64) -> Place {
    let layout = LogLayout::new(4096, 64 << 20, 4096).unwrap();
    Place(layout.log_bytes() + region * layout.region_bytes + offset)
}

fn insert(index: &Index, id_low: u64, place: Place) {
    index.enter(Kind::Whole, id_low, place);
}

fn has_left(index: &Index, id_low: u64) -> bool {
    index.recall(id_low) == Recalled::HasLeft
}

#[test]
fn a_newer_version_takes_the_slot_of_the_older() {
    let index = index(8);
    insert(&index, 7, place(1, 100));
    index.touch(7, place(1, 100));
    assert_eq!((index.find(7), index.hits(7, place(1, 100))), (Some(place(1, 100)), Some(1)));
    insert(&index, 7, place(2, 0));
    assert_eq!((index.find(7), index.live(), index.lost()), (Some(place(2, 0)), 1, 0));
    assert!(!index.evict(7, place(1, 100)) && index.evict(7, place(2, 0)));
    assert_eq!(index.find(7), None);
}

#[test]
fn a_full_set_loses_its_oldest() {
    let index = index(8);
    (1..=9).for_each(|n| insert(&index, n, place(n, n)));
    assert_eq!((index.find(1), index.live(), index.lost()), (None, 8, 1));
    assert!((2..=9).all(|n| index.find(n) == Some(place(n, n))));
    assert!(!index.evict(5, place(4, 0)) && index.find(5).is_some(), "it lies elsewhere");
    assert!(index.evict(5, place(5, 5)) && index.find(5).is_none());
}

#[test]
fn a_full_set_loses_what_is_worth_least() {
    let index = index(8);
    (1..=8).for_each(|n| insert(&index, n, place(n, n)));
    index.touch(3, place(3, 3));
    // The newest, unless somebody asked for it.
    let worth = |hits: u8, place: Place| (hits, std::cmp::Reverse(place));
    index.enter_by(Kind::Large, 9, place(2, 9), worth);
    assert_eq!((index.find(8), index.find(9), index.lost()), (None, Some(place(2, 9)), 1));
    index.enter_by(Kind::Whole, 10, place(9, 9), worth);
    assert_eq!((index.find(7), index.find(10), index.lost()), (None, Some(place(9, 9)), 2));
    assert!(index.find(3).is_some() && index.find(9).is_some());
}

/// An empty slot says what was in it last, until it is taken.
#[test]
fn what_was_evicted_is_remembered_and_what_was_removed_is_not() {
    let index = index(8);
    (1..=8).for_each(|n| insert(&index, n, place(n, n)));
    assert!((1..=9).all(|n| !has_left(&index, n)), "all are there, or never were");
    assert!((1..=4).all(|n| index.evict(n, place(n, n))));
    index.remove_low(5);
    assert_eq!((1..=8).filter(|n| has_left(&index, *n)).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // One that returns takes its own slot; another one takes a slot whose object is forgotten then.
    insert(&index, 2, place(9, 0));
    assert_eq!((1..=8).filter(|n| has_left(&index, *n)).collect::<Vec<_>>(), [1, 3, 4]);
    (20..24).for_each(|n| insert(&index, n, place(9, n)));
    assert!((1..=8).all(|n| !has_left(&index, n)) && index.lost() == 0 && index.find(2).is_some());
}

/// Where slots are many, an empty one is taken late: what it remembers is forgotten after three rounds.
#[test]
fn what_has_left_is_forgotten_in_time_and_what_is_there_keeps_its_hits() {
    let index = index(8);
    (1..=3).for_each(|n| insert(&index, n, place(n, n)));
    (0..3).for_each(|_| index.touch(3, place(3, 3)));
    assert!(index.evict(1, place(1, 1)));
    index.age(0);
    assert!(index.evict(2, place(2, 2)));
    index.age(0);
    assert!(has_left(&index, 1) && has_left(&index, 2));
    index.age(0);
    assert!(!has_left(&index, 1) && has_left(&index, 2), "three rounds for one, two for the other");
    (0..9).for_each(|_| index.age(0));
    assert!(!has_left(&index, 2));
    assert_eq!(index.hits(3, place(3, 3)), Some(3));
}

#[test]
fn hits_are_counted_to_three_and_anew_once_it_was_kept() {
    let index = index(80);
    insert(&index, 7, place(1, 0));
    let hits = |_| {
        index.touch(7, place(1, 0));
        index.hits(7, place(1, 0))
    };
    assert_eq!((0..5).map(hits).collect::<Vec<_>>(), [1, 2, 3, 3, 3].map(Some));
    index.touch(7, place(2, 0));
    assert_eq!((index.hit(7), index.hit(8)), (Some(place(1, 0)), None), "wherever it lies");
    assert_eq!((index.hits(7, place(1, 0)), index.hits(7, place(2, 0))), (Some(3), None));
    index.follow(7, place(1, 0), place(3, 0));
    assert_eq!((index.find(7), index.hits(7, place(3, 0))), (Some(place(3, 0)), Some(0)));
    index.follow(7, place(1, 0), place(4, 0));
    assert_eq!(index.find(7), Some(place(3, 0)), "it had moved on");
}

#[test]
fn a_sweep_drops_what_lies_in_one_segment() {
    let index = index(8000);
    (0..500).for_each(|n| insert(&index, n << 55 | n, place(1 + n % 50, n * 8)));
    index.sweep(place(7, 0).0 as usize / (1 << 20) % 64);
    let left = (0..500).filter(|n| index.find(n << 55 | n).is_some()).count();
    assert_eq!((left, index.live(), index.lost()), (490, 490, 0));
}

fn with_two_sets(slots: u64) -> Index {
    index(slots).with_choices(Choices::Two)
}

/// Numbers that choose sets and fingerprints as digests do.
fn ids() -> impl Iterator<Item = u64> {
    (1_u64..).map(|n| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()))
}

/// An id of this set and fingerprint.
fn id_of(index: &Index, set: u64, fingerprint: u16) -> u64 {
    let sets = u128::from(index.sets.len());
    let id = ((u128::from(set) << 64).div_ceil(sets) as u64 | 0xFFF) + 1 + u64::from(fingerprint);
    assert_eq!((index.sets.set_of(id), format::fingerprint(id)), (set, fingerprint));
    id
}

/// Four fifths of the places are asked for. Objects that share a fingerprint and their sets are lost with either.
#[test]
fn with_two_sets_next_to_nothing_is_lost_while_there_is_room() {
    let lost = [Choices::One, Choices::Two].map(|choices| {
        let index = index(64_000).with_choices(choices);
        let objects: Vec<_> = ids().zip(0..51_200).map(|(id, n)| (id, place(1 + n % 50, n / 50 * 64))).collect();
        objects.iter().for_each(|(id, place)| insert(&index, *id, *place));
        let gone = objects.iter().filter(|(id, place)| index.find(*id) != Some(*place)).count();
        (index.lost(), gone)
    });
    println!("lost to full sets, and not found: {lost:?} of 51,200");
    let [(one, one_gone), (two, two_gone)] = lost;
    assert!(one > 2500 && one_gone as u64 >= one && two < 30 && two_gone < 150, "{lost:?}");
}

/// Two objects of one fingerprint, of which each has the other's first set for its second, are one to the index wherever they lie.
#[test]
fn what_has_the_same_fingerprint_and_the_same_two_sets_shares_a_slot() {
    let index = with_two_sets(800);
    let (a, b) = (id_of(&index, 7, 0x123), id_of(&index, index.other(7, 0x123), 0x123));
    assert_ne!(index.sets.set_of(a), index.sets.set_of(b));
    insert(&index, a, place(1, 0));
    assert_eq!((index.find(b), index.live()), (Some(place(1, 0)), 1));
    index.touch(b, place(1, 0));
    assert_eq!(index.hits(a, place(1, 0)), Some(1));
    insert(&index, b, place(2, 0));
    assert_eq!((index.find(a), index.live(), index.lost()), (Some(place(2, 0)), 1, 0));
    assert!(index.evict(a, place(2, 0)) && has_left(&index, b) && index.live() == 0);
    index.remove_low(b);
    assert!(!has_left(&index, a));
}

/// What was entered while there was one set for each is found with two.
#[test]
fn an_index_with_one_set_for_each_may_be_opened_with_two() {
    let one = index(64_000);
    let objects: Vec<_> = ids().zip(0..20_000).map(|(id, n)| (id, place(1 + n % 50, n / 50 * 64))).collect();
    objects.iter().for_each(|(id, place)| insert(&one, *id, *place));
    let there = objects.iter().filter(|(id, place)| one.find(*id) == Some(*place)).count();
    let two = Index { choices: Choices::Two, ..one };
    assert_eq!(objects.iter().filter(|(id, place)| two.find(*id) == Some(*place)).count(), there);
}

/// Whatever leaves a slot otherwise than with its segment is known as displaced, by its own hash: not only by that of what took its slot.
#[test]
fn what_a_full_pair_of_sets_loses_is_known_as_displaced() {
    let index = with_two_sets(80).knows_displaced();
    let displaced = index.displaced().unwrap();
    let mut entered = Vec::new();
    for (id, n) in ids().zip(0..200_u64) {
        (0..2).for_each(|_| displaced.snapshot_begins());
        assert!(entered.iter().all(|(id, _)| !index.may_displace(*id)));
        let lost = index.lost();
        insert(&index, id, place(1 + n / 10, n % 10 * 64));
        let gone: Vec<_> = entered.extract_if(.., |(id, place)| index.find(*id) != Some(*place)).collect();
        assert!(gone.len() <= 1 && gone.len() as u64 >= index.lost() - lost);
        assert!(gone.iter().all(|(id, _)| index.may_displace(*id)), "{n}");
        entered.push((id, place(1 + n / 10, n % 10 * 64)));
    }
    assert!(index.lost() > 50, "{}", index.lost());
    (0..2).for_each(|_| displaced.snapshot_begins());
    let (id, at) = entered[entered.len() - 1];
    index.forget(id, at);
    assert!(index.may_displace(id));
}

impl Index {
    /// What [`Index::live`] says, of every slot; and each segment's part of it is as it is counted.
    fn live_by_walk(&self) -> u64 {
        let places: Vec<_> = (0..self.sets.len()).flat_map(|set| self.places(set)).collect();
        for number in 0..self.layout.regions as usize {
            let lies_there = places.iter().filter(|place| self.layout.region_number(**place) == number);
            assert_eq!(u32::try_from(lies_there.count()), Ok(self.live_in(number)));
        }
        places.len() as u64
    }
}

/// Records come and go, segments are cleaned and begun, and now and then the index is saved and opened without one of them.
#[test]
fn what_is_counted_is_what_a_walk_finds() {
    [Choices::One, Choices::Two].into_iter().for_each(counted_as_walked);
}

fn counted_as_walked(choices: Choices) {
    let layout = LogLayout::new(4096, 4 << 20, 4096).unwrap();
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut current = Place(layout.log_bytes());
    let segments = Segments::new(Clock::system(), layout, 64, [].into_iter(), Some(current));
    let mut index = Index::over(Index::room(300), Arc::new(segments), layout).with_choices(choices);
    let (mut held, mut offset, mut sum) = (Vec::new(), 0, 0);
    for _ in 0..30_000 {
        let id_low = random(500).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (id_of, at) = held.get(random(100) as usize).copied().unwrap_or((id_low, current));
        match random(12) {
            0 => index.remove_low(id_low),
            1 | 2 => {
                index.evict(id_of, at);
            }
            3 => index.touch(id_of, at),
            4 => index.follow(id_of, at, Place(current.0 + offset)),
            _ => {
                insert(&index, id_low, Place(current.0 + offset));
                held.insert(0, (id_low, Place(current.0 + offset)));
            }
        }
        sum += index.live();
        assert_eq!(index.live(), index.live_by_walk());
        offset += 2000 + random(4000);
        if offset + 8000 > layout.region_bytes {
            while !index.segments.is_enough() {
                let region = index.segments.next_to_clean().unwrap();
                index.sweep(layout.region_number(region));
                index.segments.freed(region);
                assert_eq!(index.live(), index.live_by_walk());
            }
            let next = index.segments.next_after(current).unwrap();
            index.segments.end(current);
            index.segments.begin(0, next);
            current = next;
            (held, offset) = (held.into_iter().take(200).collect(), 0);
        }
        if random(1000) == 0 {
            let saved = Index::room(300);
            saved.load_shard(0, &index.sets.copy_shard(0));
            let homes =
                index.segments.homes().into_iter().filter(|home| !(home.0 / layout.region_bytes).is_multiple_of(5));
            let segments = Arc::new(Segments::new(Clock::system(), layout, 64, homes, Some(current)));
            index = Index::over(saved, segments, layout).with_choices(choices);
            index.drop_homeless(|_| false);
            assert_eq!(index.live(), index.live_by_walk());
        }
    }
    assert!(sum > 30_000 * 50 && layout.lap(current) > 10, "{sum}");
}

/// Whoever asks for figures waits for nobody that looks something up: here it would wait for itself.
#[test]
fn figures_lock_no_set() {
    let index = index(80);
    insert(&index, 7, place(1, 0));
    let figures = || (index.live(), index.lost(), index.sets().len(), index.sets().allocated_bytes());
    let (live, lost, sets, _) = index.sets.with(0, |_| figures()).unwrap();
    assert_eq!((live, lost, sets), (1, 0, 10));
}
