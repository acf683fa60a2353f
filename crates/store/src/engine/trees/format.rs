//! A file of an object: the parts of a long body, the record, and an end that says where the record begins.
//!
//! ```text
//!  0            parts of a long body, each a record of its own (kind 3); all of one length but the last
//!  ..           the object's record: as in `layout/record`, with this file's place
//!  size - 40    u32 "TjF1"   u32 record's bytes   u64 bytes of the parts   u64 place   u64 serial number   u64 checksum
//! ```
//!
//! A new head of an object with a long body is a new record and a new end behind the old one. Should the power go while they
//! are written, the end before them is looked for. Numbers are little-endian, and the checksum is XXH3 of the 32 bytes before it,
//! seeded with the store's secret.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::layout::Stamp;
use crate::layout::record::{self, HEADER_BYTES, Header};
use crate::layout::take::{take, take_u32, take_u64};
use crate::terms::{Digest, Place, Record};

pub(super) const MAGIC: &[u8; 4] = b"TjF1";
const CHECKED_BYTES: usize = 32;

/// Bytes of a file's end.
pub(super) const END_BYTES: usize = 40;

/// Bits of a place that number what is in a file.
const WITHIN_BITS: u32 = 20;
/// The first number of a record; those below are parts'.
const RECORDS: u64 = 0xF_0000;
/// The largest number of a file.
pub(super) const LAST_FILE: u64 = (1 << (56 - WITHIN_BITS)) - 1;
/// Parts that a body may have.
pub(super) const MAX_PARTS: u64 = RECORDS;

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// A part of the body, from 0.
    Part(u64),
    /// The record, after so many new heads.
    Record(u64),
}

/// The place of something in a file; `None` where there are too many.
pub(super) fn place(file: u64, within: Within) -> Option<Place> {
    let number = match within {
        Within::Part(part) => Some(part).filter(|part| *part < RECORDS)?,
        Within::Record(version) => RECORDS.checked_add(version).filter(|number| *number < 1 << WITHIN_BITS)?,
    };
    (file <= LAST_FILE).then_some(Place(file << WITHIN_BITS | number))
}

/// The file of a place, and what is there.
pub(super) fn within(place: Place) -> (u64, Within) {
    let number = place.0 & ((1 << WITHIN_BITS) - 1);
    let within = if number < RECORDS { Within::Part(number) } else { Within::Record(number - RECORDS) };
    (place.0 >> WITHIN_BITS, within)
}

/// A record in bytes, as it lies in its file.
pub(super) fn encode(stamp: Stamp, record: &Record<'_>, place: Place, payload_sum: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(record::record_bytes(record)? + END_BYTES);
    bytes.resize(record::record_bytes(record)?, 0);
    stamp.write(record, place, (0, None), payload_sum, &mut bytes);
    Some(bytes)
}

/// The end of a file.
pub(super) fn end(stamp: Stamp, says: End) -> [u8; END_BYTES] {
    let End { record_bytes, parts_bytes, place, serial } = says;
    let mut end = [0; END_BYTES];
    let (checked, sum) = end.split_at_mut(CHECKED_BYTES);
    let fields = [
        &MAGIC[..],
        &record_bytes.to_le_bytes(),
        &parts_bytes.to_le_bytes(),
        &place.0.to_le_bytes(),
        &serial.to_le_bytes(),
    ];
    fields.concat().iter().zip(&mut *checked).for_each(|(from, to)| *to = *from);
    sum.copy_from_slice(&xxh3_64_with_seed(checked, stamp.seed).to_le_bytes());
    end
}

/// What a file's end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Of the record, which lies before it.
    pub record_bytes: u32,
    /// Of the parts, from the first byte on.
    pub parts_bytes: u64,
    pub place: Place,
    /// Of two files of one object the one with the larger number is the newer version.
    pub serial: u64,
}

/// The end that lies in these 40 bytes.
pub(super) fn read_end(stamp: Stamp, bytes: &[u8]) -> Option<End> {
    let (checked, sum) = bytes.split_at_checked(CHECKED_BYTES)?;
    let rest = &mut &*checked;
    let magic: [u8; 4] = take(rest)?;
    let (record_bytes, parts_bytes, place) = (take_u32(rest)?, take_u64(rest)?, Place(take_u64(rest)?));
    let serial = take_u64(rest)?;
    let sum: [u8; 8] = sum.try_into().ok()?;
    let whole = magic == *MAGIC && u64::from_le_bytes(sum) == xxh3_64_with_seed(checked, stamp.seed);
    whole.then_some(End { record_bytes, parts_bytes, place, serial })
}

/// The record in these bytes, if it was written for this place, and for this object where one is named.
pub(super) fn verified(stamp: Stamp, bytes: &[u8], place: Place, of: Option<&Digest>) -> Option<Header> {
    let header = stamp.header(bytes, place)?;
    let payload = bytes.get(HEADER_BYTES..header.record_bytes())?;
    let is_its = of.is_none_or(|of| *of == header.id);
    (is_its && header.record_bytes() == bytes.len() && stamp.verifies(&header, payload)).then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::Kind;

    #[test]
    fn a_place_says_what_it_is() {
        for (file, what) in [
            (0, Within::Part(0)),
            (7, Within::Part(MAX_PARTS - 1)),
            (LAST_FILE, Within::Record(0)),
            (9, Within::Record(65_535)),
        ] {
            let place = place(file, what).unwrap();
            assert_eq!(within(place), (file, what));
            assert!(place.0 < 1 << 56, "the byte above is the disk's");
        }
        assert_eq!(place(1, Within::Part(MAX_PARTS)), None);
        assert_eq!(place(1, Within::Record(65_536)), None);
        assert_eq!(place(LAST_FILE + 1, Within::Part(0)), None);
    }

    #[test]
    fn every_flipped_bit_of_an_end_is_noticed() {
        let stamp = Stamp { seed: 42 };
        let right = End { record_bytes: 100, parts_bytes: 5000, place: Place(77), serial: 9 };
        let mut bytes = end(stamp, right);
        assert_eq!(read_end(stamp, &bytes), Some(right));
        assert_eq!(read_end(Stamp { seed: 43 }, &bytes), None, "another store's");
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_end(stamp, &bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// The golden file of version 1: what is written today lies where it did.
    #[test]
    fn a_file_lies_as_it_did() {
        let stamp = Stamp { seed: 42 };
        let part =
            Record { id: Digest([7; 16]), kind: Kind::Extent, name: b"", head: b"", body: b"a part", related_bytes: 0 };
        let whole = Record { kind: Kind::Large, name: b"name", head: b"head", body: b"table", ..part };
        let (first, record) = (place(5, Within::Part(0)).unwrap(), place(5, Within::Record(0)).unwrap());
        let mut file = encode(stamp, &part, first, stamp.payload_sum(&part)).unwrap();
        let parts_bytes = file.len() as u64;
        let encoded = encode(stamp, &whole, record, stamp.payload_sum(&whole)).unwrap();
        file.extend_from_slice(&encoded);
        file.extend_from_slice(&end(
            stamp,
            End { record_bytes: encoded.len() as u32, parts_bytes, place: record, serial: 9 },
        ));
        let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, include_str!("golden-file-v1.txt").trim());
        assert!(verified(stamp, &encoded, record, Some(&Digest([7; 16]))).is_some());
        assert!(verified(stamp, &encoded, record, Some(&Digest([8; 16]))).is_none(), "another object's");
        assert!(verified(stamp, &encoded, first, None).is_none(), "another place's");
    }
}
