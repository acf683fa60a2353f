//! How often each distance came, of a load that changes.

use crate::terms::Amount;

/// The finest distance, in bytes, and how many buckets are in each doubling from there on.
const FINEST: f64 = 65536.0;
const IN_DOUBLING: f64 = 8.0;
/// Buckets: up to 4 PiB.
const BUCKETS: usize = 36 * 8;
/// After so many requests of the sample all that came before counts half.
const HALVED_AFTER: u32 = 1 << 16;

/// Objects and their bytes, scaled up from the sample.
#[derive(Clone, Copy, Default)]
struct Sums {
    objects: f64,
    bytes: f64,
}

/// See the module. Memory: 5 KiB.
pub(super) struct Distances {
    /// What was asked for again, by distance: in a bucket lies what is beyond the bucket before.
    by_distance: Box<[Sums; BUCKETS]>,
    /// All that was asked for, for the first time too.
    all: Sums,
    sampled: u64,
    until_halved: u32,
    /// What was found or stored: by the sample, and counted.
    followed: Sums,
    counted: Sums,
    /// What had been counted by the time that `counted` is from.
    counted_by_then: Amount,
}

impl Default for Distances {
    fn default() -> Self {
        Distances {
            by_distance: Box::new([Sums::default(); BUCKETS]),
            all: Sums::default(),
            sampled: 0,
            until_halved: HALVED_AFTER,
            followed: Sums::default(),
            counted: Sums::default(),
            counted_by_then: Amount::default(),
        }
    }
}

/// Where in the buckets a distance lies: whole numbers are where they begin.
fn place(distance: f64) -> f64 {
    ((distance / FINEST).log2() * IN_DOUBLING + 1.0).clamp(0.0, BUCKETS as f64 - 1.0)
}

impl Distances {
    /// An object of so many bytes was asked for again at a distance; it stands for the share that is followed.
    pub fn add(&mut self, distance: f64, bytes: u64, share: f64) {
        if let Some(sums) = self.by_distance.get_mut(place(distance).ceil() as usize) {
            sums.count(bytes, share);
        }
        self.never(bytes, share);
    }

    /// An object was asked for that was not asked for before, or is forgotten.
    pub fn never(&mut self, bytes: u64, share: f64) {
        self.all.count(bytes, share);
        self.sampled += 1;
        self.until_halved = self.until_halved.saturating_sub(1);
    }

    /// An object that is followed was found or stored.
    pub fn followed(&mut self, bytes: u64, share: f64) {
        self.followed.count(bytes, share);
    }

    /// Let what is past count half from time to time; so much was found or stored by now.
    pub fn halve_if_due(&mut self, counted: Amount) {
        if self.until_halved > 0 {
            return;
        }
        self.until_halved = HALVED_AFTER;
        self.counted = self.counted(counted);
        self.counted_by_then = counted;
        let sums = [&mut self.all, &mut self.followed, &mut self.counted];
        self.by_distance.iter_mut().chain(sums).for_each(|sums| *sums = sums.times(0.5));
    }

    /// Requests of the sample.
    pub fn sampled(&self) -> u64 {
        self.sampled
    }

    /// All that was asked for; so much was found or stored by now.
    pub fn all(&self, counted: Amount) -> Amount {
        self.without_excess(self.all, counted)
    }

    /// What an LRU cache of so many bytes would have found; so much was found or stored by now.
    pub fn within(&self, bytes: u64, counted: Amount) -> Amount {
        let end = place(bytes as f64);
        let (last, part) = (end.floor() as usize, end.fract());
        let partly = self.by_distance.get(last + 1).map_or(Sums::default(), |sums| sums.times(part));
        let found = self.by_distance.iter().take(last + 1).fold(partly, |sum, more| sum.plus(*more));
        self.without_excess(found, counted)
    }

    /// What was found or stored, of which what is past counts half from time to time.
    fn counted(&self, counted: Amount) -> Sums {
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let then = self.counted_by_then;
        self.counted
            .plus(Sums { objects: since(counted.objects, then.objects), bytes: since(counted.bytes, then.bytes) })
    }

    /// Without what the sample has too much, or with what it lacks: that is of objects that everybody asks for, which all caches find.
    fn without_excess(&self, sums: Sums, counted: Amount) -> Amount {
        let (all, counted, followed) = (self.all, self.counted(counted), self.followed);
        let without = |sum: f64, all: f64, counted: f64, followed: f64| {
            (sum - all * (1.0 - counted / followed.max(1.0))).max(0.0) as u64
        };
        Amount {
            objects: without(sums.objects, all.objects, counted.objects, followed.objects),
            bytes: without(sums.bytes, all.bytes, counted.bytes, followed.bytes),
        }
    }
}

impl Sums {
    /// One more object, which stands for the share that is followed.
    fn count(&mut self, bytes: u64, share: f64) {
        *self = self.plus(Sums { objects: 1.0 / share, bytes: bytes as f64 / share });
    }

    fn plus(self, other: Sums) -> Sums {
        Sums { objects: self.objects + other.objects, bytes: self.bytes + other.bytes }
    }

    fn times(self, factor: f64) -> Sums {
        Sums { objects: self.objects * factor, bytes: self.bytes * factor }
    }
}
