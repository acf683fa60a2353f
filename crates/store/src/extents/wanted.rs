//! What a reader wants of a body, and how much of it is sure enough to be read at once.

use std::ops::Range;

use crate::store::within;
use crate::terms::ReadError;
use crate::terms::limits::TOGETHER_BYTES;

/// The part of a body that a reader still wants.
pub(crate) struct Wanted {
    left: Range<u64>,
    /// Where it began to read, or sought to.
    begun_at: u64,
    /// Whether it said where it will stop.
    said_end: bool,
}

impl Wanted {
    /// A body from its first byte to this, or `u64::MAX` where it is not known.
    pub(crate) fn all(end: u64) -> Self {
        Wanted { left: 0..end, begun_at: 0, said_end: false }
    }

    /// See [`crate::BodySource::seek`].
    pub(crate) fn seek(&mut self, range: Range<u64>, length: Option<u64>) -> Result<(), ReadError> {
        let said_end = range.end != u64::MAX;
        let left = within(range, length)?;
        *self = Wanted { begun_at: left.start, left, said_end };
        Ok(())
    }

    /// The next byte.
    pub(crate) fn at(&self) -> u64 {
        self.left.start
    }

    /// Bytes that are left, or `most` if that is less.
    pub(crate) fn bytes(&self, most: usize) -> usize {
        usize::try_from(self.left.end.saturating_sub(self.left.start)).unwrap_or(usize::MAX).min(most)
    }

    /// A piece of so many bytes was taken.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.left.start += bytes as u64;
    }

    /// The numbers of the extents that one request may read, the next first: those that lie in the next
    /// [`TOGETHER_BYTES`] where it is sure that the reader wants them. It said so, or little is left, or it has read on
    /// beyond an extent; whoever only began to read, and may stop, gets one. The first extent begins at `first_bytes`.
    pub(crate) fn extents(&self, first_bytes: u64, extent_bytes: u64) -> Range<usize> {
        let Range { start, end } = self.left;
        let number = |at: u64| at.saturating_sub(first_bytes) / extent_bytes.max(1);
        let together = end.min(start.saturating_add(TOGETHER_BYTES as u64));
        let sure = self.said_end || together == end || number(start) > number(self.begun_at);
        let last = if sure { number(together.saturating_sub(1)).max(number(start)) } else { number(start) };
        number(start) as usize..last as usize + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn only_what_is_sure_to_be_wanted_is_read_at_once() {
        let mut wanted = Wanted::all(10_000 * KIB);
        assert_eq!(wanted.extents(0, 256 * KIB), 0..1, "it may stop");
        wanted.took(200 * KIB as usize);
        assert_eq!(wanted.extents(0, 256 * KIB), 0..1);
        wanted.took(56 * KIB as usize);
        assert_eq!(wanted.extents(0, 256 * KIB), 1..5, "it reads on");
        for (range, extents) in [
            (300 * KIB..300 * KIB + 100, 1..2),
            (512 * KIB - 50..512 * KIB + 50, 1..3),
            (100..5000 * KIB, 0..5),
            (100..u64::MAX, 0..1),
            // The last MiB, wherever it begins, and less.
            (8976 * KIB..u64::MAX, 35..40),
            (9984 * KIB..u64::MAX, 39..40),
            (9980 * KIB..10_000 * KIB, 38..40),
            (512 * KIB..512 * KIB, 2..3),
        ] {
            wanted.seek(range.clone(), Some(10_000 * KIB)).unwrap();
            assert_eq!(wanted.extents(0, 256 * KIB), extents, "{range:?}");
        }
        // Of a body whose end is not known.
        let mut wanted = Wanted::all(u64::MAX);
        assert_eq!(wanted.extents(0, 256 * KIB), 0..1);
        wanted.took(256 * KIB as usize);
        assert_eq!(wanted.extents(0, 256 * KIB), 1..5);
    }

    #[test]
    fn a_seek_outside_changes_nothing() {
        let mut wanted = Wanted::all(100);
        wanted.took(10);
        assert_eq!(wanted.seek(50..101, Some(100)), Err(ReadError::Range));
        assert_eq!((wanted.at(), wanted.bytes(1000), wanted.bytes(7)), (10, 90, 7));
    }
}
