//! The first block of a store: what it is, how it is cut, and its secret.
//!
//! ```text
//!  0  [8]  magic "Tinaja\0\0"    32  u64  log begins at    64  u64  slots
//!  8  u32  format version        40  u64  region bytes     72  u64  mean object bytes
//! 12  u16 disk, u16 of disks     48  u64  regions          80  [32] secret
//! 16  [16] engine's name         56  u64  unit            112  u64  checksum of bytes 0 to 111
//! ```
//!
//! Behind it in version 2, which engines with a Disk Table have, whose slots are its bins, and those with more than 8 bits of
//! hash:
//!
//! ```text
//! 128  u32  bytes of a bin, 0 without a table       136  u64  checksum of bytes 0 to 135
//! 132  u8   bins of a set, 0 for as many as its engine has by default
//! 133  u8   bits of hash in the index, 0 for 8       134  u16  0
//! ```
//!
//! All others are of version 1: nothing of theirs has changed. Those with a table were of version 1 while their bins held
//! nothing of a larger object's body, and are refused.

use xxhash_rust::xxh3::xxh3_64;

use super::region::LogLayout;
use super::take::{take, take_u16, take_u32, take_u64};
use crate::index::hash::{HASH_BITS, MOST_HASH_BITS};
use crate::index::limits::MAX_SLOTS;
use crate::terms::Secret;

const MAGIC: [u8; 8] = *b"Tinaja\0\0";

/// The version of everything on disk: with less to say, and with a Disk Table or more bits of hash. Others are refused.
const LOG_VERSION: u32 = 1;
const TABLE_VERSION: u32 = 2;

/// Bytes of the superblock. Snapshots follow, then the log.
pub const SUPERBLOCK_BYTES: u64 = 4096;
const CHECKED_BYTES: usize = 112;
const TABLE_AT: usize = 128;

/// What the superblock says.
#[derive(Clone, Debug)]
pub struct Superblock {
    /// The engine that formatted the store.
    pub engine: String,
    /// How the log is cut. The alignment is the device's.
    pub log: LogLayout,
    /// Index entries.
    pub slots: u64,
    /// The mean object size that the slots were counted by.
    pub mean_object_bytes: u64,
    /// Bytes of a bin; 0 without a Disk Table, or where that does not verify.
    pub block_bytes: u64,
    /// Bins of a set; 0 for as many as the engine has by default, and without a Disk Table.
    pub ways: u32,
    /// Bits of hash in the index, 8 to 16.
    pub hash_bits: u8,
    /// The store's secret, the same on all its disks.
    pub secret: Secret,
    /// Which of the store's disks this is, and how many there are.
    pub disk: (u16, u16),
}

/// Why a superblock is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// The file is something else.
    #[error("is not a Tinaja cache: move it away or choose another directory; it was not touched")]
    NotOurs,
    /// Another version wrote it.
    #[error(
        "has format version {0}, and this program reads versions {LOG_VERSION} and {TABLE_VERSION}: use the program that \
         wrote it, or delete the file and start with an empty cache; it was not touched"
    )]
    OtherVersion(u32),
    /// It has a Disk Table of the version before.
    #[error(
        "has a Disk Table of format version {LOG_VERSION}, and this program reads version {TABLE_VERSION}, whose bins hold \
         the beginning of what does not fit them: use the program that wrote it, or delete the file and start with an \
         empty cache; it was not touched"
    )]
    OldTable,
    /// It was damaged.
    #[error("has a damaged superblock: delete the file to start with an empty cache; it was not touched")]
    Damaged,
}

impl Superblock {
    /// The block as it goes to disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUPERBLOCK_BYTES as usize);
        bytes.extend_from_slice(&MAGIC);
        let says_more = self.block_bytes > 0 || self.hash_bits != HASH_BITS;
        bytes.extend_from_slice(&if says_more { TABLE_VERSION } else { LOG_VERSION }.to_le_bytes());
        bytes.extend_from_slice(&self.disk.0.to_le_bytes());
        bytes.extend_from_slice(&self.disk.1.to_le_bytes());
        let mut name = self.engine.clone().into_bytes();
        name.resize(16, 0);
        bytes.extend_from_slice(&name);
        let log = &self.log;
        for number in [log.base, log.region_bytes, log.regions, log.unit, self.slots, self.mean_object_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(self.secret.bytes());
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        if says_more {
            bytes.resize(TABLE_AT, 0);
            bytes.extend_from_slice(&(self.block_bytes as u32).to_le_bytes());
            let hash_bits = if self.hash_bits == HASH_BITS { 0 } else { self.hash_bits };
            bytes.extend_from_slice(&[self.ways as u8, hash_bits, 0, 0]);
            bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        }
        bytes.resize(SUPERBLOCK_BYTES as usize, 0);
        bytes
    }

    /// Read a block on a device with such blocks and so many bytes. Numbers out of range are damage, whatever the
    /// checksum says.
    pub fn decode(bytes: &[u8], block: u64, device_bytes: u64) -> Result<Self, SuperblockError> {
        let mut rest = bytes;
        if take(&mut rest) != Some(MAGIC) {
            return Err(SuperblockError::NotOurs);
        }
        let version = take_u32(&mut rest).ok_or(SuperblockError::Damaged)?;
        if ![LOG_VERSION, TABLE_VERSION].contains(&version) {
            return Err(SuperblockError::OtherVersion(version));
        }
        let bins = Self::bins(bytes);
        Self::fields(rest)
            .filter(|(_, sum)| bytes.get(..CHECKED_BYTES).is_some_and(|checked| xxh3_64(checked) == *sum))
            .and_then(|(found, _)| found.sane(block, device_bytes))
            .ok_or(SuperblockError::Damaged)
            .and_then(|found| match (version, bins) {
                (TABLE_VERSION, None) => Err(SuperblockError::Damaged),
                (LOG_VERSION, Some(_)) => Err(SuperblockError::OldTable),
                (_, None) => Ok(found),
                (_, Some((block_bytes, ways, hash_bits))) => {
                    let hash_bits = if hash_bits == 0 { HASH_BITS } else { hash_bits };
                    let found = Superblock { block_bytes: block_bytes.into(), ways: ways.into(), hash_bits, ..found };
                    Some(found).filter(|_| MOST_HASH_BITS.contains(&hash_bits)).ok_or(SuperblockError::Damaged)
                }
            })
    }

    /// The size of a bin, the number in a set, and the bits of hash.
    fn bins(bytes: &[u8]) -> Option<(u32, u8, u8)> {
        let checked = bytes.get(..TABLE_AT + 8)?;
        let mut rest = bytes.get(TABLE_AT..)?;
        let block_bytes = take_u32(&mut rest)?;
        let [ways, hash_bits, _, _] = take(&mut rest)?;
        (take_u64(&mut rest)? == xxh3_64(checked)).then_some((block_bytes, ways, hash_bits))
    }

    fn fields(mut rest: &[u8]) -> Option<(Superblock, u64)> {
        let rest = &mut rest;
        let disk = (take_u16(rest)?, take_u16(rest)?);
        let name: [u8; 16] = take(rest)?;
        let engine = String::from_utf8(name.into_iter().take_while(|&byte| byte != 0).collect()).ok()?;
        let mut number = || take_u64(rest);
        let (base, region_bytes, regions, unit) = (number()?, number()?, number()?, number()?);
        let (slots, mean_object_bytes) = (number()?, number()?);
        let secret = Secret::from_bytes(take(rest)?);
        let log = LogLayout { base, region_bytes, regions, unit, align: unit };
        let (block_bytes, ways, hash_bits) = (0, 0, HASH_BITS);
        let sum = take_u64(rest)?;
        Some((Superblock { engine, log, slots, mean_object_bytes, block_bytes, ways, hash_bits, secret, disk }, sum))
    }

    fn sane(mut self, block: u64, device_bytes: u64) -> Option<Self> {
        let log = LogLayout::new(self.log.base, self.log.region_bytes.checked_mul(self.log.regions)?, block)?;
        self.log.align = log.align;
        let fits = self.log == log
            && log.base >= SUPERBLOCK_BYTES
            && log.base.is_multiple_of(SUPERBLOCK_BYTES)
            && log.base.checked_add(log.log_bytes())? <= device_bytes
            && self.disk.0 < self.disk.1
            && (1..=MAX_SLOTS).contains(&self.slots);
        fits.then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Superblock {
        let log = LogLayout::new(SUPERBLOCK_BYTES, 64 << 20, 512).unwrap();
        let secret = Secret::from_bytes([3; 32]);
        let engine = "hashcache-log".into();
        let (block_bytes, ways, hash_bits) = (0, 0, 8);
        let (slots, mean_object_bytes) = (8192, 8192);
        Superblock { engine, log, slots, mean_object_bytes, block_bytes, ways, hash_bits, secret, disk: (0, 1) }
    }

    #[test]
    fn what_is_written_is_read() {
        let read = Superblock::decode(&example().encode(), 512, 65 << 20).unwrap();
        assert_eq!((read.engine.as_str(), read.log, read.slots), ("hashcache-log", example().log, 8192));
        assert_eq!(read.secret.bytes(), &[3; 32]);
    }

    #[test]
    fn the_size_of_bins_is_read_as_it_was_written_or_not_at_all() {
        let mut bytes = Superblock { block_bytes: 8192, ways: 4, ..example() }.encode();
        let read = |bytes: &[u8]| Superblock::decode(bytes, 512, 65 << 20).map(|found| (found.block_bytes, found.ways));
        assert_eq!(read(&bytes), Ok((8192, 4)));
        for bit in 120 * 8..144 * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&bytes), Err(SuperblockError::Damaged), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(read(&example().encode()), Ok((0, 0)));
        let bits = |hash_bits| {
            let bytes = Superblock { hash_bits, ..example() }.encode();
            Superblock::decode(&bytes, 512, 65 << 20).map(|found| found.hash_bits)
        };
        (8..=16).for_each(|hash_bits| assert_eq!(bits(hash_bits), Ok(hash_bits)));
        assert_eq!([7, 17, 255].map(bits), [const { Err(SuperblockError::Damaged) }; 3]);
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let mut bytes = example().encode();
        for bit in 0..120 * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&bytes, 512, 65 << 20).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Superblock::decode(&bytes, 512, 1 << 20).unwrap_err(), SuperblockError::Damaged, "a file cut short");
        assert_eq!(Superblock::decode(b"", 512, 0).unwrap_err(), SuperblockError::NotOurs);
        bytes[8] = 9;
        assert_eq!(Superblock::decode(&bytes, 512, 65 << 20).unwrap_err(), SuperblockError::OtherVersion(9));
    }
}
