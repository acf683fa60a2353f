//! Segments, and what stands at the front of one.
//!
//! ```text
//!  0    u16 bytes in use   u8 class   u8 'S'   u32 checksum
//!  8    the bytes
//! ```
//!
//! A segment of which no byte is in use is free. The checksum is the low half of XXH3, seeded with the store's secret, of the segment's
//! number and the four bytes before it. It tells a segment from what else may lie there, as a body that pretends to be one, and not
//! whether its bytes are right: that is the engine's to say.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Sizes that a segment may have: 512 bytes times a power of two, up to 8192.
pub const CLASSES: usize = 5;

/// Bytes in front of what is kept.
pub const HEADER_BYTES: usize = 8;

const UNIT: u64 = 512;
const MARK: u8 = b'S';

/// A segment of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment {
    /// Where it begins, in units of 512 bytes: the file has 2 TiB at most.
    pub at: u32,
    /// Its size is 512 bytes times two to this power.
    pub class: u8,
}

impl Segment {
    /// The segment of this size at this offset; `None` past the end of what can be numbered.
    pub fn new(offset: u64, class: usize) -> Option<Segment> {
        Some(Segment { at: u32::try_from(offset / UNIT).ok()?, class: u8::try_from(class).ok()? })
    }

    /// Its size in bytes, with the header.
    pub fn bytes(self) -> u64 {
        UNIT << self.class.min(CLASSES as u8 - 1)
    }

    /// Where it begins, in bytes.
    pub fn offset(self) -> u64 {
        u64::from(self.at) * UNIT
    }

    /// The smallest class into which so many bytes fit, with the header; `None` for more than 8184.
    pub fn class_for(bytes: usize) -> Option<usize> {
        (0..CLASSES).find(|class| bytes.saturating_add(HEADER_BYTES) as u64 <= UNIT << class)
    }

    /// Its name in a tree.
    pub fn path(self) -> String {
        format!("mapped/{:08X}.{}", self.at, self.class)
    }

    /// The segment of this name; `None` if it is none of a segment's.
    pub fn of(path: &str) -> Option<Segment> {
        let (at, class) = path.strip_prefix("mapped/")?.split_once('.')?;
        let segment = Segment { at: u32::from_str_radix(at, 16).ok()?, class: class.parse().ok()? };
        (usize::from(segment.class) < CLASSES && segment.path() == path).then_some(segment)
    }

    /// Its header with so many bytes in use.
    pub(super) fn header(self, used: u16, seed: u64) -> [u8; HEADER_BYTES] {
        let [a, b] = used.to_le_bytes();
        let said = [a, b, self.class, MARK];
        let [c, d, e, f] = self.checksum(said, seed).to_le_bytes();
        [a, b, self.class, MARK, c, d, e, f]
    }

    fn checksum(self, said: [u8; 4], seed: u64) -> u32 {
        let [a, b, c, d] = self.at.to_le_bytes();
        let [e, f, g, h] = said;
        xxh3_64_with_seed(&[a, b, c, d, e, f, g, h], seed) as u32
    }

    /// The segment that begins here, and how many of its bytes are in use.
    pub(super) fn in_header(at: u32, header: &[u8], seed: u64) -> Option<(Segment, u16)> {
        let header: [u8; HEADER_BYTES] = header.try_into().ok()?;
        let [a, b, class, ..] = header;
        let (segment, used) = (Segment { at, class }, u16::from_le_bytes([a, b]));
        let fits = usize::from(class) < CLASSES && u64::from(used) + HEADER_BYTES as u64 <= segment.bytes();
        (fits && segment.header(used, seed) == header).then_some((segment, used))
    }

    /// Whether this may be the header of a segment in use, of whichever cache. One in 13,000 of random headers may.
    pub(super) fn looks_like_one(header: &[u8]) -> bool {
        let [a, b, class, mark, ..] = *header else { return false };
        let (segment, used) = (Segment { at: 0, class }, u16::from_le_bytes([a, b]));
        let fits = usize::from(class) < CLASSES && u64::from(used) + HEADER_BYTES as u64 <= segment.bytes();
        mark == MARK && used > 0 && fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_its_segment_and_strange_ones_are_none() {
        for segment in [Segment { at: 0, class: 0 }, Segment { at: u32::MAX, class: 4 }, Segment { at: 77, class: 3 }] {
            assert_eq!(Segment::of(&segment.path()), Some(segment));
        }
        for path in [
            "",
            "mapped/",
            "mapped/0.0",
            "mapped/00000000.5",
            "mapped/0000000a.0",
            "00/00/00000000",
            "mapped/+0000000.1",
        ] {
            assert_eq!(Segment::of(path), None, "{path}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_paper_with_a_header() {
        let class = |bytes| Segment::class_for(bytes).map(|class| Segment::new(0, class).unwrap().bytes());
        assert_eq!(
            [0, 504, 505, 1016, 4088, 4089, 8184].map(class),
            [512, 512, 1024, 1024, 4096, 8192, 8192].map(Some)
        );
        assert_eq!(class(8185), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let segment = Segment { at: 9, class: 2 };
        let mut header = segment.header(2000, 1);
        assert_eq!(Segment::in_header(9, &header, 1), Some((segment, 2000)));
        assert_eq!(Segment::in_header(8, &header, 1), None, "another place's");
        assert_eq!(Segment::in_header(9, &header, 2), None, "another store's");
        for bit in 0..64 {
            header[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Segment::in_header(9, &header, 1), None, "bit {bit}");
            header[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Segment::in_header(9, &segment.header(2041, 1), 1), None, "more than it has room for");
    }
}
