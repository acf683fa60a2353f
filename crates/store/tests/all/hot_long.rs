//! Long objects in memory: one that its reader is given piece by piece is put together meanwhile, and is a hit in memory afterwards.
//!
//! The field's servers had an object of 1 MiB in memory and this one read it from its disk for each client, three times
//! the processor time of nginx: only what came in one part was kept.

use std::ops::Range;

use bytes::Bytes;
use tempfile::TempDir;
use tinaja_store::contract::bytes_of;
use tinaja_store::*;

use crate::support::key;

const LONG: usize = 1_000_000;
/// It takes objects of 1 MiB, a part in 64, also where an index takes some of it.
const MEMORY: u64 = 72 << 20;

struct Cached {
    store: Cache,
    _dir: TempDir,
}

impl Cached {
    fn of(engine: EngineRef) -> Cached {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let options = CacheOptions::new(dir.path()).engine(engine).mean_object_bytes(64 << 10);
        let store = Cache::open(options.disk_bytes(256 << 20).memory_bytes(MEMORY)).unwrap();
        let cached = Cached { store, _dir: dir };
        cached.put(1, "head", 1);
        cached
    }

    fn put(&self, n: u64, head: &str, seed: u64) {
        let hint = Hint { expected_bytes: Some(LONG as u64), ..Hint::default() };
        let mut writer = self.store.put(&key(n), head.to_owned().into(), hint);
        for at in (0..LONG).step_by(100_000) {
            block_on(writer.write(bytes_of(seed, LONG).slice(at..at + 100_000)));
        }
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
        block_on(self.store.flush()).unwrap();
    }

    /// Where it came from, and the requests that took; its bytes are compared.
    fn read(&self, n: u64, head: &str, seed: u64, range: Range<usize>) -> (Source, u64) {
        let before = self.store.stats().reads;
        let mut hit = block_on(self.store.find(&key(n))).unwrap();
        assert_eq!(hit.head, *head);
        let (from, to) = (range.start as u64, if range.end == LONG { u64::MAX } else { range.end as u64 });
        hit.body.seek(from..to).unwrap();
        let mut body = Vec::new();
        while let Some(piece) = block_on(hit.body.next(64 << 10)).unwrap() {
            body.extend_from_slice(&piece);
        }
        assert!(body == bytes_of(seed, LONG)[range]);
        (hit.source, self.store.stats().reads - before)
    }
}

/// All but the one that has memory of its own for what it reads.
fn engines_on_disk() -> Vec<EngineRef> {
    let built_in = engines::built_in();
    let all: Vec<_> = built_in.iter().filter(|engine| *engine != engines::DAMELO).collect();
    assert_eq!(all.len(), 17);
    all
}

#[test]
fn what_is_read_twice_is_in_memory_the_third_time() {
    for engine in engines_on_disk() {
        let cached = Cached::of(engine);
        let reads: Vec<_> = (0..4).map(|_| cached.read(1, "head", 1, 0..LONG)).collect();
        assert!(reads[..2].iter().all(|(source, reads)| *source == Source::Disk && *reads > 1), "{engine}: {reads:?}");
        assert_eq!(reads[2..], [(Source::Memory, 0); 2], "{engine}");
        assert_eq!(cached.read(1, "head", 1, 400_000..400_100), (Source::Memory, 0), "{engine}: a part of it");
        assert!(cached.store.stats().hot_bytes > LONG as u64);

        // It stays there under a new head, and goes when the object does.
        let updated = block_on(cached.store.update_head(&key(1), Box::new(|_| Some(Bytes::from_static(b"newer")))));
        assert_eq!(updated, Ok(Updated::Done));
        assert_eq!(cached.read(1, "newer", 1, 0..LONG).0, Source::Memory, "{engine}: a new head");
        cached.put(1, "another", 2);
        assert_eq!(cached.read(1, "another", 2, 0..LONG).0, Source::Disk, "{engine}");
        block_on(cached.store.remove(&key(1))).unwrap();
        assert!(block_on(cached.store.find(&key(1))).is_none());
        assert_eq!(cached.store.stats().hot_bytes, 0, "{engine}");
    }
}

/// Each would push out hundreds of small ones.
#[test]
fn what_is_read_once_or_in_part_stays_on_the_disk() {
    for engine in engines_on_disk() {
        let cached = Cached::of(engine);
        (2..9).for_each(|n| cached.put(n, "head", n));
        for n in 1..9 {
            assert_eq!(cached.read(n, "head", n, 0..LONG).0, Source::Disk, "{engine}");
        }
        for range in [0..900_000, 900_000..LONG, 1..LONG] {
            assert_eq!(cached.read(1, "head", 1, range).0, Source::Disk, "{engine}");
        }
        // Whoever leaves before the end.
        for _ in 0..3 {
            let mut hit = block_on(cached.store.find(&key(1))).unwrap();
            for _ in 0..10 {
                assert!(block_on(hit.body.next(64 << 10)).unwrap().is_some());
            }
        }
        assert_eq!(cached.read(1, "head", 1, 0..10).0, Source::Disk, "{engine}");
        assert_eq!(cached.store.stats().hot_bytes, 0, "{engine}");
    }
}

/// A reader that began before a change ends after it: what it has read is no longer what is stored.
#[test]
fn what_was_replaced_while_it_was_read_is_not_kept() {
    for engine in engines_on_disk() {
        let cached = Cached::of(engine);
        cached.read(1, "head", 1, 0..LONG);
        let mut hit = block_on(cached.store.find(&key(1))).unwrap();
        let first = block_on(hit.body.next(64 << 10)).unwrap().unwrap();
        cached.put(1, "another", 2);
        let rest = block_on(hit.body.collect(usize::MAX));
        if let Ok(rest) = rest {
            assert!([first, rest].concat() == bytes_of(1, LONG));
        }
        assert_eq!(cached.store.stats().hot_bytes, 0, "{engine}");
        assert_eq!(cached.read(1, "another", 2, 0..LONG).0, Source::Disk, "{engine}");
    }
}

/// They may put together an eighth of the budget at once; the others of them read as before.
#[test]
fn many_readers_at_once_hold_a_part_of_the_budget() {
    let cached = Cached::of(engines::SEGMENTED);
    (2..40).for_each(|n| cached.put(n, "head", n));
    for n in 1..40 {
        cached.read(n, "head", n, 0..LONG);
    }
    let slow: Vec<_> = (1..40).map(|n| block_on(cached.store.find(&key(n))).unwrap()).collect();
    for (n, mut hit) in (1..).zip(slow) {
        assert!(block_on(hit.body.collect(usize::MAX)).unwrap() == bytes_of(n, LONG));
    }
    // An eighth of 72 MiB has room for nine of them.
    let bytes = cached.store.stats().hot_bytes;
    assert!((9 * LONG as u64..10 * LONG as u64).contains(&bytes), "{bytes}");
}
