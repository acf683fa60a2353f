//! One bin of a Disk Table: a stamped header, then name, head and body without a gap.
//!
//! ```text
//!  0  u32  magic "TjB1"      12  u32  body length       48  u64  checksum of name, head and body
//!  4  u8   content           16  u64  number of the bin 56  u64  checksum of bytes 0 to 55
//!  5  u8   format version    24  [16] digest            64  name, head, body
//!  6  u16  name length       40  u64  order of writing
//!  8  u24  head length
//! 11  u8   reach: blocks that what lies in the log reaches over with what is related to it; 0 where nothing is read ahead
//! ```
//!
//! The body of a larger object is where the rest of it lies, and as much of its beginning as fits (version 2).
//!
//! Bins are written over in place. One that was torn by a cut of the power does not verify and is empty: the object
//! that it was to hold was not flushed, and the one that it held left when the write began. Both checksums are seeded
//! with the store's secret and the header names its bin, so a write that went astray is empty too.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::reach::Reach;
use super::record::Stamp;
use super::take::{take, take_u16, take_u32, take_u64};
use crate::memory::AlignedBuf;
use crate::memory::aligned::{ALIGN, round_up};
use crate::terms::{Digest, Kind, Place, Record};

const MAGIC: u32 = u32::from_le_bytes(*b"TjB1");
const VERSION: u8 = 2;
const ELSEWHERE: u8 = 6;

/// Bytes before a bin's name.
pub const BIN_HEADER_BYTES: usize = 64;
const CHECKED_BYTES: usize = 56;

/// What a bin holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A record; [`Kind::Tombstone`] says that the bin was emptied.
    Record(Kind),
    /// A record that does not fit lies in the log: the body is its place and its length.
    Elsewhere,
}

impl Content {
    fn byte(self) -> u8 {
        match self {
            Content::Record(kind) => kind as u8,
            Content::Elsewhere => ELSEWHERE,
        }
    }

    fn from_byte(byte: u8) -> Option<Content> {
        if byte == ELSEWHERE { Some(Content::Elsewhere) } else { Kind::from_byte(byte).map(Content::Record) }
    }
}

/// A bin's verified header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinHeader {
    /// What it holds.
    pub content: Content,
    /// The object it belongs to.
    pub id: Digest,
    /// Bins written later have a higher number.
    pub order: u64,
    /// Bytes of the name.
    pub name_bytes: usize,
    /// Bytes of the head.
    pub head_bytes: usize,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// How far what lies of it in the log reaches, with what is related to it.
    pub reach: Reach,
    payload_sum: u64,
}

impl BinHeader {
    /// Bytes of the bin that mean anything: header, name, head and body.
    pub fn used_bytes(&self) -> usize {
        BIN_HEADER_BYTES + self.name_bytes + self.head_bytes + self.body_bytes
    }
}

/// What the bytes of a bin are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Never written to.
    Blank,
    /// Once a bin, and not as it was written.
    Damaged,
    /// A sound header; what follows it is verified by [`Stamp::bin_payload`].
    Bin(BinHeader),
}

/// Where a record that does not fit into its bin lies in the log: the body of such a bin.
pub fn pointer(place: Place, bytes: usize) -> [u8; 12] {
    let mut pointer = [0; 12];
    let fields = place.0.to_le_bytes().into_iter().chain((bytes as u32).to_le_bytes());
    pointer.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    pointer
}

/// Read a [`pointer()`].
pub fn read_pointer(mut bytes: &[u8]) -> Option<(Place, usize)> {
    Some((Place(take_u64(&mut bytes)?), take_u32(&mut bytes)? as usize))
}

/// Bytes of a bin that are left when it takes the beginning of a body, so that a new head that is a little longer still
/// goes with it.
pub const SPARE_BYTES: usize = 128;

/// How much of the beginning of a body a bin of so many bytes holds beside so many others.
pub fn room_beside(bytes: usize, block_bytes: u64) -> usize {
    (block_bytes as usize).saturating_sub(BIN_HEADER_BYTES + SPARE_BYTES).saturating_sub(bytes)
}

/// Whether a record fits into a bin of so many bytes.
pub fn fits(record: &Record<'_>, block_bytes: u64) -> bool {
    let bytes = BIN_HEADER_BYTES + record.name.len() + record.head.len() + record.body.len();
    bytes as u64 <= block_bytes && record.head.len() < 1 << 24 && u16::try_from(record.name.len()).is_ok()
}

impl Stamp {
    /// The bytes of a bin as they go to disk, without number and order: the caller puts these in with
    /// [`Stamp::bin_ordered`].
    pub fn bin(&self, record: &Record<'_>, content: Content, reach: Reach) -> AlignedBuf {
        let parts = [record.name, record.head, record.body];
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let mut image = AlignedBuf::zeroed(round_up((BIN_HEADER_BYTES + payload) as u64, ALIGN as u64) as usize);
        let mut sum = Xxh3::with_seed(self.seed);
        parts.iter().for_each(|part| sum.update(part));
        let mut header = Vec::with_capacity(BIN_HEADER_BYTES);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        header.extend_from_slice(&[content.byte(), VERSION]);
        header.extend_from_slice(&(record.name.len() as u16).to_le_bytes());
        header.extend_from_slice(&(record.head.len() as u32 | u32::from(reach.0) << 24).to_le_bytes());
        header.extend_from_slice(&(record.body.len() as u32).to_le_bytes());
        header.extend_from_slice(&0_u64.to_le_bytes());
        header.extend_from_slice(&record.id.0);
        header.extend_from_slice(&0_u64.to_le_bytes());
        header.extend_from_slice(&sum.digest().to_le_bytes());
        header.extend_from_slice(&0_u64.to_le_bytes());
        let mut rest = &mut image[..];
        for part in [&header[..]].into_iter().chain(parts) {
            let Some((to, after)) = rest.split_at_mut_checked(part.len()) else { break };
            to.copy_from_slice(part);
            rest = after;
        }
        image
    }

    /// Say when a bin was written, and where, and seal its header.
    pub fn bin_ordered(&self, image: &mut [u8], bin: u64, order: u64) {
        for (at, value) in [(16, bin), (40, order)] {
            image.get_mut(at..at + 8).unwrap_or_default().copy_from_slice(&value.to_le_bytes());
        }
        let sum = image.get(..CHECKED_BYTES).map_or(0, |checked| xxh3_64_with_seed(checked, self.seed));
        let sealed = image.get_mut(CHECKED_BYTES..BIN_HEADER_BYTES);
        sealed.unwrap_or_default().copy_from_slice(&sum.to_le_bytes());
    }

    /// What the bytes are that were read from bin `bin`.
    pub fn bin_seen(&self, bytes: &[u8], bin: u64) -> Seen {
        let magic = take_u32(&mut &*bytes).unwrap_or(0);
        match self.bin_header(bytes, bin) {
            Some(header) => Seen::Bin(header),
            // Told from what was never a bin by its first bytes, one wrong bit allowed.
            None if (magic ^ MAGIC).count_ones() <= 1 => Seen::Damaged,
            None => Seen::Blank,
        }
    }

    fn bin_header(&self, bytes: &[u8], bin: u64) -> Option<BinHeader> {
        let checked = bytes.get(..CHECKED_BYTES)?;
        let mut rest = bytes.get(4..BIN_HEADER_BYTES)?;
        let rest = &mut rest;
        let [content, version] = take(rest)?;
        let name_bytes = take_u16(rest)? as usize;
        let head = take_u32(rest)?;
        let (head_bytes, reach) = ((head & 0xFF_FFFF) as usize, Reach((head >> 24) as u8));
        let body_bytes = take_u32(rest)? as usize;
        let at = take_u64(rest)?;
        let id = Digest(take(rest)?);
        let order = take_u64(rest)?;
        let payload_sum = take_u64(rest)?;
        let sound = version == VERSION && at == bin && take_u64(rest)? == xxh3_64_with_seed(checked, self.seed);
        let content = Content::from_byte(content)?;
        sound.then_some(BinHeader { content, id, order, name_bytes, head_bytes, body_bytes, reach, payload_sum })
    }

    /// Name, head and body of a bin, if they are what was written behind this header.
    pub fn bin_payload<'a>(&self, header: &BinHeader, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let payload = bytes.get(BIN_HEADER_BYTES..header.used_bytes())?;
        (xxh3_64_with_seed(payload, self.seed) == header.payload_sum).then_some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::table::{Extent, Table};

    /// Version 2 as it lies on disks: a change of the format is another version and keeps this file. Bins of version 1,
    /// which held no beginnings, are not read.
    #[test]
    fn the_format_is_that_of_the_golden_file() {
        let stamp = Stamp { seed: 42 };
        let record = Record {
            id: Digest([7; 16]),
            kind: Kind::Whole,
            name: b"name",
            head: b"head",
            body: b"a body",
            related_bytes: 0,
        };
        let mut whole = stamp.bin(&record, Content::Record(Kind::Whole), Reach(0));
        stamp.bin_ordered(&mut whole, 77, 5);
        let body = pointer(Place(0x0102_0304_0506), 70_000);
        let elsewhere = Record { name: &[], head: &[], body: &body, ..record };
        let mut elsewhere = stamp.bin(&elsewhere, Content::Elsewhere, Reach(0));
        stamp.bin_ordered(&mut elsewhere, 78, 6);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let table = Table {
            first: b"a beginning"[..].into(),
            rest_bytes: 5,
            extent_bytes: 5,
            extents: vec![Extent { place: Place(0x0102_0304), bytes: 5 }],
        };
        let begun = Record { kind: Kind::Large, body: &table.encode(), ..record };
        let mut begun = stamp.bin(&begun, Content::Record(Kind::Large), Reach(3));
        stamp.bin_ordered(&mut begun, 79, 7);
        let now = format!("{}\n{}\n{}\n", hex(&whole[..80]), hex(&elsewhere[..80]), hex(&begun[..104]));
        assert_eq!(now, include_str!("golden/bins-v2.hex"));
        for (old, bin) in include_str!("golden/bins-v1.hex").lines().zip(77..) {
            let pairs = old.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            let old: Vec<_> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            assert_eq!(stamp.bin_seen(&old, bin), Seen::Damaged);
        }
    }

    #[test]
    fn every_flipped_bit_of_a_bin_is_noticed() {
        let stamp = Stamp { seed: 42 };
        let record = Record {
            id: Digest([7; 16]),
            kind: Kind::Whole,
            name: b"name",
            head: b"head",
            body: b"a body, short",
            related_bytes: 0,
        };
        let mut image = stamp.bin(&record, Content::Record(Kind::Whole), Reach(0));
        stamp.bin_ordered(&mut image, 77, 5);
        let mut reaching = stamp.bin(&record, Content::Record(Kind::Whole), Reach(200));
        stamp.bin_ordered(&mut reaching, 77, 5);
        let Seen::Bin(header) = stamp.bin_seen(&reaching, 77) else { panic!("it is sound") };
        assert_eq!((header.reach, header.head_bytes), (Reach(200), 4));
        let used = BIN_HEADER_BYTES + 21;
        let whole = |bytes: &[u8], bin| match stamp.bin_seen(bytes, bin) {
            Seen::Bin(header) => stamp.bin_payload(&header, bytes).map(<[u8]>::to_vec),
            Seen::Damaged | Seen::Blank => None,
        };
        assert_eq!(image.len(), ALIGN);
        assert_eq!(whole(&image, 77).as_deref(), Some(&b"nameheada body, short"[..]));
        assert_eq!(stamp.bin_seen(&image, 78), Seen::Damaged, "a write that went astray");
        assert!(matches!(Stamp { seed: 43 }.bin_seen(&image, 77), Seen::Damaged), "another store");
        for bit in 0..used * 8 {
            image[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(whole(&image, 77), None, "bit {bit}");
            assert_ne!(stamp.bin_seen(&image, 77), Seen::Blank, "bit {bit}");
            image[bit / 8] ^= 1 << (bit % 8);
        }
        (0..used).for_each(|cut| assert_eq!(whole(&image[..cut], 77), None, "cut to {cut}"));
        assert_eq!(stamp.bin_seen(&[0; ALIGN], 77), Seen::Blank);
        assert_eq!(read_pointer(&pointer(Place(1 << 40), 70_000)), Some((Place(1 << 40), 70_000)));
    }
}
