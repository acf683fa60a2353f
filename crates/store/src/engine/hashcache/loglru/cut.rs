//! How HashCache-LogLRU's index is cut.

use super::offsets::OffsetLayout;
use super::set::WAYS;

/// How LogLRU's sets are cut, and where the rest of them lies.
#[derive(Clone, Copy, Debug)]
pub struct LruCut {
    /// Positions of each set in memory, 1 to 8.
    pub kept: usize,
    /// Bits of hash in a slot, 8 to 16.
    pub hash_bits: u8,
    /// Whether related records are read together (section 3.5).
    pub reads_ahead: bool,
    /// Whether the file of positions lies on a device of its own (5.4), and not before the log.
    pub is_apart: bool,
}

impl LruCut {
    pub(in crate::engine::hashcache) fn file(&self, slots: u64, base: u64) -> OffsetLayout {
        let LruCut { reads_ahead: has_reaches, is_apart, .. } = *self;
        OffsetLayout { base, sets: slots.div_ceil(WAYS as u64), has_reaches, is_apart }
    }

    /// Where the log begins on a disk of which so much is reserved.
    pub(in crate::engine::hashcache) fn log_base(&self, slots: u64, reserved: u64) -> Option<u64> {
        if self.is_apart { Some(reserved) } else { reserved.checked_add(self.file(slots, reserved).bytes()) }
    }
}
