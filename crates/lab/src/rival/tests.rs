//! The rival against a plain map, and what it writes counted.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use tinaja_store::block_on;
use tinaja_store::device::wrap::Counted;

use super::*;
use crate::random::Random;
use crate::rig::{PageCacheOptions, Sparse};

fn rival(bytes: u64) -> (Blockfile, Arc<PageCache>, Arc<Counted>) {
    let counted = Arc::new(Counted::new(Arc::new(Sparse::new(Blockfile::device_bytes(bytes)))));
    let clock = Clock::default();
    let disk = Arc::new(PageCache::new(counted.clone(), PageCacheOptions::phone(), clock.clone()));
    (Blockfile::new(disk.clone(), BlockfileOptions { bytes, ages: Ages::Ignored }, clock), disk, counted)
}

fn create(rival: &Blockfile, key: &[u8], bytes: usize) -> Result<(), BackendError> {
    let entry = block_on(rival.create_entry(key))?;
    block_on(entry.write_data(0, 0, Bytes::from_static(&[7; 300]), true))?;
    block_on(entry.write_data(1, 0, vec![key[0]; bytes].into(), false))?;
    block_on(entry.close())
}

#[test]
fn what_is_not_right_is_refused() {
    let (rival, _, _) = rival(16 << 20);
    assert_eq!(block_on(rival.open_entry(b"a")).err(), Some(BackendError::NotFound));
    let entry = block_on(rival.create_entry(b"a")).unwrap();
    assert_eq!(block_on(rival.create_entry(b"a")).err(), Some(BackendError::Exists));
    assert_eq!(block_on(entry.write_data(3, 0, Bytes::new(), false)), Err(BackendError::NoSuchStream(3)));
    let far = block_on(entry.write_data(0, u64::MAX, Bytes::from_static(b"x"), false));
    assert_eq!(far, Err(BackendError::OutOfRange { asked: u64::MAX, most: 2 << 20 }));
    let second = block_on(rival.open_entry(b"a")).unwrap();
    block_on(entry.write_data(2, 4, Bytes::from_static(b"xy"), false)).unwrap();
    assert_eq!(block_on(second.read_data(2, 0, 100)).unwrap(), &b"\0\0\0\0xy"[..]);
    second.doom();
    second.doom();
    assert_eq!(block_on(entry.write_data(0, 0, Bytes::new(), false)), Err(BackendError::Doomed));
    assert_eq!(block_on(rival.open_entry(b"a")).err(), Some(BackendError::NotFound));
    create(&rival, b"a", 10).unwrap();
    assert_eq!(entry.data_bytes(2), Ok(6), "those who have it open read on");
    assert_eq!(block_on(entry.clone().close()), Ok(()));
    assert_eq!(block_on(entry.clone().close()), Err(BackendError::Closed));
    assert_eq!(block_on(entry.read_data(0, 0, 9)).err(), Some(BackendError::Closed));
    drop((entry, second));
    assert!(block_on(rival.create_entry(&[1; 40_000])).is_err());
    let anew = block_on(rival.open_entry(b"a")).unwrap();
    assert_eq!((anew.data_bytes(0), anew.data_bytes(1)), (Ok(300), Ok(10)));
    block_on(rival.stop()).unwrap();
    assert_eq!(block_on(rival.open_entry(b"a")).err(), Some(BackendError::Stopped));
}

#[test]
fn the_bytes_are_bounded_and_who_was_used_again_stays() {
    let (rival, disk, _) = rival(4 << 20);
    let keys: Vec<_> = (0..1000_u32).map(|number| number.to_be_bytes()).collect();
    for key in &keys {
        create(&rival, key, 20_000).unwrap();
        assert!(rival.shared.state.lock().used <= 4 << 20);
        disk.work_until(Duration::from_millis(u64::from(u32::from_be_bytes(*key)) * 100));
        if u32::from_be_bytes(*key) >= 20 {
            let first = block_on(rival.open_entry(&keys[3])).unwrap();
            assert_eq!(first.data_bytes(1), Ok(20_000), "used again and again");
        }
    }
    let counts = rival.counts();
    assert!(counts.created == 1000 && counts.evicted > 750, "{counts:?}");
    assert_eq!(block_on(rival.open_entry(&keys[4])).err(), Some(BackendError::NotFound));
    assert!(block_on(rival.open_entry(&keys[999])).is_ok());
    let largest = create(&rival, b"large", 1 << 20);
    assert!(matches!(largest, Err(BackendError::OutOfRange { .. })), "{largest:?}");
}

/// Random histories against a map: whatever is there is what was written last.
#[test]
fn entries_hold_what_was_written_into_them() {
    let (rival, disk, _) = rival(2 << 20);
    let (mut random, mut model) = (Random::new(17), HashMap::<Vec<u8>, [Vec<u8>; 3]>::new());
    let mut found = 0;
    for step in 0..6000_u64 {
        disk.work_until(Duration::from_millis(step * 50));
        let key = vec![random.below(80) as u8; 1 + random.below(3) as usize * 200];
        let entry = match block_on(rival.open_entry(&key)) {
            Ok(entry) => {
                found += 1;
                let right = &model[&key];
                for (stream, right) in right.iter().enumerate() {
                    let (offset, most) = (random.below(5000), random.below(60_000) as usize);
                    let read = block_on(entry.read_data(stream, offset, most)).unwrap();
                    let end = right.len().min(offset as usize + most);
                    assert!(read == right[end.min(offset as usize)..end], "step {step}");
                }
                entry
            }
            Err(BackendError::NotFound) => {
                model.insert(key.clone(), Default::default());
                block_on(rival.create_entry(&key)).unwrap()
            }
            Err(error) => panic!("{error}"),
        };
        if random.chance(0.6) {
            let (stream, offset) =
                (random.below(3) as usize, if random.chance(0.5) { 0 } else { random.below(30_000) });
            let data = vec![random.bits() as u8; random.below(30_000) as usize];
            let truncate = random.chance(0.5);
            block_on(entry.write_data(stream, offset, data.clone().into(), truncate)).unwrap();
            let to = &mut model.get_mut(&key).unwrap()[stream];
            let end = offset as usize + data.len();
            to.resize(if truncate { end } else { end.max(to.len()) }, 0);
            to[offset as usize..end].copy_from_slice(&data);
        }
        if random.chance(0.1) {
            entry.doom();
        }
        block_on(entry.close()).unwrap();
    }
    let counts = rival.counts();
    assert!(found > 1000 && counts.evicted > 200, "{found} {counts:?}");
}

/// What section 1 of the paper says of in-place caches: many small writes, here and there. The same run gives the same counts.
#[test]
fn small_objects_make_small_writes_here_and_there() {
    let counts = || {
        let (rival, disk, counted) = rival(16 << 20);
        for number in 0..1500_u32 {
            create(&rival, &number.to_be_bytes(), 4000).unwrap();
            disk.work_until(Duration::from_secs(u64::from(number)));
            if let Ok(entry) = block_on(rival.open_entry(&(number / 2).to_be_bytes())) {
                block_on(entry.read_data(1, 0, 4000)).unwrap();
            }
        }
        block_on(rival.stop()).unwrap();
        (counted.detail(), rival.counts())
    };
    let (detail, rival) = counts();
    let pages: u64 = detail.writes.sizes[12..14].iter().sum();
    assert!(pages * 10 > detail.writes.requests * 8, "below 16 KiB: {pages} of {:?}", detail.writes);
    assert!(detail.writes.bytes > rival.written_bytes * 2, "{} for {}", detail.writes.bytes, rival.written_bytes);
    assert_eq!(counts(), (detail, rival));
}
