//! Measuring: what it leaves behind, what it does where it cannot, and that a cache can be made with what is chosen.

use std::path::Path;
use std::time::{Duration, Instant};

use tinaja_store::Clock;
use tinaja_store::device::Medium;
use tinaja_store::device::wrap::{Counted, Fault, Limited, Model, Time};
use tinaja_store::tune::{DiskSpeed, Sizes, TuneError, choose};
use tinaja_store::{Cache, CacheOptions, Store, block_on, engines};

use crate::support::{blank, disk, is_read, put, sound};

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_disk_is_measured_and_nothing_is_left_behind() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    match DiskSpeed::measure(&Clock::system(), dir.path(), Duration::from_millis(600)) {
        Ok(speed) => {
            print!("{speed}{}", choose(&speed, &Sizes::of_the_paper()));
            assert!(
                speed.reads.len() >= 8 && speed.reads.iter().all(|speed| speed.reads > 0 && speed.latency_ms > 0.0)
            );
            assert!(speed.reads.is_sorted_by_key(|speed| speed.bytes));
        }
        // Where the build directory is no disk.
        Err(error) => assert!(matches!(error, TuneError::Cached(_)), "{error}"),
    }
    assert!(is_empty(dir.path()));
    let error =
        DiskSpeed::measure(&Clock::system(), &dir.path().join("not/there"), Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("not/there"), "{error}");
    let error = DiskSpeed::measure(&Clock::system(), Path::new("/proc"), Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("/proc"), "{error}");
    // Whoever must have something to choose by gets the paper's figures, as printed, and is told why.
    let text =
        DiskSpeed::measured_or_the_papers(&Clock::system(), Path::new("/proc"), Duration::from_secs(1)).to_string();
    assert!(text.contains("three SATA disks of the HashCache paper, since there are 0 bytes free in /proc"), "{text}");
    for row in ["1 KiB", "78  12.5", "76  12.9", "76  13.1", "74  13.3", "72  13.7", "70  14.1", "53  19.2"] {
        assert!(text.contains(row), "{row} in {text}");
    }
    let paper = DiskSpeed::of_the_paper().to_string();
    assert!(
        !paper.contains("80") && !paper.contains("77"),
        "one second over a latency is not what is printed: {paper}"
    );
}

/// Time that is up at once still reads each size once, and no more: there is something to choose by.
#[test]
fn every_size_is_read_once_at_least_and_no_more_than_time_allows() {
    let counted = Counted::new(sound(&blank()));
    let began = Instant::now();
    let wall = || began.elapsed();
    let speed = DiskSpeed::of_device(&counted, 8 << 20, Duration::ZERO, wall).unwrap();
    assert!(speed.reads.iter().all(|speed| speed.reads == 1));
    assert_eq!(counted.detail().reads.requests, speed.reads.len() as u64);
    let sizes: Vec<_> = speed.reads.iter().map(|speed| speed.bytes >> 10).collect();
    assert!(sizes.ends_with(&[4, 8, 16, 32, 64, 128, 256, 512]), "{sizes:?}");
    let long = DiskSpeed::of_device(&counted, 8 << 20, Duration::from_secs(3600), wall).unwrap();
    assert!(long.reads.iter().all(|speed| speed.reads == 500), "it ends when the mean does not change any more");
    assert!(speed.reads.iter().all(|speed| speed.doubt == 1.0), "of one read nothing is certain");
    assert!(long.reads.iter().all(|speed| speed.doubt.is_finite()), "{long}");
    let choice = choose(&speed, &Sizes::of_the_paper());
    assert_eq!((choice.bin_bytes, choice.ways), (8192, 8), "hardly anything was measured: {choice}");
    let failing = disk(&blank(), |nth, request| (nth > 5 && is_read(request)).then_some(Fault::Error));
    let error = DiskSpeed::of_device(&*failing, 8 << 20, Duration::from_secs(5), wall).unwrap_err();
    assert!(error.to_string().contains("the disk failed while it was measured"), "{error}");
    assert!(DiskSpeed::of_device(&counted, 100, Duration::ZERO, wall).is_err());
}

/// By the virtual clock of modelled disks: the paper's Table 6 comes out of its disks, and its choice with it, whether the
/// whole disk is read from or a small part of it, where seeks are short. Flash, which pays for every byte, gets less.
#[test]
fn modelled_disks_are_measured_to_what_the_paper_says_of_them() {
    let choice = |model: Model, part: u64| {
        let disk = Limited::new(sound(&Medium::zeroed(64 << 20)), model, Time::Virtual).unwrap();
        let speed = DiskSpeed::of_device(&disk, (64 << 20) / part, Duration::from_secs(60), || disk.now()).unwrap();
        let choice = choose(&speed, &Sizes::of_the_paper());
        print!("{speed}{choice}");
        (speed, (choice.bin_bytes, choice.ways))
    };
    let (speed, chosen) = choice(Model::sata_7200(), 1);
    assert_eq!(chosen, (8192, 8));
    for paper in DiskSpeed::of_the_paper().reads {
        let measured = speed.reads.iter().find(|measured| measured.bytes == paper.bytes).unwrap();
        let off = (measured.latency_ms / paper.latency_ms - 1.0).abs();
        assert!(off < 0.04, "{} bytes: {} ms, not {}", paper.bytes, measured.latency_ms, paper.latency_ms);
    }
    assert_eq!(choice(Model::sata_7200(), 16).1, (8192, 8), "short seeks");
    let one_at_a_time = Model { lanes: 1, ..Model::flash() };
    assert_eq!(choice(one_at_a_time, 1).1, (4096, 4));
}

#[test]
fn sizes_are_those_of_the_objects_in_a_cache() {
    for engine in [engines::HASHCACHE_LOG, engines::HASHCACHE_SETMEM] {
        let dir = tempfile::tempdir().unwrap();
        let options = CacheOptions::new(dir.path()).disk_bytes(64 << 20).engine(engine).memory_bytes(0);
        let cache = Cache::open(options).unwrap();
        assert_eq!(Sizes::of_cache(&cache).unwrap(), None);
        for n in 0..100 {
            let _ = put(&cache, n, 1, if n < 80 { 2000 } else { 300_000 });
        }
        block_on(cache.flush()).unwrap();
        let sizes = Sizes::of_cache(&cache).unwrap().unwrap();
        assert!((90..=100).contains(&sizes.objects()), "{sizes}");
        assert!((sizes.below(4096) - 0.8).abs() < 0.1 && sizes.below(256 << 10) < 0.9, "{sizes}");
        let choice = choose(&DiskSpeed::of_the_paper(), &sizes);
        assert_eq!((choice.bin_bytes, choice.ways), (4096, 8), "{choice}");
        block_on(cache.close()).unwrap();
        drop(cache);
        let again = tempfile::tempdir().unwrap();
        let options = CacheOptions::new(again.path()).engine(engines::HASHCACHE_SET).settings(choice.settings(false));
        let made = Cache::open(options.disk_bytes(16 << 20)).unwrap();
        assert!(made.stats().slots > 0);
    }
}
