//! One rule of a backend's contract a function: what is kept, and what is refused.

use tinaja_store::contract::bytes_of;

use super::*;

/// Entries are found when they are closed, and after a restart, with every byte of every stream.
pub fn what_was_closed_comes_back(harness: &dyn BackendHarness) {
    let mut subject = harness.fresh();
    let sizes = [[0, 0, 0], [1, 0, 0], [0, 0, 7], [300, 9000, 0], [400, 40_000, 500], [0, 16_000, 16_000]];
    let data: Vec<_> = (0_u64..60)
        .map(|n| [0, 1, 2].map(|stream| bytes_of(n * 3 + stream, sizes[n as usize % 6][stream as usize])))
        .collect();
    let streams = |n: usize| [&data[n][0][..], &data[n][1], &data[n][2]];
    let key = |n: usize| format!("http://example.net/{n}").into_bytes();
    for n in 0..60 {
        keep(&*subject.backend(), &key(n), streams(n));
        assert!(is_there(&*subject.backend(), &key(n), streams(n)), "{n} at once");
    }
    assert!((0..60).all(|n| is_there(&*subject.backend(), &key(n), streams(n))));
    block_on(subject.backend().flush()).unwrap();
    if subject.reopen() {
        assert!((0..60).all(|n| is_there(&*subject.backend(), &key(n), streams(n))));
    }
    assert!(is_absent(&*subject.backend(), b"http://example.net/"));
}

/// Writes begin anywhere: what was never written is zeros, `truncate` ends a stream, and an empty write changes a stream only
/// with it.
pub fn streams_are_written_anywhere(harness: &dyn BackendHarness) {
    let subject = harness.fresh();
    let entry = create(&*subject.backend(), b"key");
    write(&entry, 1, 5, b"later", false);
    assert_eq!(read(&entry, 1), &b"\0\0\0\0\0later"[..]);
    write(&entry, 1, 0, b"first", false);
    write(&entry, 1, 7, b"**", false);
    assert_eq!(read(&entry, 1), &b"firstla**r"[..]);
    write(&entry, 1, 3, b"..", true);
    assert_eq!(read(&entry, 1), &b"fir.."[..]);
    write(&entry, 1, 100, b"", false);
    assert_eq!(entry.data_bytes(1), Ok(5), "an empty write changes nothing");
    write(&entry, 1, 2, b"", true);
    assert_eq!(read(&entry, 1), &b"fi"[..]);
    write(&entry, 1, 4, b"", true);
    assert_eq!(read(&entry, 1), &b"fi\0\0"[..], "cut longer");
    write(&entry, 0, 0, b"", true);
    assert_eq!((entry.data_bytes(0), entry.data_bytes(2)), (Ok(0), Ok(0)));
    let part = |offset, most| block_on(entry.read_data(1, offset, most)).unwrap();
    assert_eq!(&part(1, 2)[..], b"i\0");
    assert_eq!((&part(3, 100)[..], part(4, 1).len(), part(u64::MAX, 9).len(), part(0, 0).len()), (&b"\0"[..], 0, 0, 0));
    close(entry);
    assert!(is_there(&*subject.backend(), b"key", [b"", b"fi\0\0", b""]));
}

/// Who opens an entry, writes one stream and closes it has all the others in it as they were (section 3.2.5).
pub fn an_update_keeps_the_other_streams(harness: &dyn BackendHarness) {
    let mut subject = harness.fresh();
    let body = bytes_of(1, 20_000);
    keep(&*subject.backend(), b"key", [b"head 1", &body, b"side"]);
    for round in 2..12 {
        let entry = open(&*subject.backend(), b"key");
        let head = format!("head {round}");
        write(&entry, 0, 0, head.as_bytes(), true);
        close(entry);
        if round % 5 == 0 {
            subject.reopen();
        }
        assert!(is_there(&*subject.backend(), b"key", [head.as_bytes(), &body, b"side"]), "round {round}");
    }
    let entry = open(&*subject.backend(), b"key");
    write(&entry, 1, 19_990, &[7; 20], false);
    write(&entry, 2, 0, b"", true);
    close(entry);
    let longer = [&body[..19_990], &[7; 20]].concat();
    assert!(is_there(&*subject.backend(), b"key", [b"head 11", &longer, b""]));
}

/// What fits no record is kept all the same, in part rewritten, cut short and made anew.
pub fn long_streams_come_back(harness: &dyn BackendHarness) {
    let mut subject = harness.fresh();
    let long = bytes_of(3, harness.long_bytes());
    let entry = create(&*subject.backend(), b"long");
    write(&entry, 0, 0, b"head", false);
    for (n, piece) in long.chunks(10_007).enumerate() {
        write(&entry, 1, n as u64 * 10_007, piece, false);
    }
    assert_eq!(read(&entry, 1), long);
    close(entry);
    assert!(is_there(&*subject.backend(), b"long", [b"head", &long, b""]));
    subject.reopen();
    assert!(is_there(&*subject.backend(), b"long", [b"head", &long, b""]));

    let entry = open(&*subject.backend(), b"long");
    write(&entry, 0, 0, b"another", true);
    close(entry);
    assert!(is_there(&*subject.backend(), b"long", [b"another", &long, b""]));

    let mut changed = long.to_vec();
    let middle = changed.len() / 2;
    changed[middle - 50..middle + 50].fill(9);
    changed.truncate(changed.len() - 33);
    let entry = open(&*subject.backend(), b"long");
    write(&entry, 1, middle as u64 - 50, &[9; 100], false);
    write(&entry, 1, changed.len() as u64, b"", true);
    assert_eq!(read(&entry, 1), changed);
    close(entry);
    assert!(is_there(&*subject.backend(), b"long", [b"another", &changed, b""]));
    subject.reopen();
    assert!(is_there(&*subject.backend(), b"long", [b"another", &changed, b""]));

    let entry = open(&*subject.backend(), b"long");
    write(&entry, 1, 0, b"short", true);
    close(entry);
    subject.reopen();
    assert!(is_there(&*subject.backend(), b"long", [b"another", b"short", b""]));
    let entry = open(&*subject.backend(), b"long");
    entry.doom();
    close(entry);
    subject.reopen();
    assert!(is_absent(&*subject.backend(), b"long"));
}

/// A doomed entry is found no more, whether it was ever closed or not; who has it open reads on, and writes no more (3.2.4).
pub fn what_was_doomed_is_gone(harness: &dyn BackendHarness) {
    let mut subject = harness.fresh();
    let backend = subject.backend();
    keep(&*backend, b"stored", [b"head", b"body", b""]);
    for key in [&b"stored"[..], b"never closed"] {
        let entry = if key == b"stored" { open(&*backend, key) } else { create(&*backend, key) };
        write(&entry, 0, 0, b"written", true);
        let other = open(&*backend, key);
        entry.doom();
        entry.doom();
        other.doom();
        assert!(is_absent(&*backend, key));
        assert_eq!((read(&entry, 0), read(&other, 0)), ("written".into(), "written".into()));
        assert_eq!(block_on(other.write_data(0, 0, "no".into(), false)), Err(BackendError::Doomed));
        close(entry);
        close(other);
        assert!(is_absent(&*backend, key), "nor after it was closed");
    }
    block_on(backend.flush()).unwrap();
    drop(backend);
    subject.reopen();
    assert!(is_absent(&*subject.backend(), b"stored") && is_absent(&*subject.backend(), b"never closed"));
}

/// The key of a doomed entry is free at once: the new one and the old one do not meet.
pub fn a_doomed_key_is_made_anew(harness: &dyn BackendHarness) {
    let mut subject = harness.fresh();
    let backend = subject.backend();
    keep(&*backend, b"key", [b"old", &[1; 5000], b""]);
    let old = open(&*backend, b"key");
    assert_eq!(read(&old, 0), "old");
    old.doom();
    let new = create(&*backend, b"key");
    assert_eq!(new.data_bytes(1), Ok(0));
    write(&new, 1, 0, &[2; 6000], false);
    assert_eq!((read(&old, 1), read(&new, 1)), (vec![1; 5000].into(), vec![2; 6000].into()));
    close(new);
    old.doom();
    close(old);
    assert!(is_there(&*backend, b"key", [b"", &[2; 6000], b""]));
    for round in 0..20_u8 {
        let entry = open(&*backend, b"key");
        entry.doom();
        close(entry);
        keep(&*backend, b"key", [&[round], b"", &[round; 500]]);
    }
    drop(backend);
    subject.reopen();
    assert!(is_there(&*subject.backend(), b"key", [&[19], b"", &[19; 500]]));
}

/// Streams, offsets and keys that are out of range, entries that are there or are not, and closing twice.
pub fn calls_that_make_no_sense_are_refused(harness: &dyn BackendHarness) {
    let subject = harness.fresh();
    let backend = subject.backend();
    let entry = create(&*backend, b"key");
    for stream in [STREAMS, usize::MAX] {
        let none = BackendError::NoSuchStream(stream);
        assert_eq!(entry.data_bytes(stream), Err(none.clone()));
        assert_eq!(block_on(entry.read_data(stream, 0, 1)), Err(none.clone()));
        assert_eq!(block_on(entry.write_data(stream, 0, "x".into(), false)), Err(none));
    }
    for (offset, truncate) in [(1 << 60, false), (u64::MAX, false), (u64::MAX - 1, true)] {
        let refused = block_on(entry.write_data(0, offset, "abc".into(), truncate));
        assert!(matches!(refused, Err(BackendError::OutOfRange { .. })), "{refused:?}");
        assert!(matches!(
            block_on(entry.write_data(0, offset, Bytes::new(), true)),
            Err(BackendError::OutOfRange { .. })
        ));
    }
    assert_eq!(entry.data_bytes(0), Ok(0), "what was refused changed nothing");
    assert!(matches!(block_on(backend.create_entry(b"key")), Err(BackendError::Exists)));
    let same = entry.clone();
    close(entry);
    assert_eq!(block_on(same.clone().close()), Err(BackendError::Closed));
    assert_eq!(block_on(same.read_data(0, 0, 1)), Err(BackendError::Closed));
    assert_eq!(block_on(same.write_data(0, 0, "x".into(), false)), Err(BackendError::Closed));
    same.doom();
    assert!(is_there(&*backend, b"key", [b"", b"", b""]), "who has closed it cannot doom it");
    assert!(matches!(block_on(backend.create_entry(b"key")), Err(BackendError::Exists)));
    assert!(matches!(block_on(backend.open_entry(b"other")), Err(BackendError::NotFound)));
    let long = vec![b'x'; 1 << 20];
    assert!(matches!(block_on(backend.create_entry(&long)), Err(BackendError::KeyTooLong { .. })));
    assert!(matches!(block_on(backend.open_entry(&long)), Err(BackendError::KeyTooLong { .. })));
    keep(&*backend, b"", [b"the empty key is a key", b"", b""]);
    assert!(is_there(&*backend, b"", [b"the empty key is a key", b"", b""]));
}

/// A stopped backend opens nothing, and does not hang those who have something open.
pub fn a_stopped_backend_refuses(harness: &dyn BackendHarness) {
    let mut subject = harness.fresh();
    let backend = subject.backend();
    keep(&*backend, b"kept", [b"yes", b"", b""]);
    let entry = open(&*backend, b"kept");
    block_on(backend.stop()).unwrap();
    assert!(block_on(backend.stop()).is_ok(), "twice is the same as once");
    assert!(matches!(block_on(backend.open_entry(b"kept")), Err(BackendError::Stopped)));
    assert!(matches!(block_on(backend.create_entry(b"new")), Err(BackendError::Stopped)));
    assert_eq!(block_on(entry.write_data(0, 0, "no".into(), false)), Err(BackendError::Stopped));
    close(entry);
    drop(backend);
    if subject.reopen() {
        assert!(is_there(&*subject.backend(), b"kept", [b"yes", b"", b""]));
    }
}
