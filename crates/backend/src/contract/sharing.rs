//! Rules of a backend's contract on several who use it at once, and on those who leave without a word.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use tinaja_store::contract::bytes_of;

use super::*;

/// Polls a call once and drops it.
fn begin_and_drop<T>(mut call: Pin<Box<dyn Future<Output = T> + Send>>) {
    drop(call.as_mut().poll(&mut Context::from_waker(Waker::noop())));
}

/// All who have an entry open see each other's writes, and the last to close it keeps it.
pub fn all_who_have_it_open_see_the_same(harness: &dyn BackendHarness) {
    let subject = harness.fresh();
    let backend = subject.backend();
    let first = create(&*backend, b"key");
    let second = open(&*backend, b"key");
    write(&first, 0, 0, b"one", false);
    assert_eq!(read(&second, 0), "one");
    write(&second, 0, 3, b" two", false);
    assert_eq!((read(&first, 0), first.key()), ("one two".into(), &b"key"[..]));
    close(first);
    write(&second, 1, 0, b"after", false);
    let third = open(&*backend, b"key");
    assert_eq!((read(&third, 0), read(&third, 1)), ("one two".into(), "after".into()));
    close(second);
    close(third);
    assert!(is_there(&*backend, b"key", [b"one two", b"after", b""]));
}

/// An entry that is dropped is closed: what was written to it is kept, and its key is free of it.
pub fn a_dropped_entry_is_closed(harness: &dyn BackendHarness) {
    let mut subject = harness.fresh();
    let backend = subject.backend();
    let entry = create(&*backend, b"key");
    write(&entry, 2, 0, b"dropped", false);
    drop(entry);
    assert!(is_there(&*backend, b"key", [b"", b"", b"dropped"]));
    let entry = open(&*backend, b"key");
    write(&entry, 2, 0, b"again", true);
    // A close that nobody asks for is none.
    drop(entry.close());
    block_on(backend.flush()).unwrap();
    drop(backend);
    subject.reopen();
    assert!(is_there(&*subject.backend(), b"key", [b"", b"", b"again"]));
}

/// Calls whose futures are dropped, polled or not, leave no entry open and no key taken.
pub fn dropped_calls_leave_nothing_behind(harness: &dyn BackendHarness) {
    let subject = harness.fresh();
    let backend = subject.backend();
    keep(&*backend, b"stored", [b"head", b"body", b""]);
    for n in 0..3000_u32 {
        drop(backend.create_entry(&n.to_le_bytes()));
        begin_and_drop(backend.open_entry(b"stored"));
        begin_and_drop(backend.open_entry(b"absent"));
    }
    // Dropped, they come to their end all the same. Nobody waited for that: on a busy machine 1024 of these 6000 had
    // their entry open still, and whoever came next was told that there are too many.
    let is_full = || matches!(block_on(backend.open_entry(b"stored")), Err(BackendError::Full(_)));
    assert!((0..1000).any(|_| !is_full() || block_on(backend.flush()).is_err()), "they never end");
    for n in 0..50_u32 {
        begin_and_drop(backend.create_entry(&n.to_le_bytes()));
        let entry = open(&*backend, b"stored");
        drop(entry.write_data(0, 0, "never begun".into(), true));
        begin_and_drop(entry.read_data(1, 0, 10));
        begin_and_drop(entry.close());
    }
    // What was begun may have come to be, but it is over.
    block_on(backend.flush()).unwrap();
    assert!(is_there(&*backend, b"stored", [b"head", b"body", b""]));
    for n in 0..50_u32 {
        let entry = match block_on(backend.open_entry(&n.to_le_bytes())) {
            Err(BackendError::NotFound) => create(&*backend, &n.to_le_bytes()),
            other => other.unwrap(),
        };
        assert_eq!(entry.data_bytes(0), Ok(0));
        entry.doom();
        close(entry);
    }
}

/// So many are open at once and no more, and whoever closes one makes room for another.
pub fn there_are_never_too_many_open(harness: &dyn BackendHarness) {
    let subject = harness.fresh();
    let backend = subject.backend();
    let mut open = Vec::new();
    let refused = (0..1_000_000_u32).find_map(|n| match block_on(backend.create_entry(&n.to_le_bytes())) {
        Ok(entry) => {
            open.push(entry);
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(refused, Some(BackendError::Full(_))), "{refused:?}");
    assert!(open.len() > 10);
    assert!(matches!(block_on(backend.open_entry(&0_u32.to_le_bytes())), Err(BackendError::Full(_))));
    let one = open.pop().unwrap();
    one.doom();
    close(one);
    close(create(&*backend, b"another"));
    for entry in open {
        entry.doom();
    }
    assert!(is_absent(&*backend, &0_u32.to_le_bytes()));
}

/// Threads that make, read, write and doom the same few entries: whoever opens one finds one version of it whole.
pub fn threads_take_turns(harness: &dyn BackendHarness) {
    let subject = harness.fresh();
    let backend = subject.backend();
    let version = |n: u64| bytes_of(n, 2000 + n as usize % 3000);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let backend = backend.clone();
            scope.spawn(move || {
                for round in 0..120_u64 {
                    let key = [(round * 7 + thread * 3) as u8 % 5];
                    match block_on(backend.open_entry(&key)) {
                        Ok(entry) => {
                            // All in one write: either version is whole.
                            let bytes = read(&entry, 1);
                            let name = bytes.get(..8).map(|name| u64::from_le_bytes(name.try_into().unwrap()));
                            assert!(name.is_none_or(|name| bytes[8..] == version(name)), "{bytes:?}");
                            if round % 3 == 0 {
                                entry.doom();
                            }
                            drop(block_on(entry.close()));
                        }
                        Err(BackendError::NotFound) => {
                            let Ok(entry) = block_on(backend.create_entry(&key)) else { continue };
                            let name = thread * 1000 + round;
                            let data = [&name.to_le_bytes()[..], &version(name)].concat();
                            match block_on(entry.write_data(1, 0, data.into(), false)) {
                                Ok(()) | Err(BackendError::Doomed) => drop(block_on(entry.close())),
                                Err(error) => panic!("{error}"),
                            }
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    for key in 0..5_u8 {
        if let Ok(entry) = block_on(backend.open_entry(&[key])) {
            let bytes = read(&entry, 1);
            assert_eq!(bytes[8..], version(u64::from_le_bytes(bytes[..8].try_into().unwrap())));
        }
    }
}
