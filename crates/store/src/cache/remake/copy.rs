//! Copying what caches hold into another, in the order in which it lies on the disks.
//!
//! A listing of an index is in no order that a disk likes. So the places are sorted first, as many at a time as memory allows.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Remade;
use crate::cache::Cache;
use crate::cache::limits::{MAX_PLACES_SORTED, OBJECTS_COPIED_AT_ONCE};
use crate::engine::{Kind, Place};
use crate::layout::table::Table;
use crate::store::{Body, Commit, Hint, Store};
use crate::terms::{Key, Stats, WhyNot};
use crate::wait::block_on;

/// Objects whose sizes stand for those of all.
const SAMPLED: u64 = 512;
/// How often, and after what pause, an object is tried that a busy disk did not take.
const TRIES: usize = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// How often whoever waits is told.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Places asked for in one step of a walk.
const WALK: usize = 4096;
/// For each so many bytes of the new cache one object is copied at the same time.
const COPIED_SHARE_BYTES: u64 = 8 << 20;
/// Bytes of a body read at a time, unless its parts are larger.
const PIECE: usize = 1 << 20;

/// Copy all that is in `from` and that there is room for. Errors: the new disk's, as text; what was copied until then is there.
pub(super) fn copy(from: &Arc<Cache>, to: &Arc<Cache>, tell: &mut dyn FnMut(&Remade)) -> Result<Remade, String> {
    let mut counts = vec![0_u64; from.0.engine.disks()];
    walk(from, |place| counts.get_mut(from.0.engine.disk_at(place)).into_iter().for_each(|count| *count += 1));
    let share = share_kept(from, &to.stats(), counts.iter().sum());
    let mut copying = Telling { to: to.clone(), tally: Arc::default(), last: to.clock().now(), tell };
    copying.tally.objects.store(counts.iter().sum(), Ordering::Relaxed);
    for (disk, count) in counts.into_iter().enumerate() {
        // What was written first is what a full cache lets go of first: it need not be copied for that.
        let mut left_out = count - (count as f64 * share).ceil().min(count as f64) as u64;
        let mut after = None;
        loop {
            let mut places = next_places(from, disk, after);
            let Some(last) = places.last() else { break };
            after = Some(*last);
            let skipped = left_out.min(places.len() as u64);
            left_out -= skipped;
            copying.tally.left_out.fetch_add(skipped, Ordering::Relaxed);
            places.drain(..skipped as usize);
            copying.copy(from, places)?;
        }
    }
    block_on(to.flush()).map_err(|error| error.to_string())?;
    Ok(copying.tally.so_far())
}

/// How much of the old cache the new one has room for, from 0 to 1, where an engine with a log lets go of what was written first. Those
/// without one are offered all. How large objects are in the mean some of them say; a tenth more than has room is copied, for that may be wrong.
fn share_kept(from: &Arc<Cache>, to: &Stats, objects: u64) -> f64 {
    let stats = from.stats();
    if stats.lap == 0 || stats.live_objects == 0 {
        return 1.0;
    }
    let (mut sample, mut seen) = (Vec::new(), 0_u64);
    walk(from, |place| {
        // One of each so many, and so from everywhere.
        if seen.is_multiple_of(objects.div_ceil(SAMPLED)) {
            sample.push(place);
        }
        seen += 1;
    });
    let bytes = sample.iter().filter_map(|place| {
        let found = block_on(from.0.any(*place))?;
        let table = (found.kind == Kind::Large).then(|| Table::decode(&found.body)).flatten();
        let body = table.map_or(found.body.len() as u64, |table| table.body_bytes());
        Some(body + (found.head.len() + found.name.len()) as u64)
    });
    let sizes: Vec<u64> = bytes.collect();
    let mean = sizes.iter().sum::<u64>() as f64 / (sizes.len() as f64).max(1.0);
    (1.1 * to.capacity_bytes as f64 / (mean * objects as f64).max(1.0)).min(1.0)
}

/// Calls with the places of a cache's objects, in no order.
fn walk(cache: &Cache, mut each: impl FnMut(Place)) {
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let (places, next) = cache.0.engine.walk(from, WALK);
        places.into_iter().for_each(&mut each);
        cursor = next;
    }
}

/// The next places on a disk after one, in order; empty at the end.
fn next_places(cache: &Cache, disk: usize, after: Option<Place>) -> Vec<Place> {
    // The largest on top: it goes where there is a smaller one.
    let mut next = BinaryHeap::new();
    walk(cache, |place| {
        if after.is_some_and(|after| place <= after) || cache.0.engine.disk_at(place) != disk {
            return;
        }
        if next.len() < MAX_PLACES_SORTED {
            next.push(place);
        } else if next.peek().is_some_and(|largest| place < *largest) {
            next.pop();
            next.push(place);
        }
    });
    let mut next = next.into_sorted_vec();
    next.dedup();
    next
}

/// What [`Remade`] says, as it grows.
#[derive(Default)]
struct Tally {
    objects: AtomicU64,
    copied: AtomicU64,
    bytes: AtomicU64,
    left_out: AtomicU64,
    too_large: AtomicU64,
    replaced: AtomicU64,
    unread: AtomicU64,
}

impl Tally {
    fn so_far(&self) -> Remade {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [copied, left_out, too_large, replaced, unread] =
            [&self.copied, &self.left_out, &self.too_large, &self.replaced, &self.unread].map(of);
        let done = copied + left_out + too_large + replaced + unread;
        Remade {
            objects: of(&self.objects),
            done,
            copied,
            bytes: of(&self.bytes),
            left_out,
            too_large,
            replaced,
            unread,
        }
    }
}

/// What several threads work on together.
struct Shared {
    from: Arc<Cache>,
    to: Arc<Cache>,
    places: Mutex<std::vec::IntoIter<Place>>,
    tally: Arc<Tally>,
    failed: Mutex<Option<WhyNot>>,
}

/// Copying, with somebody who wants to know.
struct Telling<'a> {
    to: Arc<Cache>,
    tally: Arc<Tally>,
    last: Instant,
    tell: &'a mut dyn FnMut(&Remade),
}

impl Telling<'_> {
    fn copy(&mut self, from: &Arc<Cache>, places: Vec<Place>) -> Result<(), String> {
        let shared = Arc::new(Shared {
            from: from.clone(),
            to: self.to.clone(),
            places: Mutex::new(places.into_iter()),
            tally: self.tally.clone(),
            failed: Mutex::default(),
        });
        let clock = self.to.clock();
        let start = |number: usize| {
            let shared = shared.clone();
            clock.spawn(&format!("tinaja-copy-{number}"), move || while shared.one() {})
        };
        // With fewer threads it takes longer. Objects that are copied at the same time change places: in a small cache that matters.
        let most = usize::try_from(self.to.stats().capacity_bytes / COPIED_SHARE_BYTES).unwrap_or(usize::MAX);
        let threads: Vec<_> = (1..OBJECTS_COPIED_AT_ONCE.min(most)).map_while(|number| start(number).ok()).collect();
        while shared.one() {
            if clock.since(self.last) >= TELL_EVERY {
                self.last = clock.now();
                (self.tell)(&self.tally.so_far());
            }
        }
        for thread in threads {
            thread.join().map_err(|_| "a thread that copied has panicked".to_owned())?;
        }
        let failed = *shared.failed.lock();
        failed.map_or(Ok(()), |why| Err(format!("the new cache does not store: {why}")))
    }
}

impl Shared {
    /// Copy the next object; false where there is none.
    fn one(&self) -> bool {
        if self.failed.lock().is_some() {
            return false;
        }
        let Some(place) = self.places.lock().next() else { return false };
        let add = |to: &AtomicU64, count| _ = to.fetch_add(count, Ordering::Relaxed);
        let mut copied = block_on(self.copy(place));
        for _ in 1..TRIES {
            if !matches!(copied, Copied::Ended(_, Commit::NotStored(WhyNot::Slow | WhyNot::Busy))) {
                break;
            }
            // Cheap flash and shingled disks stall for seconds.
            self.to.clock().sleep(PAUSE);
            copied = block_on(self.copy(place));
        }
        match copied {
            // Of an engine that does not know which places are empty, most of these are.
            Copied::Unread if self.from.stats().live_objects == 0 => {
                _ = self.tally.objects.fetch_sub(1, Ordering::Relaxed)
            }
            Copied::Unread => add(&self.tally.unread, 1),
            Copied::Replaced => add(&self.tally.replaced, 1),
            Copied::Ended(bytes, Commit::Stored { .. }) => {
                add(&self.tally.copied, 1);
                add(&self.tally.bytes, bytes);
            }
            Copied::Ended(_, Commit::NotStored(WhyNot::TooLarge)) => add(&self.tally.too_large, 1),
            Copied::Ended(_, Commit::NotStored(WhyNot::Evicted)) => add(&self.tally.left_out, 1),
            Copied::Ended(_, Commit::NotStored(why)) => *self.failed.lock() = Some(why),
        }
        true
    }

    async fn copy(&self, place: Place) -> Copied {
        let Some(found) = self.from.0.any(place).await else { return Copied::Unread };
        if !self.from.0.is_current(&found).await {
            return Copied::Replaced;
        }
        // What a key's own digest was nobody knows here: the store's stands for it.
        let key = Key::from_digest(found.id.0).with_name(&found.name);
        let body = match found.kind {
            Kind::Whole => Some(Body::from_bytes(found.body.clone())),
            _ => self.from.0.large_body(&key, &found.id, &found).await,
        };
        let Some(mut body) = body else { return Copied::Unread };
        let hint = Hint { expected_bytes: body.len(), ..Hint::default() };
        let mut writer = self.to.0.put_as(found.id, &key, found.head, hint);
        let mut bytes = 0;
        loop {
            match body.next(PIECE).await {
                Ok(Some(piece)) => {
                    bytes += piece.len() as u64;
                    writer.write(piece).await;
                }
                Ok(None) => return Copied::Ended(bytes, writer.commit().await),
                Err(_) => return Copied::Unread,
            }
        }
    }
}

/// What became of one object.
enum Copied {
    Unread,
    Replaced,
    /// So many bytes of its body were written.
    Ended(u64, Commit),
}
