//! The first block of a store: what it is, which engine's, its secret, and a section that only the engine reads.
//!
//! ```text
//!  0  [8]  magic "Tinaja\0\0"    32  [48]  the first bytes of the engine's section
//!  8  u32  format version        80  [32]  secret
//! 12  u16 disk, u16 of disks    112  u64   checksum of bytes 0 to 111
//! 16  [16] engine's name
//! ```
//!
//! The version says how long the section is. Version 1: 48 bytes. Version 2: 8 more, at 128, with a checksum of bytes 0 to
//! 135 behind them. Version 3: any length up to [`MAX_SECTION_BYTES`]; none of it lies at 32, where zeros are.
//!
//! ```text
//! 128  u32  bytes of the section        132  the section, and a u64 checksum of all that is before it
//! ```
//!
//! Engines with a Disk Table were of version 1 while their bins held nothing of a larger object's body: such a block has
//! the 8 bytes at 128 as well, and is refused.

use xxhash_rust::xxh3::xxh3_64;

use super::take::{take, take_u16, take_u32, take_u64};
use crate::terms::Secret;

const MAGIC: [u8; 8] = *b"Tinaja\0\0";

/// The version of everything on disk, by how much the engine says of itself. Others are refused.
const SHORT_VERSION: u32 = 1;
const LONGER_VERSION: u32 = 2;
const ANY_VERSION: u32 = 3;

/// Bytes of the superblock. What the engine keeps follows.
pub const SUPERBLOCK_BYTES: u64 = 4096;
/// The longest section of an engine's.
pub const MAX_SECTION_BYTES: usize = 3072;
const SHORT_BYTES: usize = 48;
const LONGER_BYTES: usize = SHORT_BYTES + 8;
const CHECKED_BYTES: usize = 112;
const MORE_AT: usize = 128;

/// What the superblock says.
#[derive(Clone, Debug)]
pub struct Superblock {
    /// The name on disk of the engine that formatted the store.
    pub engine: String,
    /// What the engine says of how the disk is cut: up to [`MAX_SECTION_BYTES`]; what is longer is cut off.
    pub section: Vec<u8>,
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
        "has format version {0}, and this program reads versions {SHORT_VERSION} to {ANY_VERSION}: use the program that \
         wrote it, or delete the file and start with an empty cache; it was not touched"
    )]
    OtherVersion(u32),
    /// It has a Disk Table of the version before.
    #[error(
        "has a Disk Table of format version {SHORT_VERSION}, and this program reads version {LONGER_VERSION}, whose bins hold \
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
        let section = self.section.get(..MAX_SECTION_BYTES).unwrap_or(&self.section);
        let version = match section.len() {
            SHORT_BYTES => SHORT_VERSION,
            LONGER_BYTES => LONGER_VERSION,
            _ => ANY_VERSION,
        };
        let (first, more) = match version {
            ANY_VERSION => (&[0; SHORT_BYTES][..], section),
            _ => section.split_at_checked(SHORT_BYTES).unwrap_or_default(),
        };
        let mut bytes = Vec::with_capacity(SUPERBLOCK_BYTES as usize);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&self.disk.0.to_le_bytes());
        bytes.extend_from_slice(&self.disk.1.to_le_bytes());
        let mut name = self.engine.clone().into_bytes();
        name.resize(16, 0);
        bytes.extend_from_slice(&name);
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(self.secret.bytes());
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        if version != SHORT_VERSION {
            bytes.resize(MORE_AT, 0);
            if version == ANY_VERSION {
                bytes.extend_from_slice(&(more.len() as u32).to_le_bytes());
            }
            bytes.extend_from_slice(more);
            bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        }
        bytes.resize(SUPERBLOCK_BYTES as usize, 0);
        bytes
    }

    /// Read a block. What the section says the engine judges.
    pub fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let mut rest = bytes;
        if take(&mut rest) != Some(MAGIC) {
            return Err(SuperblockError::NotOurs);
        }
        let version = take_u32(&mut rest).ok_or(SuperblockError::Damaged)?;
        if !(SHORT_VERSION..=ANY_VERSION).contains(&version) {
            return Err(SuperblockError::OtherVersion(version));
        }
        let longer = checked(bytes, MORE_AT, LONGER_BYTES - SHORT_BYTES);
        let more = match version {
            SHORT_VERSION => Some(&[][..]),
            LONGER_VERSION => longer,
            _ => any_length(bytes),
        };
        let mut found = fields(rest)
            .filter(|(_, sum)| bytes.get(..CHECKED_BYTES).is_some_and(|checked| xxh3_64(checked) == *sum))
            .map(|(found, _)| found)
            .filter(|found| found.disk.0 < found.disk.1)
            .ok_or(SuperblockError::Damaged)?;
        if version == SHORT_VERSION && longer.is_some() {
            return Err(SuperblockError::OldTable);
        }
        if version == ANY_VERSION {
            found.section.clear();
        }
        found.section.extend_from_slice(more.ok_or(SuperblockError::Damaged)?);
        Ok(found)
    }
}

/// So many bytes from `at` on, if the checksum behind them is that of all before it.
fn checked(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    let end = at.checked_add(len)?;
    let sum = bytes.get(end..)?.first_chunk()?;
    (xxh3_64(bytes.get(..end)?) == u64::from_le_bytes(*sum)).then(|| bytes.get(at..end)).flatten()
}

fn any_length(bytes: &[u8]) -> Option<&[u8]> {
    let len = u32::from_le_bytes(*bytes.get(MORE_AT..)?.first_chunk()?) as usize;
    checked(bytes, MORE_AT, 4 + len.min(MAX_SECTION_BYTES))?.get(4..)
}

fn fields(mut rest: &[u8]) -> Option<(Superblock, u64)> {
    let rest = &mut rest;
    let disk = (take_u16(rest)?, take_u16(rest)?);
    let name: [u8; 16] = take(rest)?;
    let engine = String::from_utf8(name.into_iter().take_while(|&byte| byte != 0).collect()).ok()?;
    let section: [u8; SHORT_BYTES] = take(rest)?;
    let secret = Secret::from_bytes(take(rest)?);
    Some((Superblock { engine, section: section.to_vec(), secret, disk }, take_u64(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(section_bytes: usize) -> Superblock {
        let section = (0..section_bytes).map(|n| n as u8).collect();
        Superblock { engine: "hashcache-log".into(), section, secret: Secret::from_bytes([3; 32]), disk: (0, 1) }
    }

    #[test]
    fn what_is_written_is_read() {
        for (section_bytes, version) in [(48, 1), (56, 2), (0, 3), (1, 3), (47, 3), (57, 3), (MAX_SECTION_BYTES, 3)] {
            let written = example(section_bytes);
            let bytes = written.encode();
            assert_eq!((bytes.len() as u64, bytes[8]), (SUPERBLOCK_BYTES, version), "{section_bytes}");
            let read = Superblock::decode(&bytes).unwrap();
            assert_eq!((read.engine.as_str(), &read.section), ("hashcache-log", &written.section));
            assert_eq!((read.secret.bytes(), read.disk), (&[3; 32], (0, 1)));
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        for section_bytes in [48, 56, 200] {
            let mut bytes = example(section_bytes).encode();
            let more = match section_bytes {
                48 => 0..0,
                56 => 128..144,
                _ => 128..128 + 4 + 200 + 8,
            };
            for bit in (0..120 * 8).chain(more.start * 8..more.end * 8) {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(Superblock::decode(&bytes).is_err(), "bit {bit} of {section_bytes}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let mut bytes = example(48).encode();
        assert_eq!(Superblock::decode(b"").unwrap_err(), SuperblockError::NotOurs);
        bytes[8] = 9;
        assert_eq!(Superblock::decode(&bytes).unwrap_err(), SuperblockError::OtherVersion(9));
    }

    #[test]
    fn a_table_of_the_version_before_is_known_by_what_it_has_more() {
        let mut bytes = example(56).encode();
        bytes[8] = 1;
        let sum = xxh3_64(&bytes[..112]);
        bytes[112..120].copy_from_slice(&sum.to_le_bytes());
        let sum = xxh3_64(&bytes[..136]);
        bytes[136..144].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Superblock::decode(&bytes).unwrap_err(), SuperblockError::OldTable);
    }
}
