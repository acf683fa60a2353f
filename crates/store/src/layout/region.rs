//! A circular log cut into regions, and the summary at the end of each full one.
//!
//! A region holds records from its start on and, right at its end, a summary of those that an index needs:
//!
//! ```text
//! | batch | batch | ... | (unused) | summary entries | 40-byte footer |
//!                                   ^ the whole summary starts on a block
//! entry:   u64 low half of the digest, u32: bits 0-1 kind, 2-24 offset in the region / unit, 25-31 reach in pairs of
//!          blocks (0 where nothing is read ahead)
//! footer:  u32 magic "TjS1", u32 entries, u64 place of the region, u64 used bytes, u64 checksum of entries,
//!          u64 checksum of the footer's first 32 bytes
//! ```
//!
//! In a log whose records have numbers the magic is "TjS2", and an entry has its record's number behind it, in 8 bytes.
//!
//! A footer of no entries and no used bytes says that whatever its region holds has left.
//!
//! The summary is a hint: it speeds reopening, and every record is verified when it is read. It is written once the
//! records it names last, or it would lead to some that a cut of the power took.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::reach::Reach;
use super::record::{HEADER_BYTES, NUMBERED_HEADER_BYTES, Stamp, record_bytes};
use super::take::{take_u32, take_u64};
use crate::memory::AlignedBuf;
use crate::memory::aligned::round_up;
use crate::terms::{Kind, Place, Record};

const MAGIC: u32 = u32::from_le_bytes(*b"TjS1");
/// Of entries with numbers.
const NUMBERED_MAGIC: u32 = u32::from_le_bytes(*b"TjS2");

/// Places end here: no disk can write so much, and a multi-disk store keeps the disk's number above.
pub const PLACES: u64 = 1 << 55;

/// Bytes of one summary entry without a number.
pub const ENTRY_BYTES: usize = 12;
/// Bytes of the footer, the last of a region.
pub const FOOTER_BYTES: usize = 40;
const FOOTER_CHECKED_BYTES: usize = 32;
/// Bits of an entry's offset: regions are 8 MiB at the most.
const OFFSET_BITS: u32 = 23;

/// The sizes of a circular log. All are fixed when the store is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLayout {
    /// Where on the device the log begins.
    pub base: u64,
    /// Bytes of a region, a power of two.
    pub region_bytes: u64,
    /// Regions of the log.
    pub regions: u64,
    /// Places are multiples of this power of two: the smallest with which 32 bits reach the whole log.
    pub unit: u64,
    /// Writes begin and end on multiples of this.
    pub align: u64,
    /// Whether records have numbers, since it grows at several places at once: a place does not tell then which of two
    /// records is newer.
    pub is_numbered: bool,
}

impl LogLayout {
    /// The layout for a log of up to `bytes` after `base` on a device with such blocks. Regions are a 64th of the
    /// log, between 256 KiB and 8 MiB. `None` if that makes fewer than four regions.
    pub fn new(base: u64, bytes: u64, block: u64) -> Option<Self> {
        let region_bytes = floor_power_of_two(bytes / 64).clamp(256 << 10, 8 << 20);
        let regions = bytes / region_bytes;
        let unit = (region_bytes * regions).div_ceil(u64::from(u32::MAX)).next_power_of_two();
        let layout = LogLayout { base, region_bytes, regions, unit, align: unit.max(block), is_numbered: false };
        (regions >= 4).then_some(layout)
    }

    /// Bytes of the whole log.
    pub fn log_bytes(&self) -> u64 {
        self.region_bytes * self.regions
    }

    /// Bytes of the buffer in which records gather for one write.
    pub fn batch_bytes(&self) -> usize {
        (self.region_bytes / 4) as usize
    }

    /// The largest record; a batch holds one whatever its alignment.
    pub fn max_record_bytes(&self) -> usize {
        self.batch_bytes() - self.align as usize
    }

    /// Bytes before a record's name.
    pub fn header_bytes(&self) -> usize {
        if self.is_numbered { NUMBERED_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// Bytes that a record takes; `None` where a length does not fit its field.
    pub fn record_bytes(&self, record: &Record<'_>) -> Option<usize> {
        Some(record_bytes(record)? - HEADER_BYTES + self.header_bytes())
    }

    /// Bytes from the place of a record to that of one appended right behind it, but for what is left free between two
    /// batches.
    pub fn bytes_of(&self, record: &Record<'_>) -> usize {
        round_up(self.record_bytes(record).unwrap_or(0) as u64, self.unit) as usize
    }

    /// Where on the device a place lies.
    pub fn device_offset(&self, place: Place) -> u64 {
        self.base + place.0 % self.log_bytes()
    }

    /// The start of the region in which a place lies.
    pub fn region_of(&self, place: Place) -> Place {
        Place(place.0 - place.0 % self.region_bytes)
    }

    /// The number of that region, 0 to `regions` - 1.
    pub fn region_number(&self, place: Place) -> usize {
        (place.0 % self.log_bytes() / self.region_bytes) as usize
    }

    /// The lap in which a place was written; the first is lap 1.
    pub fn lap(&self, place: Place) -> u64 {
        place.0 / self.log_bytes()
    }

    /// Bytes a summary of so many entries takes.
    pub fn summary_bytes(&self, entries: usize) -> u64 {
        round_up((entries * self.entry_bytes() + FOOTER_BYTES) as u64, self.align)
    }

    fn entry_bytes(&self) -> usize {
        if self.is_numbered { ENTRY_BYTES + 8 } else { ENTRY_BYTES }
    }

    fn magic(&self) -> u32 {
        if self.is_numbered { NUMBERED_MAGIC } else { MAGIC }
    }
}

fn floor_power_of_two(value: u64) -> u64 {
    if value == 0 { 0 } else { 1 << value.ilog2() }
}

/// What a summary keeps of a record: enough for an index that verifies what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryEntry {
    /// [`crate::Digest::low`].
    pub id_low: u64,
    /// Where it lies.
    pub place: Place,
    /// What it is: [`Kind::Extent`] needs no entry.
    pub kind: Kind,
    /// How far it and what is related to it reach.
    pub reach: Reach,
    /// See [`super::record::Header::number`].
    pub number: u64,
}

/// A region's summary, ready to be written so that it ends where the region ends.
pub fn encode(layout: &LogLayout, stamp: Stamp, region: Place, used: u64, entries: &[SummaryEntry]) -> AlignedBuf {
    let mut packed = Vec::with_capacity(entries.len() * layout.entry_bytes());
    for entry in entries {
        packed.extend_from_slice(&entry.id_low.to_le_bytes());
        let offset = ((entry.place.0 - region.0) / layout.unit) as u32;
        let word = entry.reach.pairs() << (OFFSET_BITS + 2) | offset << 2 | (entry.kind as u32 & 3);
        packed.extend_from_slice(&word.to_le_bytes());
        if layout.is_numbered {
            packed.extend_from_slice(&entry.number.to_le_bytes());
        }
    }
    let mut footer = Vec::with_capacity(FOOTER_BYTES);
    footer.extend_from_slice(&layout.magic().to_le_bytes());
    footer.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    footer.extend_from_slice(&region.0.to_le_bytes());
    footer.extend_from_slice(&used.to_le_bytes());
    footer.extend_from_slice(&xxh3_64_with_seed(&packed, stamp.seed).to_le_bytes());
    footer.extend_from_slice(&xxh3_64_with_seed(&footer, stamp.seed).to_le_bytes());
    let mut buffer = AlignedBuf::zeroed(layout.summary_bytes(entries.len()) as usize);
    let at = buffer.len() - packed.len() - footer.len();
    if let Some(tail) = buffer.get_mut(at..) {
        tail.copy_from_slice(&[packed, footer].concat());
    }
    buffer
}

/// A verified footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The region it closes, with its lap.
    pub region: Place,
    /// Entries of the summary.
    pub entries: usize,
    /// Bytes of the region that hold records.
    pub used: u64,
    entries_sum: u64,
}

impl Footer {
    /// Whether it says that whatever the region holds has left.
    pub fn is_void(&self) -> bool {
        self.entries == 0 && self.used == 0
    }
}

/// The footer at the end of `block`, if this store wrote one for a region that lies at this number.
pub fn footer(layout: &LogLayout, stamp: Stamp, number: usize, block: &[u8]) -> Option<Footer> {
    let bytes = block.last_chunk::<FOOTER_BYTES>()?;
    let (checked, mut sum) = bytes.split_at_checked(FOOTER_CHECKED_BYTES)?;
    let mut rest = checked;
    let magic = take_u32(&mut rest)?;
    let entries = take_u32(&mut rest)? as usize;
    let region = Place(take_u64(&mut rest)?);
    let used = take_u64(&mut rest)?;
    let entries_sum = take_u64(&mut rest)?;
    let right = magic == layout.magic()
        && take_u64(&mut sum)? == xxh3_64_with_seed(checked, stamp.seed)
        && region.0 < PLACES
        && region.0.is_multiple_of(layout.region_bytes)
        && layout.region_number(region) == number
        && used <= layout.region_bytes
        && layout.summary_bytes(entries) <= layout.region_bytes;
    right.then_some(Footer { region, entries, used, entries_sum })
}

/// Whether there was a footer at the end of `block`, sound or damaged: its magic is there, or all of it but one bit.
pub fn was_footer(layout: &LogLayout, block: &[u8]) -> bool {
    let magic = block.last_chunk::<FOOTER_BYTES>().and_then(|footer| take_u32(&mut &footer[..]));
    magic.is_some_and(|magic| (magic ^ layout.magic()).count_ones() <= 1)
}

/// The entries before the footer that ends `bytes`; `None` if they are not those that were written.
pub fn entries(layout: &LogLayout, stamp: Stamp, footer: &Footer, bytes: &[u8]) -> Option<Vec<SummaryEntry>> {
    let end = bytes.len().checked_sub(FOOTER_BYTES)?;
    let packed = bytes.get(end.checked_sub(footer.entries * layout.entry_bytes())?..end)?;
    if xxh3_64_with_seed(packed, stamp.seed) != footer.entries_sum {
        return None;
    }
    packed
        .chunks_exact(layout.entry_bytes())
        .map(|mut entry| {
            let id_low = take_u64(&mut entry)?;
            let word = take_u32(&mut entry)?;
            let offset = u64::from(word >> 2 & ((1 << OFFSET_BITS) - 1)) * layout.unit;
            let number = if layout.is_numbered { take_u64(&mut entry)? } else { 0 };
            let kind = if word & 3 == 0 { Kind::Tombstone } else { Kind::from_byte((word & 3) as u8)? };
            (offset + HEADER_BYTES as u64 <= footer.used).then_some(SummaryEntry {
                id_low,
                place: Place(footer.region.0 + offset),
                kind,
                reach: Reach::of_pairs(word >> (OFFSET_BITS + 2)),
                number,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_reach_the_whole_log_with_32_bits() {
        for (bytes, unit) in [(64 << 20, 1), (4 << 30, 2), (1 << 40, 512), (16 << 40, 8192)] {
            let layout = LogLayout::new(4096, bytes, 512).unwrap();
            assert_eq!(layout.unit, unit);
            assert!(layout.log_bytes() / layout.unit < u64::from(u32::MAX));
            assert!(layout.log_bytes() <= bytes && layout.log_bytes() > bytes - layout.region_bytes);
        }
        assert_eq!(LogLayout::new(4096, 500_000, 512), None);
    }

    #[test]
    fn a_summary_is_read_as_it_was_written_or_not_at_all() {
        for is_numbered in [false, true] {
            let layout = LogLayout { is_numbered, ..LogLayout::new(4096, 64 << 20, 512).unwrap() };
            let stamp = Stamp { seed: 5 };
            let region = Place(layout.log_bytes() * 3 + layout.region_bytes * 2);
            let kinds = [Kind::Whole, Kind::Large, Kind::Tombstone];
            let written: Vec<_> = (0..100_u64)
                .map(|n| SummaryEntry {
                    id_low: n * 77,
                    place: Place(region.0 + n * 999),
                    kind: kinds[n as usize % 3],
                    reach: Reach((n * 2) as u8),
                    number: if is_numbered { n << 40 } else { 0 },
                })
                .collect();
            let mut bytes = encode(&layout, stamp, region, 200_000, &written);
            let read = |bytes: &[u8]| entries(&layout, stamp, &footer(&layout, stamp, 2, bytes)?, bytes);
            assert_eq!(read(&bytes), Some(written));
            assert_eq!(footer(&layout, stamp, 3, &bytes), None, "a region misdirected");
            let other = LogLayout { is_numbered: !is_numbered, ..layout };
            assert_eq!(footer(&other, stamp, 2, &bytes), None, "of another kind of log");
            let start = bytes.len() - 100 * layout.entry_bytes() - FOOTER_BYTES;
            for byte in start..bytes.len() {
                bytes[byte] ^= 0x10;
                assert_eq!(read(&bytes), None, "byte {byte}");
                bytes[byte] ^= 0x10;
            }
        }
    }
}
