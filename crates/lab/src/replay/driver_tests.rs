use tinaja_store::{Settings, engines};

use super::*;
use crate::browser::{BrowserOptions, MOST_PAUSE_US, MakeOptions, Prepared, TRIM_BYTES, browse, prepare, trace_of};
use crate::replay::{Disk, DiskKind};
use crate::rig::{EmmcModel, PageCacheOptions};
use crate::rival::{Ages, BlockfileOptions};

fn trace(bytes: u64) -> Prepared {
    let requests = browse(&BrowserOptions::new(1, bytes));
    prepare(&trace_of(&requests, &MakeOptions::new(1)), MOST_PAUSE_US, TRIM_BYTES)
}

fn rival(bytes: u64, place: DiskKind) -> Stand {
    let options = BlockfileOptions { bytes, ages: Ages::Ignored };
    Stand::rival(options, &Disk { place, page_cache: Some(PageCacheOptions::phone()) }).unwrap()
}

fn log(bytes: u64, place: DiskKind) -> Stand {
    Stand::engine(engines::SEGMENTED, &Settings::new(), bytes, &Disk { place, page_cache: None }).unwrap()
}

#[test]
fn with_room_for_all_hits_are_those_of_a_cache_without_end() {
    let prepared = trace(8 << 20);
    let whole = replay(&rival(128 << 20, DiskKind::Nothing), &prepared.events).unwrap();
    assert_eq!((whole.refused, whole.short), (0, 0));
    assert_eq!((whole.lookups, whole.hits), (prepared.lookups, prepared.hits));
    let log = replay(&log(128 << 20, DiskKind::Nothing), &prepared.events).unwrap();
    // What is larger than a record is not taken, and so is not found again either.
    assert_eq!((log.lookups, log.short), (prepared.lookups, 0));
    assert!((1..20).contains(&log.refused), "{} refused", log.refused);
    assert!(prepared.hits - log.hits <= 2 * log.refused, "{} hits of {}", log.hits, prepared.hits);
}

#[test]
fn with_less_room_what_is_missing_is_fetched_again() {
    let prepared = trace(24 << 20);
    for stand in [rival(4 << 20, DiskKind::Nothing), log(4 << 20, DiskKind::Nothing)] {
        let replayed = replay(&stand, &prepared.events).unwrap();
        let (hits, lost) = (replayed.hits, prepared.hits - replayed.hits);
        assert!(lost > 20 && hits > prepared.hits / 3, "{hits} of {}", prepared.hits);
        let (given, written) = (replayed.written_bytes, stand.detail().writes.bytes);
        assert!(given > 15 << 20 && written > given * 9 / 10, "{written} bytes for {given}");
        assert_eq!(replayed.short, 0);
    }
}

/// The same replay gives the same times: nothing depends on the wall's clock.
#[test]
fn by_the_model_a_replay_takes_as_long_each_time() {
    let prepared = trace(4 << 20);
    let once = || {
        let stand = rival(2 << 20, DiskKind::Emmc(EmmcModel::phone()));
        let mut replayed = replay(&stand, &prepared.events).unwrap();
        let of = Kind::ALL.map(|kind| (replayed.times(kind).count(), replayed.times(kind).percentile(0.99)));
        (of, replayed.span, stand.worked(), stand.detail())
    };
    let (first, second) = (once(), once());
    assert_eq!(first, second);
    assert!(first.0[2].0 > 100 && first.2.unwrap().1 > 0);
}

#[test]
fn a_real_disk_takes_the_walls_time() {
    let (prepared, dir) = (trace(1 << 20), tempfile::tempdir().unwrap());
    for stand in [rival(8 << 20, DiskKind::Real(dir.path().into())), log(8 << 20, DiskKind::Real(dir.path().into()))] {
        let mut replayed = replay(&stand, &prepared.events).unwrap();
        assert_eq!(replayed.hits, prepared.hits);
        assert!(replayed.times(Kind::Read).percentile(1.0).unwrap() > Duration::ZERO);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}
