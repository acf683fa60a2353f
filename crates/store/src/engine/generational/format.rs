//! How the index lies on the disk: as it does now, and as it did before. A cache stays as it was made.

use super::ledger;
use crate::engine::segments::{Choices, Index, SLOT_BITS};
use crate::index::sets::{SHARD_BYTES, Shape};
use crate::layout::SnapshotLayout;

/// What a page holds beside its stamp, where it is one block.
const BLOCK_CONTENT_BYTES: usize = 4096 - 32;

/// The formats, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// `generational`: an object may be in one set.
    OneSet = 1,
    /// `generational-2`: in one of two.
    TwoSets = 2,
    /// `generational-3`: and a page is a block of 4 KiB, where it was 48 KiB. An index on the disk is read page by page.
    SmallPages = 3,
}

impl Format {
    /// The one that new caches have.
    pub const NEWEST: Format = Format::SmallPages;

    /// The format of this number.
    pub fn of(number: u64) -> Option<Format> {
        [Format::OneSet, Format::TwoSets, Format::SmallPages].into_iter().find(|format| *format as u64 == number)
    }

    /// In how many sets an object may be.
    pub fn choices(self) -> Choices {
        if self == Format::OneSet { Choices::One } else { Choices::Two }
    }

    /// Bytes of the index that lie together: a page on the disk, and what a lock guards in memory.
    pub fn shard_bytes(self) -> usize {
        if self == Format::SmallPages { BLOCK_CONTENT_BYTES } else { SHARD_BYTES }
    }

    /// How so many sets lie in pages.
    pub fn shape(self, sets: u64) -> Shape {
        Shape::of(sets, SLOT_BITS, self.shard_bytes())
    }

    /// How snapshots of so many slots lie on the disk, from `base` on.
    pub fn saved(self, slots: u64, base: u64, segments: u64) -> SnapshotLayout {
        let shape = self.shape(Index::sets_for(slots));
        let behind = match self {
            Format::OneSet => ledger::bytes_for(segments),
            _ => ledger::bytes_with_learned_for(segments),
        };
        let page_content_bytes = shape.shard_bytes();
        SnapshotLayout { base, page_content_bytes, pages: shape.shards() + behind.div_ceil(page_content_bytes) }
    }
}
