//! Sets of slots in shards: a set is a few dozen bytes, copied out or changed under its shard's lock.

use parking_lot::Mutex;

/// Bytes of one shard at the most. Small enough that two threads seldom meet in one, large enough that locks cost
/// nothing a slot.
const SHARD_BYTES: usize = 48 << 10;

/// Many sets of `set_bytes` each. Memory: sets x set bytes, and 24 bytes a shard.
pub struct Sets {
    shards: Box<[Mutex<Box<[u8]>>]>,
    sets: u64,
    set_bytes: usize,
    sets_per_shard: u64,
}

impl Sets {
    /// `sets` copies of `empty`. Allocates everything now.
    pub fn new(sets: u64, empty: &[u8]) -> Self {
        let set_bytes = empty.len().max(1);
        let sets_per_shard = (SHARD_BYTES / set_bytes).max(1) as u64;
        let shard = |n: u64| {
            let count = sets_per_shard.min(sets - n * sets_per_shard);
            Mutex::new(empty.repeat(count as usize).into_boxed_slice())
        };
        let shards = (0..sets.div_ceil(sets_per_shard)).map(shard).collect();
        Sets { shards, sets, set_bytes, sets_per_shard }
    }

    /// How many sets there are.
    pub fn len(&self) -> u64 {
        self.sets
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sets == 0
    }

    /// The set of a digest, from [`crate::Digest::low`]: scaled, so that any number of sets is filled evenly, and
    /// chosen by its high bits, so that the low ones are left for a fingerprint.
    pub fn set_of(&self, id_low: u64) -> u64 {
        ((u128::from(id_low) * u128::from(self.sets)) >> 64) as u64
    }

    /// Look at or change one set, with its shard locked; `None` if there is no such set. `work` must be short.
    pub fn with<T>(&self, set: u64, work: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let mut shard = self.shards.get((set / self.sets_per_shard) as usize)?.lock();
        let at = (set % self.sets_per_shard) as usize * self.set_bytes;
        shard.get_mut(at..at + self.set_bytes).map(work)
    }

    /// Bytes allocated: the slots, and the shards' locks and pointers.
    pub fn allocated_bytes(&self) -> u64 {
        let shards: usize = self.shards.iter().map(|shard| shard.lock().len() + size_of::<Mutex<Box<[u8]>>>()).sum();
        (shards + size_of::<Self>()) as u64
    }
}
