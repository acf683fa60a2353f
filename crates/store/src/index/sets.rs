//! Sets of slots in shards: a set is a few dozen bytes, copied out or changed under its shard's lock.

use std::ops::Range;

use crate::memory::Parts;

/// Bytes of one shard at the most. Small enough that two threads seldom meet in one, large enough that locks cost
/// nothing a slot; with the stamp of a snapshot's page it fills 48 KiB.
pub const SHARD_BYTES: usize = (48 << 10) - 32;

/// How many sets there are, and which of them lie in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    sets: u64,
    set_bytes: usize,
    sets_per_shard: u64,
}

impl Shape {
    /// Of so many sets of so many bytes each, in shards of so many at the most.
    pub fn of(sets: u64, set_bytes: usize, shard_bytes: usize) -> Self {
        let set_bytes = set_bytes.max(1);
        Shape { sets, set_bytes, sets_per_shard: (shard_bytes / set_bytes).max(1) as u64 }
    }

    /// How many sets there are.
    pub fn sets(&self) -> u64 {
        self.sets
    }

    /// Bytes of a set.
    pub fn set_bytes(&self) -> usize {
        self.set_bytes
    }

    /// How many shards they make.
    pub fn shards(&self) -> u64 {
        self.sets.div_ceil(self.sets_per_shard)
    }

    /// Bytes of a shard; the last one is padded to as many.
    pub fn shard_bytes(&self) -> u64 {
        self.sets_per_shard * self.set_bytes as u64
    }

    /// How many sets lie in a shard, but for the last one.
    pub fn sets_per_shard(&self) -> u64 {
        self.sets_per_shard
    }

    /// The set of a digest, from [`crate::Digest::low`]: scaled, so that any number of sets is filled evenly, and
    /// chosen by its high bits, so that the low ones are left for a fingerprint.
    pub fn set_of(&self, id_low: u64) -> u64 {
        ((u128::from(id_low) * u128::from(self.sets)) >> 64) as u64
    }

    /// The shard that a set lies in.
    pub fn shard_of(&self, set: u64) -> u64 {
        set / self.sets_per_shard
    }

    /// The sets that lie in this shard.
    pub fn sets_in(&self, shard: u64) -> Range<u64> {
        let first = shard.saturating_mul(self.sets_per_shard).min(self.sets);
        first..first.saturating_add(self.sets_per_shard).min(self.sets)
    }

    /// The sets that lie in one shard with this one.
    pub fn beside(&self, set: u64) -> Range<u64> {
        self.sets_in(self.shard_of(set))
    }

    /// Where a set lies in its shard.
    pub fn bytes_of(&self, set: u64) -> Range<usize> {
        let at = (set % self.sets_per_shard) as usize * self.set_bytes;
        at..at + self.set_bytes
    }

    /// Look at or change two sets in the bytes of their shard, as [`Sets::with_two`] does.
    pub fn two_in<T>(
        &self,
        shard: &mut [u8],
        set: u64,
        other: u64,
        work: impl FnOnce(&mut [u8], &mut [u8]) -> T,
    ) -> Option<T> {
        if other == set || self.shard_of(other) != self.shard_of(set) {
            return shard.get_mut(self.bytes_of(set)).map(|set| work(set, &mut []));
        }
        let [set, other] = shard.get_disjoint_mut([self.bytes_of(set), self.bytes_of(other)]).ok()?;
        Some(work(set, other))
    }
}

/// Many sets of as many bytes each. Memory: sets x set bytes, and 24 bytes a shard.
pub struct Sets {
    shards: Parts,
    shape: Shape,
}

impl Sets {
    /// `sets` copies of `empty`. Allocates everything now.
    pub fn new(sets: u64, empty: &[u8]) -> Self {
        Self::in_shards(sets, empty, SHARD_BYTES)
    }

    /// The same in shards of so many bytes at the most.
    pub fn in_shards(sets: u64, empty: &[u8], shard_bytes: usize) -> Self {
        let shape = Shape::of(sets, empty.len(), shard_bytes);
        let shards = Parts::zeroed(sets as usize * shape.set_bytes, shape.shard_bytes() as usize);
        for mut shard in (0..shards.len()).filter_map(|number| shards.lock(number)) {
            shard.chunks_exact_mut(shape.set_bytes).for_each(|set| set.copy_from_slice(empty));
        }
        Sets { shards, shape }
    }

    /// How many shards so many sets make, and how many bytes each holds, the last one padded.
    pub fn shards_for(sets: u64, set_bytes: usize) -> (u64, u64) {
        let shape = Shape::of(sets, set_bytes, SHARD_BYTES);
        (shape.shards(), shape.shard_bytes())
    }

    /// How they lie in shards.
    pub fn shape(&self) -> &Shape {
        &self.shape
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
        self.shape.sets
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shape.sets == 0
    }

    /// See [`Shape::set_of`].
    pub fn set_of(&self, id_low: u64) -> u64 {
        self.shape.set_of(id_low)
    }

    /// Look at or change one set, with its shard locked; `None` if there is no such set. `work` must be short.
    pub fn with<T>(&self, set: u64, work: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let mut shard = self.shards.lock(self.shape.shard_of(set) as usize)?;
        shard.get_mut(self.shape.bytes_of(set)).map(work)
    }

    /// Look at or change two sets of one shard, with it locked; the second is empty if it is the first, or not in that shard.
    /// `None` if there is no first one. `work` must be short.
    pub fn with_two<T>(&self, set: u64, other: u64, work: impl FnOnce(&mut [u8], &mut [u8]) -> T) -> Option<T> {
        let mut shard = self.shards.lock(self.shape.shard_of(set) as usize)?;
        self.shape.two_in(&mut shard, set, other, work)
    }

    /// Bytes allocated: the slots, and the shards' locks and pointers.
    pub fn allocated_bytes(&self) -> u64 {
        (self.shards.allocated_bytes() + size_of::<Self>()) as u64
    }
}
