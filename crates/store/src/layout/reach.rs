//! How far a record reaches together with those related to it that were written right behind it (HashCache, section 3.5).
//!
//! Each record knows how far it is to the end of its group. So a page's first object, which a browser asks for first, brings
//! all of the page, with eight bits and no list. After a restart snapshots have all eight bits and summaries seven, since an
//! entry of theirs had seven to spare; a region that had to be walked has none.

use super::take::take;
use crate::terms::{Place, Record};

/// Bytes of the blocks that a reach is counted in.
const BLOCK: u64 = 4096;
/// The most blocks that a reach can tell: 256 of them, 1 MiB.
pub const MAX_REACH_BYTES: usize = 256 * BLOCK as usize;

/// Blocks of 4 KiB behind the one a record begins in, up to the end of the last record related to it: 0 to 255, so that a
/// run of at most 256 blocks fits eight bits. 0 also where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reach(pub u8);

impl Reach {
    /// That of `bytes` from `place` on; what is longer is cut off.
    pub fn of(place: Place, bytes: usize) -> Reach {
        let blocks = (place.0 % BLOCK + bytes as u64).div_ceil(BLOCK);
        Reach(blocks.clamp(1, 256).saturating_sub(1) as u8)
    }

    /// That of a record at a place; nothing where nothing is known of what is related to it.
    pub fn of_record(place: Place, record: &Record<'_>) -> Reach {
        if record.related_bytes == 0 { Reach::default() } else { Reach::of(place, record.related_bytes) }
    }

    /// How many bytes it is from a place to the end, whole blocks.
    pub fn bytes_from(self, place: Place) -> usize {
        ((u64::from(self.0) + 1) * BLOCK - place.0 % BLOCK) as usize
    }

    /// In seven bits, as a region's summary has them: pairs of blocks, rounded up.
    pub(super) fn pairs(self) -> u32 {
        u32::from(self.0).div_ceil(2).min(127)
    }

    /// What seven bits say.
    pub(super) fn of_pairs(pairs: u32) -> Reach {
        Reach(pairs.min(127) as u8 * 2)
    }

    /// Eight bits off the front of some bytes.
    pub(crate) fn taken(bytes: &mut &[u8]) -> Option<Reach> {
        take(bytes).map(|[blocks]| Reach(blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_covers_its_bytes_and_at_most_a_block_more() {
        for place in [0, 1, 100, 4095, 4096, 70_001] {
            for bytes in [1, 56, 4095, 4096, 4097, 100_000, MAX_REACH_BYTES - 4096] {
                let reach = Reach::of(Place(place), bytes);
                let covered = reach.bytes_from(Place(place));
                assert!(covered >= bytes && covered < bytes + 4096, "{bytes} at {place}: {covered}");
                let rounded = Reach::of_pairs(reach.pairs());
                assert!(rounded.0 >= reach.0.min(254) && rounded.0 <= reach.0.saturating_add(1));
            }
        }
        assert_eq!(Reach::of(Place(0), usize::MAX / 2), Reach(255));
        assert_eq!(Reach(255).bytes_from(Place(0)), MAX_REACH_BYTES);
    }
}
