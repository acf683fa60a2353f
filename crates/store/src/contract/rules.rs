//! One test for each rule of [`Store`].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::store::{Cursor, HeadEdit, Lookup, Removed, Source, Updated};
use crate::terms::{ReadError, WhyNot};

/// Rule 1: heads and bodies of every size come back as they were.
pub fn objects_of_every_size_come_back(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    let sizes = [0, 1, 100, 4095, 4096, 4097, 65_536, 300_000, 1 << 20, (3 << 20) + 17];
    for (n, &size) in sizes.iter().enumerate() {
        let n = n as u64;
        let head = bytes_of(n + 1000, [0, 1, 300, 65_536][n as usize % 4]);
        stored(store, &key(n), head, &bytes_of(n, size));
    }
    for (n, &size) in sizes.iter().enumerate() {
        let n = n as u64;
        let (head, body) = get(store, &key(n)).unwrap_or_else(|| panic!("{size} bytes are gone"));
        assert!(head == bytes_of(n + 1000, [0, 1, 300, 65_536][n as usize % 4]), "head of object {n}");
        assert!(body == bytes_of(n, size), "body of {size} bytes");
    }
    assert!(block_on(store.find(&key(999))).is_none());
    // Those that wait for their group are counted when they are written.
    assert!(block_on(store.flush()).is_ok());
    assert_eq!(store.stats().live_objects, if harness.counts() { sizes.len() as u64 } else { 0 });
}

/// Rule 2: lookups find the unfinished write first, and read it as it grows.
pub fn followers_read_along(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = subject.store();
    let body = bytes_of(7, 5_000_000);
    stored(&*store, &key(1), "old".into(), &bytes_of(1, 10));
    let mut writer = store.put(&key(1), "new".into(), Hint::default());
    let followers: Vec<_> = (0..4)
        .map(|_| {
            let mut hit = block_on(store.find(&key(1))).expect("the unfinished write");
            assert_eq!((hit.state, hit.source, &hit.head[..]), (State::Filling, Source::Fill, &b"new"[..]));
            thread::spawn(move || read_all(&mut hit))
        })
        .collect();
    let mut by_id = store.follow(&key(1), writer.id()).expect("by its number");
    for piece in body.chunks(123_457) {
        block_on(writer.write(Bytes::copy_from_slice(piece)));
    }
    let mut late = writer.follow();
    let id = writer.id();
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    for follower in followers {
        assert!(follower.join().unwrap().unwrap() == body);
    }
    assert_eq!(store.followers(&key(1), id), 0, "the write has ended");
    assert!(read_all(&mut late).unwrap() == body, "a follower that begins late, after the commit");
    assert!(read_all(&mut by_id).unwrap() == body);
    assert!(store.follow(&key(1), id).is_none(), "the write has ended");
    assert!(get(&*store, &key(1)).unwrap().1 == body);
}

/// Rule 3: after an abort followers fail, and the version from before is found.
pub fn an_abort_undoes(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    let old = bytes_of(1, 50_000);
    stored(store, &key(1), "old".into(), &old);
    for wrote in [0, 100, 2_500_000] {
        let mut writer = store.put(&key(1), "new".into(), Hint::default());
        let mut hit = block_on(store.find(&key(1))).unwrap();
        block_on(writer.write(bytes_of(2, wrote)));
        drop(writer);
        assert_eq!(read_all(&mut hit), Err(ReadError::Aborted), "never a short end");
        let (head, body) = get(store, &key(1)).expect("the old version");
        assert!(&head[..] == b"old" && body == old);
    }
    drop(store.put(&key(2), "x".into(), Hint::default()));
    assert!(block_on(store.find(&key(2))).is_none());
}

/// Rule 3: what has come of a write that ends early may be kept, under a head that says so.
pub fn a_beginning_is_kept(harness: &dyn Harness) {
    let mut subject = harness.fresh(Size::Ample);
    let store = subject.store();
    let sizes = [0, 100, 70_000, 300_000, 2_500_000];
    for (n, &wrote) in sizes.iter().enumerate() {
        let name = key(n as u64);
        stored(&*store, &name, "old".into(), &bytes_of(1, 5000));
        let hint = Hint { expected_bytes: Some(4_000_000), ..Hint::default() };
        let mut writer = store.put(&name, "all".into(), hint);
        let mut hit = block_on(store.find(&name)).unwrap();
        block_on(writer.write(bytes_of(2, wrote)));
        let commit = block_on(writer.commit_beginning("the beginning".into()));
        assert!(matches!(commit, Commit::Stored { bytes } if bytes == 13 + wrote as u64), "{wrote}: {commit:?}");
        assert_eq!(read_all(&mut hit), Err(ReadError::Aborted), "never a short end");
        let (head, body) = get(&*store, &name).expect("the beginning");
        assert!(&head[..] == b"the beginning" && body == bytes_of(2, wrote), "{wrote}");
        // It is an object like any other.
        let longer: HeadEdit = Box::new(|head| Some([head, &b" of it"[..]].concat().into()));
        assert_eq!(block_on(store.update_head(&name, longer)), Ok(Updated::Done));
        assert!(get(&*store, &name).unwrap() == ("the beginning of it".into(), bytes_of(2, wrote)), "{wrote}");
    }
    // Whoever follows can be told first, and what came is kept all the same, in its time.
    let (name, hint) = (key(40), Hint::default());
    for wrote in [100, 2_500_000] {
        stored(&*store, &name, "old".into(), &bytes_of(1, 5000));
        let mut writer = store.put(&name, "all".into(), Hint { expected_bytes: Some(4_000_000), ..hint });
        let (mut hit, id) = (block_on(store.find(&name)).unwrap(), writer.id());
        block_on(writer.write(bytes_of(2, wrote)));
        writer.break_off();
        if wrote == 100 {
            let came = block_on(hit.body.next(1 << 20));
            assert!(
                matches!(&came, Ok(Some(came)) if *came == bytes_of(2, wrote)),
                "what has come is read first: {came:?}"
            );
        }
        assert_eq!(read_all(&mut hit), Err(ReadError::Aborted));
        assert!(store.follow(&name, id).is_none(), "nobody follows from then on");
        assert!(get(&*store, &name).unwrap() == ("old".into(), bytes_of(1, 5000)), "{wrote}");
        let commit = block_on(writer.commit_beginning("it begins".into()));
        assert!(matches!(commit, Commit::Stored { bytes } if bytes == 9 + wrote as u64), "{wrote}: {commit:?}");
        assert!(get(&*store, &name).unwrap() == ("it begins".into(), bytes_of(2, wrote)), "{wrote}");
        let mut dropped = store.put(&name, "never".into(), hint);
        dropped.break_off();
        drop(dropped);
        assert!(get(&*store, &name).unwrap() == ("it begins".into(), bytes_of(2, wrote)), "{wrote}");
    }
    // Neither over what was committed meanwhile, nor after a removal, nor where nothing was to be kept.
    let (name, hint) = (key(50), Hint::default());
    let mut first = store.put(&name, "first".into(), hint);
    block_on(first.write(bytes_of(3, 100_000)));
    stored(&*store, &name, "second".into(), &bytes_of(4, 200_000));
    assert_eq!(block_on(first.commit_beginning("x".into())), Commit::NotStored(WhyNot::Superseded));
    assert!(get(&*store, &name).unwrap() == ("second".into(), bytes_of(4, 200_000)));
    let mut removed = store.put(&name, "third".into(), hint);
    block_on(removed.write(bytes_of(5, 100_000)));
    block_on(store.remove(&name)).unwrap();
    assert!(matches!(block_on(removed.commit_beginning("x".into())), Commit::NotStored(_)));
    let mut passing = store.put(&name, "fourth".into(), Hint { passes: true, ..hint });
    block_on(passing.write(bytes_of(6, 1000)));
    assert_eq!(block_on(passing.commit_beginning("x".into())), Commit::NotStored(WhyNot::Passing));
    assert!(block_on(store.find(&name)).is_none());
    block_on(store.flush()).unwrap();
    drop(store);
    if subject.reopen() {
        let store = subject.store();
        for (n, &wrote) in sizes.iter().enumerate() {
            let (head, body) = get(&*store, &key(n as u64)).expect("the beginning, after a restart");
            assert!(&head[..] == b"the beginning of it" && body == bytes_of(2, wrote), "{wrote}");
        }
    }
}

/// Rule 4: of two writers of one key, the last commit wins, whichever began first.
pub fn the_last_commit_wins(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    for (name, first_commits_last) in [(1, false), (2, true)] {
        let mut first = store.put(&key(name), "first".into(), Hint::default());
        let mut second = store.put(&key(name), "second".into(), Hint::default());
        block_on(first.write(bytes_of(1, 20_000)));
        block_on(second.write(bytes_of(2, 30_000)));
        let (early, late) = if first_commits_last { (second, first) } else { (first, second) };
        assert!(matches!(block_on(early.commit()), Commit::Stored { .. }));
        assert_eq!(block_on(store.find(&key(name))).unwrap().state, State::Filling);
        assert!(matches!(block_on(late.commit()), Commit::Stored { .. }));
        let (head, body) = get(store, &key(name)).unwrap();
        let expected =
            if first_commits_last { ("first", bytes_of(1, 20_000)) } else { ("second", bytes_of(2, 30_000)) };
        assert!(&head[..] == expected.0.as_bytes() && body == expected.1);
    }
}

/// Rule 5: removed is removed, also when older versions of the key are still on disk.
pub fn removal_is_final(harness: &dyn Harness) {
    let mut subject = harness.fresh(Size::Ample);
    let store = subject.store();
    assert_eq!(block_on(store.remove(&key(0))), Ok(Removed::Absent));
    for n in 0..40 {
        stored(&*store, &key(n), "one".into(), &bytes_of(n, 3000));
        stored(&*store, &key(n), "two".into(), &bytes_of(n + 100, 5000));
        assert_eq!(block_on(store.remove(&key(n))), Ok(Removed::Gone));
        assert!(block_on(store.find(&key(n))).is_none(), "the older version came back");
    }
    stored(&*store, &key(3), "three".into(), &bytes_of(3, 100));
    assert_eq!(&get(&*store, &key(3)).unwrap().0[..], b"three");
    block_on(store.flush()).unwrap();
    drop(store);
    if subject.reopen() {
        let store = &*subject.store();
        for n in (0..40).filter(|&n| n != 3) {
            assert!(block_on(store.find(&key(n))).is_none(), "object {n} came back with a restart");
        }
        assert_eq!(&get(store, &key(3)).unwrap().0[..], b"three");
    }
}

/// Rule 5: a write begun before the removal is not stored; its followers go on.
pub fn removal_reaches_unfinished_writes(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    let mut writer = store.put(&key(1), "h".into(), Hint::default());
    block_on(writer.write(bytes_of(1, 1000)));
    let mut hit = writer.follow();
    assert_eq!(block_on(store.remove(&key(1))), Ok(Removed::Gone));
    assert!(block_on(store.find(&key(1))).is_none());
    assert_eq!(block_on(writer.commit()), Commit::NotStored(WhyNot::Removed));
    assert!(read_all(&mut hit).unwrap() == bytes_of(1, 1000));
    assert!(block_on(store.find(&key(1))).is_none());
}

/// A head update replaces the head, keeps the body, and leaves absent objects absent.
pub fn a_head_update_keeps_the_body(harness: &dyn Harness) {
    let mut subject = harness.fresh(Size::Ample);
    let store = subject.store();
    assert_eq!(block_on(store.update_head(&key(0), Box::new(|_| Some("new".into())))), Ok(Updated::Absent));
    for (n, size) in [(1, 10), (2, 100_000), (3, 3_000_000)] {
        stored(&*store, &key(n), "old".into(), &bytes_of(n, size));
        assert_eq!(block_on(store.update_head(&key(n), Box::new(|_| None))), Ok(Updated::Unchanged));
        let edit = |old: &Bytes| Some(Bytes::from([&old[..], b", longer now"].concat()));
        assert_eq!(block_on(store.update_head(&key(n), Box::new(edit))), Ok(Updated::Done));
        assert!(get(&*store, &key(n)).unwrap() == ("old, longer now".into(), bytes_of(n, size)));
    }
    block_on(store.flush()).unwrap();
    drop(store);
    if subject.reopen() {
        let store = &*subject.store();
        assert!(get(store, &key(3)).unwrap() == ("old, longer now".into(), bytes_of(3, 3_000_000)));
    }
}

/// A body of another length than announced is not stored, and followers learn of it.
pub fn a_body_of_another_length_is_not_stored(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    for expected in [999, 1001, 0] {
        let mut writer = store.put(&key(1), "h".into(), Hint { expected_bytes: Some(expected), ..Hint::default() });
        let mut hit = writer.follow();
        block_on(writer.write(bytes_of(1, 1000)));
        assert_eq!(block_on(writer.commit()), Commit::NotStored(WhyNot::LengthMismatch));
        assert!(read_all(&mut hit).is_err());
        assert!(block_on(store.find(&key(1))).is_none());
    }
}

/// Rule 1: two names with one digest are two objects.
pub fn keys_that_share_a_digest_stay_apart(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    let named = |name: &str| Key::from_digest([9; 16]).with_name(name.as_bytes());
    stored(store, &named("a"), "a".into(), &bytes_of(1, 900));
    assert!(block_on(store.find(&named("b"))).is_none());
    assert!(block_on(store.find(&Key::from_digest([9; 16]))).is_none());
    stored(store, &named("b"), "b".into(), &bytes_of(2, 900));
    assert_eq!(&get(store, &named("b")).unwrap().0[..], b"b");
    if let Some((head, _)) = get(store, &named("a")) {
        assert_eq!(&head[..], b"a");
    }
    block_on(store.remove(&named("a"))).unwrap();
    assert!(block_on(store.find(&named("a"))).is_none());
}

/// Rule 1 where fingerprints collide by number: far more keys than slots, each several times.
pub fn full_stores_never_mix_objects(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = &*subject.store();
    let size = |n: u64| (n * 37 % 3000) as usize;
    let mut hits = 0;
    for round in 0..3_u64 {
        for n in 0..4000 {
            let _ = put(store, &key(n), format!("{round} {n}").into(), &bytes_of(n + round, size(n)));
        }
        for n in 0..4000 {
            let Some((head, body)) = get(store, &key(n)) else {
                continue;
            };
            assert_eq!(head, format!("{round} {n}"), "an older version came back, or another object");
            assert!(body == bytes_of(n + round, size(n)));
            hits += 1;
        }
    }
    assert!(hits > 300, "it forgot nearly everything: {hits} hits");
    for n in (0..4000).step_by(3) {
        block_on(store.remove(&key(n))).unwrap();
        assert!(block_on(store.find(&key(n))).is_none(), "removed, and found in an older version");
    }
}

/// Rule 6: a reader whose object is overwritten gets an error or the right bytes, never others and never a short end.
pub fn an_overtaken_reader_is_told(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = &*subject.store();
    let body = bytes_of(1, 1_000_000);
    stored(store, &key(0), "slow".into(), &body);
    let mut hit = block_on(store.find(&key(0))).unwrap();
    let first = block_on(hit.body.next(1000)).unwrap().unwrap();
    for n in 1..4000 {
        let _ = put(store, &key(n), "fast".into(), &bytes_of(n, 8000));
    }
    match block_on(hit.body.collect(usize::MAX)) {
        Ok(rest) => assert!([&first[..], &rest].concat() == body),
        Err(error) => assert_eq!(error, ReadError::Gone),
    }
}

/// Rule 7: bytes handed out stay as they are, whatever happens to the store.
pub fn bytes_never_change(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = &*subject.store();
    let mut held = Vec::new();
    for n in 0..2000_u64 {
        let _ = put(store, &key(n), bytes_of(n, 100), &bytes_of(n, 5000));
        if n % 20 == 0
            && let Some((head, body)) = get(store, &key(n))
        {
            held.push((n, head, body));
        }
    }
    block_on(store.close()).unwrap();
    assert!(held.len() > 50);
    for (n, head, body) in held {
        assert!(head == bytes_of(n, 100) && body == bytes_of(n, 5000));
    }
}

/// Ranges of whole objects come by seek; what lies outside is refused.
pub fn ranges_are_read_by_seek(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    for (n, size) in [(1, 5000_usize), (2, 200_000), (3, 4_000_001)] {
        let body = bytes_of(n, size);
        stored(store, &key(n), "h".into(), &body);
        let mut hit = block_on(store.find(&key(n))).unwrap();
        assert_eq!(hit.body.len(), Some(size as u64));
        for range in [0..1, 0..size, size - 1..size, size / 2..size / 2 + 999, 7..7, size..size] {
            hit.body.seek(range.start as u64..range.end as u64).unwrap();
            assert!(read_all(&mut hit).unwrap() == body[range.clone()], "{range:?} of {size}");
        }
        hit.body.seek(size as u64 - 10..u64::MAX).unwrap();
        assert!(read_all(&mut hit).unwrap() == body[size - 10..]);
        let size = size as u64;
        let backwards = std::ops::Range { start: 5, end: 4 };
        for range in [0..size + 1, size + 1..size + 2, backwards] {
            assert_eq!(hit.body.seek(range), Err(ReadError::Range));
        }
    }
}

/// A scan lists each stored object once, with its name, page by page.
pub fn a_scan_lists_what_is_stored(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    for n in 0..100 {
        stored(store, &key(n), format!("head {n}").into(), &bytes_of(n, n as usize * 50_000 / 10));
    }
    block_on(store.remove(&key(50))).unwrap();
    let mut seen = listed(store);
    let there: Vec<_> = (0..100_u64).filter(|&n| block_on(store.find(&key(n))).is_some()).collect();
    assert!(there.len() as f64 >= 99.0 * harness.keeps() && !there.contains(&50), "{there:?}");
    let mut expected: Vec<_> = there
        .into_iter()
        .map(|n| (Bytes::copy_from_slice(key(n).name()), Bytes::from(format!("head {n}")), n * 5000))
        .collect();
    seen.sort();
    expected.sort();
    assert_eq!(seen, expected);
}

/// All entries of a listing, a few at a time.
fn listed(store: &dyn Store) -> Vec<(Bytes, Bytes, u64)> {
    let (mut seen, mut cursor) = (Vec::new(), Some(Cursor::default()));
    while let Some(at) = cursor {
        let page = block_on(store.scan(at, 7)).unwrap();
        assert!(page.next != Some(at), "the cursor stands still");
        seen.extend(page.entries.into_iter().map(|entry| (entry.name, entry.head, entry.body_bytes)));
        cursor = page.next;
    }
    seen
}

/// What is asked for all the time stays in memory when the disk has forgotten it, since newer objects were written over it or two
/// have one fingerprint. Such objects were found and not listed: whoever removed all that was listed left them there.
pub fn a_scan_lists_what_memory_alone_has(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = &*subject.store();
    let names = |numbers: &mut dyn Iterator<Item = u64>| -> BTreeSet<Bytes> {
        let found = numbers.filter(|n| get(store, &key(*n)).is_some());
        found.map(|n| Bytes::copy_from_slice(key(n).name())).collect()
    };
    for n in 0..1500 {
        drop(put(store, &key(n), "head".into(), &bytes_of(n, 6000)));
        if n % 20 == 0 {
            drop(names(&mut (0..8)));
        }
    }
    block_on(store.flush()).unwrap();
    let before = names(&mut (0..1500));
    let seen: BTreeSet<_> = listed(store).into_iter().map(|(name, ..)| name).collect();
    let after = names(&mut (0..1500));
    // An engine may go on making room meanwhile.
    assert!(before.intersection(&after).all(|name| seen.contains(name)), "found and not listed");
    assert!(seen.is_subset(&before), "listed and not found");
}

/// After `close` nothing is found and nothing is stored; closing again is fine.
pub fn a_closed_store_refuses(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    stored(store, &key(1), "h".into(), &bytes_of(1, 100));
    let mut open = store.put(&key(2), "h".into(), Hint::default());
    block_on(store.close()).unwrap();
    block_on(store.close()).unwrap();
    assert!(matches!(store.lookup(&key(1), Instant::now() + Duration::from_secs(5)), Lookup::Absent));
    let mut hit = open.follow();
    block_on(open.write(bytes_of(2, 100)));
    assert_eq!(block_on(open.commit()), Commit::NotStored(WhyNot::Closed));
    assert!(read_all(&mut hit).unwrap() == bytes_of(2, 100), "its reader is served all the same");
    assert_eq!(put(store, &key(3), "h".into(), &bytes_of(3, 10)), Commit::NotStored(WhyNot::Closed));
}

/// Rules 8 and 9: an object that cannot be stored passes through to who follows it, in bounded memory.
pub fn objects_too_large_still_reach_followers(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = subject.store();
    let (pieces, piece) = (640, bytes_of(5, 100_000));
    let mut writer = store.put(&key(1), "h".into(), Hint::default());
    let mut hit = writer.follow();
    let expected = piece.clone();
    let reader = thread::spawn(move || {
        let mut read = 0_usize;
        while let Some(got) = block_on(hit.body.next(65_536)).expect("a reader that keeps up gets every byte") {
            for (i, byte) in got.iter().enumerate() {
                assert_eq!(*byte, expected[(read + i) % expected.len()]);
            }
            read += got.len();
        }
        read
    });
    for _ in 0..pieces {
        block_on(writer.write(piece.clone()));
    }
    let commit = block_on(writer.commit());
    assert_eq!(reader.join().unwrap(), pieces * piece.len());
    if let Some((_, body)) = get(&*store, &key(1)) {
        assert!(matches!(commit, Commit::Stored { .. }) && body.len() == pieces * piece.len());
    }
    stored(&*store, &key(2), "h".into(), &bytes_of(2, 1000));
    assert!(get(&*store, &key(2)).unwrap().1 == bytes_of(2, 1000));
}

/// What only passes reaches who follows it, whether it is short or long; nothing of it is kept, and what was stored before stays.
pub fn what_only_passes_reaches_followers_and_is_not_kept(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = subject.store();
    stored(&*store, &key(1), "old".into(), &bytes_of(1, 1000));
    for (name, pieces) in [(1, 1), (2, 1), (3, 30)] {
        let piece = bytes_of(7, 60_000);
        let hint = Hint { passes: true, ..Hint::default() };
        let mut writer = store.put(&key(name), "new".into(), hint);
        let mut found = block_on(store.find(&key(name))).expect("an unfinished write is found");
        assert_eq!(found.head, "new");
        let expected = piece.clone();
        let reader = thread::spawn(move || {
            let mut read = 0;
            while let Some(got) = block_on(found.body.next(65_536)).expect("a reader that keeps up gets every byte") {
                assert!(got.iter().enumerate().all(|(i, byte)| *byte == expected[(read + i) % expected.len()]));
                read += got.len();
            }
            read
        });
        for _ in 0..pieces {
            block_on(writer.write(piece.clone()));
        }
        assert_eq!(block_on(writer.commit()), Commit::NotStored(WhyNot::Passing));
        assert_eq!(reader.join().unwrap(), pieces * piece.len());
    }
    assert!(get(&*store, &key(2)).is_none() && get(&*store, &key(3)).is_none());
    assert_eq!(get(&*store, &key(1)).unwrap(), ("old".into(), bytes_of(1, 1000)));
    assert_eq!(store.stats().stored, 1);
}

/// Leases: readers that never read on, and writers that never write on, stop nobody.
pub fn an_idle_reader_stops_nobody(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = &*subject.store();
    let mut idle = Vec::new();
    for n in 0..50 {
        stored(store, &key(n), "h".into(), &bytes_of(n, 60_000));
        idle.extend(block_on(store.find(&key(n))));
    }
    let stalled: Vec<_> = (100..120)
        .map(|n| {
            let mut writer = store.put(&key(n), "h".into(), Hint::default());
            block_on(writer.write(bytes_of(n, 10_000)));
            writer
        })
        .collect();
    let began = Instant::now();
    for n in 200..2200 {
        stored(store, &key(n), "h".into(), &bytes_of(n, 8000));
    }
    assert!(began.elapsed() < Duration::from_secs(25), "slower than a lease");
    assert!(get(store, &key(2199)).unwrap().1 == bytes_of(2199, 8000));
    drop((idle, stalled));
}

/// Rule 10: what was stored and flushed is there after a restart, whole, and in its last version.
pub fn what_is_stored_survives_reopening(harness: &dyn Harness) {
    let mut subject = harness.fresh(Size::Ample);
    let store = subject.store();
    let size = |n: u64| {
        if n.is_multiple_of(50) { 2_000_000 } else { (n * 91 % 9000) as usize }
    };
    for n in 0..500 {
        stored(&*store, &key(n), "old".into(), &bytes_of(n, 100));
        stored(&*store, &key(n), format!("new {n}").into(), &bytes_of(n, size(n)));
    }
    block_on(store.flush()).unwrap();
    drop(store);
    for _ in 0..2 {
        if !subject.reopen() {
            return;
        }
        let store = &*subject.store();
        let mut hits = 0;
        for n in 0..500 {
            let Some((head, body)) = get(store, &key(n)) else {
                continue;
            };
            assert!(head == format!("new {n}") && body == bytes_of(n, size(n)), "object {n}");
            hits += 1;
        }
        assert!(f64::from(hits) >= 500.0 * harness.keeps(), "{hits} of 500");
    }
}

/// Many threads writing, reading and removing at once: each reads its own, whole.
pub fn writers_in_parallel_stay_apart(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = subject.store();
    // What was just stored is there, unless another thread's object has pushed it out since.
    let pushed_out = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..8_u64)
        .map(|t| {
            let (store, pushed_out) = (store.clone(), pushed_out.clone());
            thread::spawn(move || {
                for n in 0..150_u64 {
                    let (name, shared) = (key(10_000 + t * 1000 + n), key(n % 5));
                    let body = bytes_of(t * 1000 + n, (n * 997 % 70_000) as usize);
                    stored(&*store, &name, "mine".into(), &body);
                    match get(&*store, &name) {
                        Some(found) => assert!(found.1 == body),
                        None => drop(pushed_out.fetch_add(1, SeqCst)),
                    }
                    let _ = put(&*store, &shared, "ours".into(), &bytes_of(n % 5, 6000));
                    if let Some(mut hit) = block_on(store.find(&shared)) {
                        assert!(read_all(&mut hit).is_ok_and(|body| body == bytes_of(n % 5, 6000)));
                    }
                    if n % 10 == 0 {
                        block_on(store.remove(&name)).unwrap();
                        assert!(block_on(store.find(&name)).is_none());
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let most = if harness.keeps() < 0.99 { 1200.0 * (1.0 - harness.keeps()) } else { 0.0 };
    assert!(pushed_out.load(SeqCst) as f64 <= most, "{pushed_out:?} were gone at once");
}

/// Whoever drops a write that nobody reads must know that nobody does: readers are counted, those included that began
/// after the object turned out too large to be stored.
pub fn followers_are_counted(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = subject.store();
    let piece = bytes_of(1, 500_000);
    let mut writer = store.put(&key(1), "new".into(), Hint::default());
    let (id, other) = (writer.id(), store.put(&key(1), "other".into(), Hint::default()));
    assert_eq!(store.followers(&key(1), id), 0);
    let mut first = writer.follow();
    let second = store.follow(&key(1), id).expect("by its number");
    assert_eq!((store.followers(&key(1), id), store.followers(&key(1), other.id())), (2, 0));
    assert_eq!(store.followers(&key(2), id), 0, "another key");
    drop(second);
    for _ in 0..24 {
        block_on(writer.write(piece.clone()));
        let mut read = 0;
        while read < piece.len() {
            let next = block_on(first.body.next(piece.len() - read)).expect("a reader that keeps up");
            read += next.map_or(0, |next| next.len());
        }
        assert_eq!(store.followers(&key(1), id), 1);
    }
    drop(first);
    assert_eq!(store.followers(&key(1), id), 0);
    drop(writer);
    assert_eq!(store.followers(&key(1), id), 0);
}
