//! What a larger cache would find: distances of reuse, from a sample of what is asked for.
//!
//! An LRU cache of so many bytes finds an object if what was asked for since, with the object itself, takes no more than that: its
//! distance of reuse (Mattson et al., 1970). So one count of distances says what caches of every size would find. To follow every object
//! would take memory for each. Followed are those whose digest is below a bound, and a distance is scaled up by their share of all
//! (SHARDS: Waldspurger et al., FAST 2015). The bound falls whenever more than [`MAX_FOLLOWED`] are followed.
//!
//! A few objects that everybody asks for are followed, or are not: what that makes of the sums is set right by what was asked for in
//! all (the paper's adjustment). Two things differ from the paper. What is further away than the largest size that anybody asks of is
//! forgotten, or a cache that runs for months would follow what nobody asks for any more. And what is past counts less and less, so
//! that a load that changes is told of.
//!
//! | file | what it holds |
//! |---|---|
//! | `recency` | what was asked for in which order, and how many bytes since |
//! | `distances` | how often each distance came |

mod distances;
mod recency;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::terms::{Amount, Digest, Larger};
use distances::Distances;
pub use recency::MAX_FOLLOWED;
use recency::{Recency, Turn};

/// At the beginning one object in so many is followed: few enough that lookups seldom wait for each other here.
const FIRST_SHARE: u64 = 16;

/// See the module. Memory: 400 KiB at the most, once as many objects have come.
pub(crate) struct ReuseSample {
    /// Objects with a digest below it are followed.
    bound: AtomicU64,
    /// What was found or stored, whether it is followed or not.
    objects: AtomicU64,
    bytes: AtomicU64,
    sample: Mutex<Sample>,
}

struct Sample {
    /// Objects that are followed, by their digest.
    followed: BTreeMap<u64, Turn>,
    recency: Recency,
    distances: Distances,
    /// What is further away is forgotten.
    most_bytes: u64,
}

impl ReuseSample {
    /// Nothing was asked for so far. Nobody asks of caches that are larger than `most_bytes`.
    pub fn new(most_bytes: u64) -> ReuseSample {
        let sample = Sample {
            followed: BTreeMap::new(),
            recency: Recency::default(),
            distances: Distances::default(),
            most_bytes,
        };
        ReuseSample {
            bound: AtomicU64::new(u64::MAX / FIRST_SHARE),
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            sample: Mutex::new(sample),
        }
    }

    /// An object of so many bytes was asked for, and was there. What is not followed costs two additions and a comparison.
    pub fn found(&self, id: &Digest, bytes: u64) {
        self.count(bytes);
        self.follow(id, |sample, number, share| {
            sample.distances.followed(bytes, share);
            match sample.followed.get(&number).copied() {
                Some(before) => sample.again(number, before, bytes, share),
                // It was there before anything was followed, so nobody knows since when.
                None => sample.begin(number, bytes),
            }
        });
    }

    /// An object was asked for, and was not there.
    pub fn missed(&self, id: &Digest) {
        self.follow(id, |sample, number, share| {
            if let Some(before) = sample.followed.get(&number).copied() {
                sample.again(number, before, before.bytes, share);
            }
        });
    }

    /// An object was stored. If it is not followed, it was asked for the first time, or for the first time in long.
    pub fn stored(&self, id: &Digest, bytes: u64) {
        self.count(bytes);
        self.follow(id, |sample, number, share| {
            sample.distances.followed(bytes, share);
            match sample.followed.get(&number).copied() {
                Some(before) => sample.change(number, before, bytes),
                None => {
                    sample.distances.never(bytes, share);
                    sample.begin(number, bytes);
                }
            }
        });
    }

    /// An object was removed: a larger cache would not have it either.
    pub fn removed(&self, id: &Digest) {
        self.follow(id, |sample, number, _| sample.forget(number));
    }

    /// What LRU caches of these sizes, and of twice these, would have found.
    pub fn larger(&self, memory_bytes: u64, disk_bytes: u64) -> Larger {
        let distances = &self.sample.lock().distances;
        let counted = self.counted();
        let within = |bytes| distances.within(bytes, counted);
        Larger {
            sampled: distances.sampled(),
            asked: distances.all(counted),
            memory: within(memory_bytes),
            twice_memory: within(memory_bytes.saturating_mul(2)),
            disk: within(disk_bytes),
            twice_disk: within(disk_bytes.saturating_mul(2)),
        }
    }

    fn count(&self, bytes: u64) {
        self.objects.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// What was found or stored so far.
    fn counted(&self) -> Amount {
        Amount { objects: self.objects.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }

    /// Do something about an object, if it is followed, which so much of all is.
    fn follow(&self, id: &Digest, work: impl FnOnce(&mut Sample, u64, f64)) {
        let number = id.high();
        if number >= self.bound.load(Relaxed) {
            return;
        }
        let mut sample = self.sample.lock();
        let bound = self.bound.load(Relaxed);
        if number >= bound {
            return;
        }
        let share = bound as f64 / u64::MAX as f64;
        work(&mut sample, number, share);
        sample.distances.halve_if_due(self.counted());
        sample.forget_what_is_far(share);
        while sample.followed.len() > MAX_FOLLOWED {
            let Some(highest) = sample.followed.last_key_value().map(|(number, _)| *number) else { break };
            sample.forget(highest);
            self.bound.store(highest, Relaxed);
        }
    }
}

impl Sample {
    /// An object is asked for again.
    fn again(&mut self, number: u64, before: Turn, bytes: u64, share: f64) {
        let distance = (self.recency.since(before) + before.bytes) as f64 / share;
        self.distances.add(distance, bytes, share);
        self.recency.leave(before);
        self.begin(number, bytes);
    }

    /// An object is the last that was asked for.
    fn begin(&mut self, number: u64, bytes: u64) {
        if self.recency.is_full() {
            let followed = &mut self.followed;
            self.recency.close_up(|number, turn| {
                followed.insert(number, turn);
            });
        }
        let turn = self.recency.enter(number, bytes);
        self.followed.insert(number, turn);
    }

    /// An object has another size than before.
    fn change(&mut self, number: u64, before: Turn, bytes: u64) {
        let turn = self.recency.resize(before, bytes);
        self.followed.insert(number, turn);
    }

    fn forget(&mut self, number: u64) {
        if let Some(turn) = self.followed.remove(&number) {
            self.recency.leave(turn);
        }
    }

    fn forget_what_is_far(&mut self, share: f64) {
        let most = (self.most_bytes as f64 * share) as u64;
        while self.recency.bytes() > most
            && let Some(number) = self.recency.oldest()
            && self.followed.len() > 1
        {
            self.forget(number);
        }
    }
}
