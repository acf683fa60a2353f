//! Entries of files and marks of indexes: who may change them, and which leave.

use super::*;

fn sum(number: u8) -> Sum {
    Sum { hash: Hash::Sha256, start: [number; 24] }
}

#[test]
fn what_was_told_is_found_and_judged() {
    let table = Table::new([7; 32]);
    let (one, other) = (table.key(&[b"a", b"b"]), table.key(&[b"ab", b""]));
    assert!(one != other && table.find(one).is_none());
    table.judge(one, sum(1), Some(3));
    assert!(table.find(one).is_none(), "who was not told of is not made");
    let now = table.begin();
    table.tell(one, sum(1), 5, now);
    assert_eq!((table.find(one), table.find(other)), (Some((sum(1), State::Told)), None));
    table.judge(one, sum(2), Some(3));
    assert_eq!(table.find(one), Some((sum(1), State::Told)), "another digest was checked");
    table.judge(one, sum(1), Some(u32::MAX));
    table.tell(one, sum(1), 9, now);
    assert_eq!(table.find(one), Some((sum(1), State::Proved(u32::MAX))), "told again");
    table.tell(one, sum(2), 5, now);
    assert_eq!(table.find(one), Some((sum(2), State::Outdated)), "the file was replaced at its source");
    table.judge(one, sum(2), Some(4));
    let other_hash = Sum { hash: Hash::Sha512, ..sum(2) };
    table.tell(one, other_hash, 5, now);
    assert_eq!(table.find(one), Some((other_hash, State::Told)));
    table.judge(one, other_hash, None);
    assert_eq!(table.find(one), Some((other_hash, State::Outdated)));
}

#[test]
fn whoever_says_something_else_of_the_files_of_others_is_not_believed_nor_are_they() {
    let table = Table::new([7; 32]);
    let key = table.key(&[b"a"]);
    for (number, owner, found) in [(1, 5, Some(1)), (1, 6, Some(1)), (2, 6, None), (1, 5, None), (3, 5, None)] {
        table.tell(key, sum(number), owner, 1);
        assert_eq!(table.find(key).map(|(sum, _)| sum), found.map(sum), "{number} by {owner}");
    }
    table.judge(key, sum(3), Some(1));
    assert_eq!(table.find(key), None);
}

#[test]
fn the_oldest_leave_and_marks_tell_it() {
    let table = Table::new([7; 32]);
    assert_eq!(table.inner.lock().sets.len(), 0, "nothing is taken before it is needed");
    let mark = table.key(&[b"index"]);
    assert!(!table.is_marked(mark, 1));
    // All in one set.
    let key = |rest| Key { set: 5, rest };
    for rest in 0..WAYS as u64 {
        let now = table.begin();
        table.tell(key(rest), sum(1), 1, now);
    }
    table.mark(mark, 1, table.begin());
    assert!(table.is_marked(mark, 1) && !table.is_marked(mark, 2) && table.find(mark).is_none());
    table.tell(key(0), sum(1), 1, table.begin());
    assert!(table.is_marked(mark, 1), "nothing has left");
    table.tell(key(100), sum(1), 1, table.begin());
    assert!(!table.is_marked(mark, 1), "something has");
    let there: Vec<u64> = (0..=100).filter(|rest| table.find(key(*rest)).is_some()).collect();
    assert_eq!(there, [0, 2, 3, 4, 5, 6, 7, 100], "the one that was told longest ago left");
    table.mark(key(200), 9, table.begin());
    assert!(table.is_marked(key(200), 9) && table.find(key(2)).is_none());
    // A file under the name of a mark, or a mark under that of a file, is no mistake.
    table.tell(key(200), sum(3), 1, table.begin());
    assert_eq!(table.find(key(200)), Some((sum(3), State::Told)));
}

#[test]
fn a_million_files_take_no_more_than_there_is() {
    let table = Table::new([7; 32]);
    let now = table.begin();
    for number in 0..1_000_000_u64 {
        let key = table.key(&[&number.to_le_bytes()]);
        table.tell(key, sum(1), 1, now);
    }
    let inner = table.inner.lock();
    assert_eq!(inner.sets.iter().map(|set| set.len()).sum::<usize>(), MOST_ENTRIES);
    assert_eq!(inner.sets.capacity() * size_of::<[Entry; WAYS]>(), 6 << 20);
    assert!(inner.evicted >= 1_000_000 - MOST_ENTRIES as u64);
}
