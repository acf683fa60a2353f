//! Tests of rule 11: what a sweep shows, and what it forgets.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::*;
use crate::store::{Cursor, Judge, Swept};

/// A sweep from its beginning to its end, a few places at a time; whether it was complete, and how many parts it had.
fn sweep(store: &dyn Store, judge: &Judge) -> (bool, Swept, u64) {
    let (mut all, mut parts, mut is_complete) = (Swept::default(), 0, true);
    let mut cursor = Some(Cursor::default());
    while let Some(at) = cursor {
        let swept = block_on(store.sweep(at, 7, judge.clone())).unwrap();
        assert!(swept.next != Some(at) || swept.forgotten > 0, "the cursor stands still");
        is_complete &= swept.is_complete;
        (all.shown, all.forgotten, parts) = (all.shown + swept.shown, all.forgotten + swept.forgotten, parts + 1);
        cursor = swept.next;
    }
    (is_complete, all, parts)
}

/// Whether the harness's stores sweep. Those that do not show nothing, and say so.
fn sweeps(harness: &dyn Harness, store: &dyn Store) -> bool {
    let (is_complete, all, _) = sweep(store, &(Arc::new(|_: &[u8], _: &Bytes| true) as Judge));
    assert_eq!(is_complete, harness.sweeps(), "an empty store");
    assert_eq!((all.shown, all.forgotten), (0, 0));
    is_complete
}

fn names(numbers: impl Iterator<Item = u64>) -> BTreeSet<Bytes> {
    numbers.map(|n| Bytes::copy_from_slice(key(n).name())).collect()
}

/// All that can be found is shown, what is to go is gone, and all else stays: also what waits for its group, and what is in memory.
pub fn a_sweep_forgets_what_it_has_shown(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = &*subject.store();
    if !sweeps(harness, store) {
        stored(store, &key(0), "head".into(), &bytes_of(0, 100));
        let (is_complete, all, _) = sweep(store, &(Arc::new(|_: &[u8], _: &Bytes| true) as Judge));
        assert_eq!((is_complete, all.shown, all.forgotten), (false, 0, 0));
        assert!(get(store, &key(0)).is_some());
        return;
    }
    for round in 0..3_u64 {
        for n in 0..100 {
            let bytes = if n % 10 == 9 { 600_000 } else { n as usize * 200 };
            stored(store, &key(n), format!("head {n} {round}").into(), &bytes_of(n + round, bytes));
        }
        match round {
            0 => {}
            1 => block_on(store.flush()).unwrap(),
            // From the disk, and into memory.
            _ => {
                block_on(store.flush()).unwrap();
                (0..100).for_each(|n| drop(get(store, &key(n))));
            }
        }
        let found = |store: &dyn Store| (0..100).filter(|n| get(store, &key(*n)).is_some()).collect::<Vec<u64>>();
        let before = found(store);
        let shown = Arc::new(Mutex::new(BTreeSet::new()));
        let (to, wanted) = (shown.clone(), names((0..100).filter(|n| n % 3 == 0)));
        let judge: Judge = Arc::new(move |name, head| {
            assert!(head.starts_with(b"head "));
            to.lock().unwrap().insert(Bytes::copy_from_slice(name));
            wanted.contains(name)
        });
        let (is_complete, all, _) = sweep(store, &judge);
        assert!(is_complete && all.forgotten >= 30, "{round}: {all:?}");
        let shown = shown.lock().unwrap().clone();
        assert!(names(before.iter().copied()).is_subset(&shown), "{round}: found and not shown");
        let after = found(store);
        assert!(after.iter().all(|n| n % 3 != 0), "{round}: {after:?}");
        // An engine may forget others of one fingerprint.
        let stay = before.iter().filter(|n| **n % 3 != 0).count();
        assert!(after.len() * 100 >= stay * 90, "{round}: {} of {stay} are left", after.len());
    }
}

/// What was stored since it was shown stays, and so does what is being stored.
pub fn a_sweep_forgets_nothing_newer(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Ample);
    let store = subject.store();
    if !sweeps(harness, &*store) {
        return;
    }
    for n in 0..30 {
        stored(&*store, &key(n), "old".into(), &bytes_of(n, 3000));
    }
    block_on(store.flush()).unwrap();
    let mut open = store.put(&key(29), "open".into(), Hint::default());
    block_on(open.write(bytes_of(29, 100)));
    let (writes_to, replaced) = (store.clone(), Arc::new(AtomicU64::new(0)));
    let count = replaced.clone();
    let judge: Judge = Arc::new(move |name, head| {
        let number = (0..29).find(|n| key(*n).name() == name && n % 2 == 0);
        if let Some(n) = number.filter(|_| *head == "old"[..]) {
            // A client has it stored anew while the sweep thinks about it.
            stored(&*writes_to, &key(n), "new".into(), &bytes_of(n + 500, 2000));
            count.fetch_add(1, SeqCst);
        }
        *head == "old"[..]
    });
    let (is_complete, all, _) = sweep(&*store, &judge);
    drop(judge);
    assert!(is_complete && replaced.load(SeqCst) >= 13, "{all:?}");
    let mut left = 0;
    for n in 0..29 {
        let found = get(&*store, &key(n));
        match n % 2 {
            0 if found.is_none() => {}
            0 => {
                assert!(found == Some(("new".into(), bytes_of(n + 500, 2000))), "{n}");
                left += 1;
            }
            _ => assert!(found.is_none(), "{n} was to go"),
        }
    }
    assert!(left >= 12, "{left} of those that were stored meanwhile");
    let hit = block_on(store.find(&key(29))).unwrap();
    assert_eq!((hit.state, &hit.head[..]), (State::Filling, &b"open"[..]));
    drop(hit);
    assert!(matches!(block_on(open.commit()), Commit::Stored { .. }));
    assert!(get(&*store, &key(29)).is_some());
}

/// What the disk has forgotten and memory has not is found, so it is shown too, and can be forgotten.
pub fn a_sweep_shows_what_memory_alone_has(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = &*subject.store();
    if !sweeps(harness, store) {
        return;
    }
    for n in 0..1500 {
        drop(put(store, &key(n), "head".into(), &bytes_of(n, 6000)));
        if n % 20 == 0 {
            (0..8).for_each(|n| drop(get(store, &key(n))));
        }
    }
    block_on(store.flush()).unwrap();
    let (is_complete, ..) = sweep(store, &(Arc::new(|_: &[u8], _: &Bytes| true) as Judge));
    let left: Vec<_> = (0..1500_u64).filter(|n| get(store, &key(*n)).is_some()).collect();
    assert!(is_complete && left.is_empty(), "{left:?}");
}

/// However much is stored meanwhile.
pub fn a_sweep_ends_on_a_busy_store(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = subject.store();
    if !sweeps(harness, &*store) {
        return;
    }
    for n in 0..300 {
        stored(&*store, &key(n), "head".into(), &bytes_of(n, 3000));
    }
    let parts = |judge: &Judge| sweep(&*store, judge).2;
    let idle = parts(&(Arc::new(|_: &[u8], _: &Bytes| false) as Judge));
    let (writes_to, next) = (store.clone(), AtomicU64::new(1000));
    // A new object for each that is looked at, and the same ones again and again.
    let busy = parts(
        &(Arc::new(move |name: &[u8], _: &Bytes| {
            let n = next.fetch_add(1, SeqCst);
            // What waits for its group is shown under its lock.
            if !name.is_empty() && n % 2 == 0 && n < 20_000 {
                let mut writer = writes_to.put(&key(n), "new".into(), Hint::default());
                block_on(writer.write(bytes_of(n, 500)));
                let _ = block_on(writer.commit());
            }
            false
        }) as Judge),
    );
    assert!(busy <= 8 * idle + 64, "{busy} parts, and {idle} where nothing happened");
}
