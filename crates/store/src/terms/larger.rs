//! What a larger cache would find, as it is told.

use super::stats::ratio;

/// Objects, each as often as it was asked for, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub objects: u64,
    /// Bytes of their names, heads and bodies.
    pub bytes: u64,
}

/// What was asked for, and what of it LRU caches as large as this one, and twice as large, would have found: estimated since the
/// store was opened from a sample of at most 4096 objects, as SHARDS does (Waldspurger et al., FAST 2015). What came long ago counts less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Larger {
    /// Requests of the sample, not scaled up. Estimates from less than a thousand are worth little.
    pub sampled: u64,
    /// What was asked for: what was found, and what was stored.
    pub asked: Amount,
    /// Found in as much memory as hot objects may take.
    pub memory: Amount,
    /// Found in twice that memory.
    pub twice_memory: Amount,
    /// Found on a disk of this size.
    pub disk: Amount,
    /// Found on a disk of twice the size.
    pub twice_disk: Amount,
}

impl Amount {
    fn with(self, other: Amount) -> Amount {
        Amount { objects: self.objects + other.objects, bytes: self.bytes + other.bytes }
    }

    /// What is more in another, as shares of all objects and of all bytes.
    fn more(self, other: Amount, of: Amount) -> (f64, f64) {
        let more = |less: u64, more: u64, of: u64| ratio(more.saturating_sub(less), of);
        (more(self.objects, other.objects, of.objects), more(self.bytes, other.bytes, of.bytes))
    }
}

impl Larger {
    /// Both together.
    pub(super) fn with(self, other: Larger) -> Larger {
        Larger {
            sampled: self.sampled + other.sampled,
            asked: self.asked.with(other.asked),
            memory: self.memory.with(other.memory),
            twice_memory: self.twice_memory.with(other.twice_memory),
            disk: self.disk.with(other.disk),
            twice_disk: self.twice_disk.with(other.twice_disk),
        }
    }

    /// How much more of what is asked for twice the memory would hold: shares of all objects and of all bytes, 0 to 1.
    pub fn by_memory(&self) -> (f64, f64) {
        self.memory.more(self.twice_memory, self.asked)
    }

    /// How much more of it twice the disk would hold: shares of all objects and of all bytes, 0 to 1.
    pub fn by_disk(&self) -> (f64, f64) {
        self.disk.more(self.twice_disk, self.asked)
    }
}
