use tinaja_store::device::wrap::{Counted, Detail};

use super::*;
use crate::random::Random;
use crate::rig::Sparse;

fn cache(options: PageCacheOptions) -> (PageCache, Arc<Counted>, Clock) {
    let (clock, counted) = (Clock::default(), Arc::new(Counted::new(Arc::new(Sparse::new(1 << 30)))));
    (PageCache::new(counted.clone(), options, clock.clone()), counted, clock)
}

fn requests(detail: &Detail) -> (u64, u64, u64, u64) {
    (detail.reads.requests, detail.reads.bytes, detail.writes.requests, detail.writes.bytes)
}

#[test]
fn neighbours_go_out_together_when_they_are_old() {
    let (cache, counted, clock) = cache(PageCacheOptions::phone());
    clock.reach(Duration::from_secs(1));
    cache.write(0, &[1; 3 * PAGE], 0).unwrap();
    cache.write(3 * PAGE as u64, &[2; 100], 3 * PAGE as u64).unwrap();
    cache.write(100 * PAGE as u64, &[3; PAGE], 0).unwrap();
    cache.work_until(Duration::from_secs(4));
    assert_eq!(requests(&counted.detail()), (0, 0, 0, 0), "the writer has not woken yet, and a fresh page is not read");
    cache.write(200 * PAGE as u64, &[4; PAGE], 0).unwrap();
    cache.work_until(Duration::from_secs(5));
    assert_eq!(requests(&counted.detail()), (0, 0, 2, 5 * PAGE as u64), "the last one is not old enough");
    cache.work_until(Duration::from_secs(100));
    assert_eq!(requests(&counted.detail()), (0, 0, 3, 6 * PAGE as u64));
    cache.write(2 * PAGE as u64, &[5; 10], 0).unwrap();
    cache.flush().unwrap();
    assert_eq!(requests(&counted.detail()), (0, 0, 4, 7 * PAGE as u64), "the page was still there");
}

#[test]
fn what_is_not_there_is_read_in_one_request_and_once() {
    let (cache, counted, _) = cache(PageCacheOptions { clean_pages: 8, ..PageCacheOptions::phone() });
    let mut bytes = vec![0; 2 * PAGE + 200];
    cache.read(100, &mut bytes).unwrap();
    cache.read(100, &mut bytes).unwrap();
    assert_eq!(requests(&counted.detail()), (1, 3 * PAGE as u64, 0, 0));
    cache.write(50 * PAGE as u64 + 9, &[1; 9], u64::MAX).unwrap();
    assert_eq!(counted.detail().reads.requests, 2, "a part of a page is read before it is written");
    (10..20).for_each(|page| cache.read(page * PAGE as u64, &mut [0; PAGE]).unwrap());
    let before = counted.detail().reads.requests;
    cache.read(100, &mut bytes).unwrap();
    assert_eq!(counted.detail().reads.requests, before + 1, "it was forgotten");
    assert!(cache.state.lock().pages.len() <= 9);
}

#[test]
fn with_too_much_to_be_written_all_goes_out() {
    let (cache, counted, _) = cache(PageCacheOptions { dirty_pages: 3, request_pages: 2, ..PageCacheOptions::phone() });
    cache.write(0, &[1; 3 * PAGE], 0).unwrap();
    assert_eq!(counted.detail().writes.requests, 0);
    cache.write(3 * PAGE as u64, &[1; 1], u64::MAX).unwrap();
    assert_eq!(requests(&counted.detail()), (1, PAGE as u64, 2, 4 * PAGE as u64));
}

#[test]
fn what_is_read_is_what_was_written() {
    let options = PageCacheOptions { clean_pages: 5, dirty_pages: 4, ..PageCacheOptions::phone() };
    let (cache, _, clock) = cache(options);
    let (mut random, mut model) = (Random::new(3), vec![0_u8; 64 * PAGE]);
    for step in 0..2000 {
        let (at, len) = (random.below(60 * PAGE as u64) as usize, random.below(3 * PAGE as u64) as usize);
        let bytes: Vec<_> = (0..len).map(|_| random.bits() as u8).collect();
        cache.write(at as u64, &bytes, u64::MAX).unwrap();
        model[at..at + len].copy_from_slice(&bytes);
        let (at, len) = (random.below(60 * PAGE as u64) as usize, random.below(3 * PAGE as u64) as usize);
        let mut read = vec![0; len];
        cache.read(at as u64, &mut read).unwrap();
        assert!(read == model[at..at + len], "step {step}");
        cache.work_until(clock.now() + Duration::from_millis(random.below(3000)));
    }
}
