//! A record on disk: a stamped header, then name, head and body without a gap.
//!
//! ```text
//!  0  u32  opening           16  u64   place (lap and offset)    40  u64  checksum of name, head and body
//!  4  u8   kind              24  [16]  digest                    48  u64  checksum of bytes 0 to 47
//!  5  u8   format version                                        56  name, head, body
//!  6  u16  name length
//!  8  u32  head length
//! 12  u32  body length
//! ```
//!
//! Version 2, in logs that grow at several places at once, has a number more, by which records are told apart that are older
//! and newer: 48 u64 number, 56 u64 checksum of bytes 0 to 55, 64 name, head, body.
//!
//! The opening is a random number of the process that wrote the record. A region is written by one process, so a walk
//! through its records ends where another's begin. Numbers are little-endian. Both checksums are XXH3 seeded with the store's secret, so a record of another store,
//! of an older lap or of another place never verifies.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::take::{take, take_u16, take_u32, take_u64};
use crate::memory::stream;
use crate::terms::{Digest, Kind, Place, Record};

const VERSION: u8 = 1;
/// With a number.
const NUMBERED: u8 = 2;

/// Bytes before a record's name.
pub const HEADER_BYTES: usize = 56;
/// Bytes before the name of a record with a number.
pub const NUMBERED_HEADER_BYTES: usize = HEADER_BYTES + 8;
/// Of a header these are its checksum, at its end.
const SUM_BYTES: usize = 8;

/// What a record is stamped with beside its place.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The store's checksum seed.
    pub seed: u64,
}

/// A verified header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the record is.
    pub kind: Kind,
    /// The object it belongs to.
    pub id: Digest,
    /// Where it lies.
    pub place: Place,
    /// The process that wrote it.
    pub opening: u32,
    /// The later of two records has the higher number; 0 in logs whose places tell that.
    pub number: u64,
    /// Bytes before the name.
    pub header_bytes: usize,
    /// Bytes of name, head and body.
    pub name_bytes: usize,
    /// See [`Header::name_bytes`].
    pub head_bytes: usize,
    /// See [`Header::name_bytes`].
    pub body_bytes: usize,
    /// The checksum of these, wherever the record lies.
    pub payload_sum: u64,
}

impl Header {
    /// Name, head and body together.
    pub fn payload_bytes(&self) -> usize {
        self.name_bytes + self.head_bytes + self.body_bytes
    }

    /// The record to be written again, of which `payload` is name, head and body.
    pub fn again<'a>(&self, payload: &'a [u8]) -> Record<'a> {
        let (name, rest) = payload.split_at_checked(self.name_bytes).unwrap_or_default();
        let (head, body) = rest.split_at_checked(self.head_bytes).unwrap_or_default();
        Record { id: self.id, kind: self.kind, name, head, body, related_bytes: 0 }
    }

    /// The whole record.
    pub fn record_bytes(&self) -> usize {
        self.header_bytes + self.payload_bytes()
    }
}

/// The bytes a record takes; `None` where a length does not fit its field.
pub fn record_bytes(record: &Record<'_>) -> Option<usize> {
    u16::try_from(record.name.len()).ok()?;
    u32::try_from(record.head.len()).ok()?;
    u32::try_from(record.body.len()).ok()?;
    Some(HEADER_BYTES + record.name.len() + record.head.len() + record.body.len())
}

impl Stamp {
    /// The checksum of a record's bytes; computed before the place is known.
    pub fn payload_sum(&self, record: &Record<'_>) -> u64 {
        let mut sum = Xxh3::with_seed(self.seed);
        for part in [record.name, record.head, record.body] {
            sum.update(part);
        }
        sum.digest()
    }

    /// Write a record to the front of `into`, which has room for [`record_bytes`], and for 8 bytes more if it has a number.
    pub fn write(
        &self,
        record: &Record<'_>,
        place: Place,
        (opening, number): (u32, Option<u64>),
        payload_sum: u64,
        into: &mut [u8],
    ) {
        let mut header = [0; NUMBERED_HEADER_BYTES];
        let header_bytes = if number.is_some() { NUMBERED_HEADER_BYTES } else { HEADER_BYTES };
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            if let Some(field) = header.get_mut(at..at + bytes.len()) {
                field.copy_from_slice(bytes);
            }
            at += bytes.len();
        };
        put(&opening.to_le_bytes());
        put(&[record.kind as u8, if number.is_some() { NUMBERED } else { VERSION }]);
        put(&(record.name.len() as u16).to_le_bytes());
        put(&(record.head.len() as u32).to_le_bytes());
        put(&(record.body.len() as u32).to_le_bytes());
        put(&place.0.to_le_bytes());
        put(&record.id.0);
        put(&payload_sum.to_le_bytes());
        number.into_iter().for_each(|number| put(&number.to_le_bytes()));
        let header = header.get_mut(..header_bytes).unwrap_or_default();
        if let Some((checked, sum)) = header.split_last_chunk_mut::<SUM_BYTES>() {
            *sum = xxh3_64_with_seed(checked, self.seed).to_le_bytes();
        }
        let mut rest = into;
        for part in [&*header, record.name, record.head, record.body] {
            let Some((to, after)) = rest.split_at_mut_checked(part.len()) else {
                return;
            };
            stream::copy(to, part);
            rest = after;
        }
    }

    /// The header at the front of `bytes`, if one was written for this very place of this store.
    pub fn header(&self, bytes: &[u8], place: Place) -> Option<Header> {
        let is_numbered = bytes.get(5) == Some(&NUMBERED);
        let header_bytes = if is_numbered { NUMBERED_HEADER_BYTES } else { HEADER_BYTES };
        let checked = bytes.get(..header_bytes - SUM_BYTES)?;
        let mut rest = bytes.get(..header_bytes)?;
        let rest = &mut rest;
        let opening = take_u32(rest)?;
        let [kind, version] = take(rest)?;
        let name_bytes = take_u16(rest)? as usize;
        let head_bytes = take_u32(rest)? as usize;
        let body_bytes = take_u32(rest)? as usize;
        let at = Place(take_u64(rest)?);
        let id = Digest(take(rest)?);
        let payload_sum = take_u64(rest)?;
        let number = if is_numbered { take_u64(rest)? } else { 0 };
        let sum = take_u64(rest)?;
        let is_known = is_numbered || version == VERSION;
        if !is_known || at != place || sum != xxh3_64_with_seed(checked, self.seed) {
            return None;
        }
        let kind = Kind::from_byte(kind)?;
        Some(Header { kind, id, place, opening, number, header_bytes, name_bytes, head_bytes, body_bytes, payload_sum })
    }

    /// The record of a place at the front of `bytes`, verified: its header, and name, head and body together.
    pub fn record<'a>(&self, bytes: &'a [u8], place: Place) -> Option<(Header, &'a [u8])> {
        let header = self.header(bytes, place)?;
        let payload = bytes.get(header.header_bytes..header.record_bytes())?;
        self.verifies(&header, payload).then_some((header, payload))
    }

    /// Whether `payload` is what was written behind this header.
    pub fn verifies(&self, header: &Header, payload: &[u8]) -> bool {
        payload.len() == header.payload_bytes() && xxh3_64_with_seed(payload, self.seed) == header.payload_sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        let stamp = Stamp { seed: 42 };
        let record = Record {
            id: Digest([7; 16]),
            kind: Kind::Whole,
            name: b"name",
            head: b"head",
            body: b"a body of some bytes",
            related_bytes: 0,
        };
        for number in [None, Some(u64::MAX - 1)] {
            let mut bytes = vec![0; record_bytes(&record).unwrap() + if number.is_some() { 8 } else { 0 }];
            let place = Place(4096);
            stamp.write(&record, place, (77, number), stamp.payload_sum(&record), &mut bytes);
            let whole = |bytes: &[u8], place| stamp.record(bytes, place).map(|(header, _)| header);
            let header = whole(&bytes, place).unwrap();
            assert_eq!((header.kind, header.id, header.record_bytes()), (Kind::Whole, Digest([7; 16]), bytes.len()));
            assert_eq!((header.opening, header.number), (77, number.unwrap_or(0)));
            assert_eq!(whole(&bytes, Place(8192)), None, "another place or lap");
            assert!(Stamp { seed: 43 }.header(&bytes, place).is_none(), "another store");
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(whole(&bytes, place), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for cut in 0..bytes.len() {
                assert_eq!(whole(&bytes[..cut], place), None, "cut to {cut}");
            }
        }
    }
}
