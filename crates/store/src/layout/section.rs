//! What engines over a log say in their section of the superblock: how the log is cut, and their index or table.
//!
//! ```text
//!  0  u64  log begins at      24  u64  unit
//!  8  u64  region bytes       32  u64  slots, or bins of a Disk Table
//! 16  u64  regions            40  u64  mean object bytes
//! ```
//!
//! Behind it, for engines with a Disk Table and those with more than 8 bits of hash:
//!
//! ```text
//! 48  u32  bytes of a bin, 0 without a table
//! 52  u8   bins of a set, 0 for as many as its engine has by default
//! 53  u8   bits of hash in the index, 0 for 8       54  u16  0
//! ```

use super::region::LogLayout;
use super::superblock::SUPERBLOCK_BYTES;
use super::take::{take, take_u32, take_u64};
use crate::index::hash::{HASH_BITS, MOST_HASH_BITS};

/// What the section says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSection {
    /// How the log is cut. The alignment is the device's.
    pub log: LogLayout,
    /// Index entries, or bins.
    pub slots: u64,
    /// The mean object size that the slots were counted by.
    pub mean_object_bytes: u64,
    /// Bytes of a bin; 0 without a Disk Table.
    pub block_bytes: u64,
    /// Bins of a set; 0 for as many as the engine has by default, and without a Disk Table.
    pub ways: u32,
    /// Bits of hash in the index, 8 to 16.
    pub hash_bits: u8,
}

impl LogSection {
    /// Of an engine with a log alone and 8 bits of hash.
    pub fn of(log: LogLayout, slots: u64, mean_object_bytes: u64) -> Self {
        LogSection { log, slots, mean_object_bytes, block_bytes: 0, ways: 0, hash_bits: HASH_BITS }
    }

    /// The section as it goes to disk.
    pub fn encode(&self) -> Vec<u8> {
        let LogLayout { base, region_bytes, regions, unit, .. } = self.log;
        let numbers = [base, region_bytes, regions, unit, self.slots, self.mean_object_bytes];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        if self.block_bytes > 0 || self.hash_bits != HASH_BITS {
            bytes.extend_from_slice(&(self.block_bytes as u32).to_le_bytes());
            let hash_bits = if self.hash_bits == HASH_BITS { 0 } else { self.hash_bits };
            bytes.extend_from_slice(&[self.ways as u8, hash_bits, 0, 0]);
        }
        bytes
    }

    /// Read a section of a disk of so many bytes. `None` for numbers out of range: that is damage, whatever a checksum
    /// says.
    pub fn decode(section: &[u8], disk_bytes: u64) -> Option<Self> {
        Self::read(section)?.sane(disk_bytes)
    }

    /// Read a section without a look at whether its numbers fit each other.
    pub fn read(mut section: &[u8]) -> Option<Self> {
        let rest = &mut section;
        let mut number = || take_u64(rest);
        let (base, region_bytes, regions, unit) = (number()?, number()?, number()?, number()?);
        let (slots, mean_object_bytes) = (number()?, number()?);
        let log = LogLayout { base, region_bytes, regions, unit, align: unit, is_numbered: false };
        let found = LogSection::of(log, slots, mean_object_bytes);
        if rest.is_empty() {
            return Some(found);
        }
        let block_bytes = take_u32(rest)?;
        let [ways, hash_bits, _, _] = take(rest)?;
        let hash_bits = if hash_bits == 0 { HASH_BITS } else { hash_bits };
        Some(LogSection { block_bytes: block_bytes.into(), ways: ways.into(), hash_bits, ..found })
    }

    fn sane(mut self, disk_bytes: u64) -> Option<Self> {
        // Blocks of 4 KiB whatever the disk has: a cache may be moved to another one.
        let log = LogLayout::new(self.log.base, self.log.region_bytes.checked_mul(self.log.regions)?, 4096)?;
        self.log.align = log.align;
        let fits = self.log == log
            && log.base >= SUPERBLOCK_BYTES
            && log.base.is_multiple_of(SUPERBLOCK_BYTES)
            && log.base.checked_add(log.log_bytes())? <= disk_bytes
            && MOST_HASH_BITS.contains(&self.hash_bits)
            && (1..=crate::index::limits::MAX_SLOTS).contains(&self.slots);
        fits.then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> LogSection {
        LogSection::of(LogLayout::new(SUPERBLOCK_BYTES, 64 << 20, 4096).unwrap(), 8192, 8192)
    }

    #[test]
    fn what_is_written_is_read() {
        let table = LogSection { block_bytes: 8192, ways: 4, ..example() };
        let hashes = (8..=16).map(|hash_bits| LogSection { hash_bits, ..example() });
        for section in hashes.chain([table]) {
            let bytes = section.encode();
            assert_eq!(bytes.len(), if section == example() { 48 } else { 56 });
            assert_eq!(LogSection::decode(&bytes, 65 << 20), Some(section));
        }
    }

    #[test]
    fn numbers_that_cannot_be_are_damage() {
        let section = |change: &dyn Fn(&mut LogSection)| {
            let mut section = example();
            change(&mut section);
            LogSection::decode(&section.encode(), 65 << 20)
        };
        let refused: [&dyn Fn(&mut LogSection); 6] = [
            &|section| section.log.base = 100,
            &|section| section.log.regions = u64::MAX,
            &|section| section.log.unit += 1,
            &|section| section.slots = 0,
            &|section| section.slots = u64::MAX,
            &|section| section.hash_bits = 17,
        ];
        assert!(refused.into_iter().all(|change| section(change).is_none()));
        let bytes = example().encode();
        assert_eq!(LogSection::decode(&bytes, 1 << 20), None, "a disk cut short");
        assert!((0..48).all(|cut| LogSection::decode(&bytes[..cut], 65 << 20).is_none()));
    }
}
