//! Sets of slots in shards: a set is a few dozen bytes, copied out or changed under its shard's lock.

use std::ops::Range;

use crate::memory::Parts;

/// Bytes of one shard at the most. Small enough that two threads seldom meet in one, large enough that locks cost
/// nothing a slot; with the stamp of a snapshot's page it fills 48 KiB.
const SHARD_BYTES: usize = (48 << 10) - 32;

/// Many sets of `set_bytes` each. Memory: sets x set bytes, and 24 bytes a shard.
pub struct Sets {
    shards: Parts,
    sets: u64,
    set_bytes: usize,
    sets_per_shard: u64,
}

impl Sets {
    /// `sets` copies of `empty`. Allocates everything now.
    pub fn new(sets: u64, empty: &[u8]) -> Self {
        let set_bytes = empty.len().max(1);
        let sets_per_shard = Self::sets_per_shard(set_bytes);
        let shards = Parts::zeroed(sets as usize * set_bytes, sets_per_shard as usize * set_bytes);
        for mut shard in (0..shards.len()).filter_map(|number| shards.lock(number)) {
            shard.chunks_exact_mut(set_bytes).for_each(|set| set.copy_from_slice(empty));
        }
        Sets { shards, sets, set_bytes, sets_per_shard }
    }

    fn sets_per_shard(set_bytes: usize) -> u64 {
        (SHARD_BYTES / set_bytes.max(1)).max(1) as u64
    }

    /// How many shards so many sets make, and how many bytes each holds, the last one padded.
    pub fn shards_for(sets: u64, set_bytes: usize) -> (u64, u64) {
        let each = Self::sets_per_shard(set_bytes);
        (sets.div_ceil(each), each * set_bytes as u64)
    }

    /// A copy of one shard's bytes; empty if there is no such shard.
    pub fn copy_shard(&self, shard: u64) -> Vec<u8> {
        self.shards.lock(shard as usize).map(|shard| shard.to_vec()).unwrap_or_default()
    }

    /// Replace one shard's bytes by the front of `bytes`, if that is long enough.
    pub fn load_shard(&self, shard: u64, bytes: &[u8]) {
        if let Some(mut shard) = self.shards.lock(shard as usize)
            && let Some(bytes) = bytes.get(..shard.len())
        {
            shard.copy_from_slice(bytes);
        }
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
        let mut shard = self.shards.lock((set / self.sets_per_shard) as usize)?;
        let at = (set % self.sets_per_shard) as usize * self.set_bytes;
        shard.get_mut(at..at + self.set_bytes).map(work)
    }

    /// Look at or change two sets of one shard, with it locked; the second is empty if it is the first, or not in that shard.
    /// `None` if there is no first one. `work` must be short.
    pub fn with_two<T>(&self, set: u64, other: u64, work: impl FnOnce(&mut [u8], &mut [u8]) -> T) -> Option<T> {
        let mut shard = self.shards.lock((set / self.sets_per_shard) as usize)?;
        let bytes = |set: u64| {
            let at = (set % self.sets_per_shard) as usize * self.set_bytes;
            at..at + self.set_bytes
        };
        if other == set || other / self.sets_per_shard != set / self.sets_per_shard {
            return shard.get_mut(bytes(set)).map(|set| work(set, &mut []));
        }
        let [set, other] = shard.get_disjoint_mut([bytes(set), bytes(other)]).ok()?;
        Some(work(set, other))
    }

    /// The sets that lie in one shard with this one.
    pub fn beside(&self, set: u64) -> Range<u64> {
        let first = set / self.sets_per_shard * self.sets_per_shard;
        first..(first + self.sets_per_shard).min(self.sets)
    }

    /// Bytes allocated: the slots, and the shards' locks and pointers.
    pub fn allocated_bytes(&self) -> u64 {
        (self.shards.allocated_bytes() + size_of::<Self>()) as u64
    }
}
