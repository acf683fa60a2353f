//! What a snapshot says of the segments, behind the index.
//!
//! ```text
//!  0  u64  number of the next record        16  u64  the policy's time
//!  8  u64  place of the newest segment      24  u64  segments that follow
//! then of each segment, 40 bytes, all zero if it is free:
//!  0  u64  one more than where it begins    16  u64  the policy's time when it was begun
//!  8  u64  highest number of its entries    24  u64  bytes of records
//! 32  u32  objects                          36  u8   log      37  u8  1 if it is being written      38  u16  0
//! ```
//!
//! Behind that is what the policy has learned, as [`Generations::save`] has it, where the pages have room for it: in caches with one
//! set for each object they may not. And behind that, of an index on the disk, which records count no more:
//!
//! ```text
//!  0  u64  words that follow                 8  u64  their XXH3
//! 16  for each segment in turn as many u64, one bit for each part of it: something in that part counts no more
//! ```
//!
//! That is optional too. What the pages have beyond it is padding.

use xxhash_rust::xxh3::xxh3_64;

use super::tally::Known;
use crate::layout::take::{take, take_u32, take_u64};
use crate::replace::Generations;
use crate::terms::Place;

const HEADER_BYTES: u64 = 32;
const SEGMENT_BYTES: u64 = 40;

/// Bytes that a ledger of so many segments takes.
pub fn bytes_for(segments: u64) -> u64 {
    HEADER_BYTES + segments * SEGMENT_BYTES
}

/// The same with what the policy has learned.
pub fn bytes_with_learned_for(segments: u64) -> u64 {
    bytes_for(segments) + Generations::saved_bytes(segments) as u64
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Every record so far has a lower number.
    pub next_number: u64,
    /// The segment begun last, by any log.
    pub newest: Place,
    /// The policy's time.
    pub now: u64,
    /// Of each segment what is known, and whether it was being written.
    pub segments: Vec<(Known, bool)>,
    /// What the policy has learned, or padding. Nothing, or too little, if there was no room.
    pub learned: Vec<u8>,
    /// See the module. Nothing if it is not known.
    pub superseded: Vec<u64>,
}

impl Ledger {
    /// As it goes to disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(bytes_for(self.segments.len() as u64) as usize);
        for number in [self.next_number, self.newest.0, self.now, self.segments.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (known, is_current) in &self.segments {
            for number in [known.home, known.last_number, known.born, known.bytes] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&known.objects.to_le_bytes());
            bytes.extend_from_slice(&[known.log, u8::from(*is_current), 0, 0]);
        }
        bytes.extend_from_slice(&self.learned);
        if !self.superseded.is_empty() {
            let learned_bytes = Generations::saved_bytes(self.segments.len() as u64);
            bytes.resize(bytes.len() - self.learned.len() + learned_bytes, 0);
            let words: Vec<u8> = self.superseded.iter().flat_map(|word| word.to_le_bytes()).collect();
            for number in [self.superseded.len() as u64, xxh3_64(&words)] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend(words);
        }
        bytes
    }

    /// Read it back. `None` if these bytes are none for so many segments.
    pub fn decode(mut bytes: &[u8], segments: u64) -> Option<Self> {
        let rest = &mut bytes;
        let (next_number, newest, now) = (take_u64(rest)?, Place(take_u64(rest)?), take_u64(rest)?);
        if take_u64(rest)? != segments {
            return None;
        }
        let mut segment = || {
            let (home, last_number) = (take_u64(rest)?, take_u64(rest)?);
            let (born, bytes, objects) = (take_u64(rest)?, take_u64(rest)?, take_u32(rest)?);
            let [log, is_current, _, _] = take(rest)?;
            Some((Known { home, log, born, objects, bytes, last_number }, is_current != 0))
        };
        let segments: Vec<_> = (0..segments).map(|_| segment()).collect::<Option<_>>()?;
        let learned_bytes = Generations::saved_bytes(segments.len() as u64);
        let (learned, behind) = rest.split_at_checked(learned_bytes).unwrap_or((rest, &[]));
        let superseded = superseded(behind).unwrap_or_default();
        Some(Ledger { next_number, newest, now, segments, learned: learned.to_vec(), superseded })
    }

    /// Where the segment of this number began, unless it was free.
    pub fn home(&self, number: usize) -> Option<Place> {
        self.segments.get(number)?.0.home.checked_sub(1).map(Place)
    }
}

/// The words behind what was learned; `None` if there are none, or they were cut off.
fn superseded(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let (words, sum) = (take_u64(&mut bytes)?, take_u64(&mut bytes)?);
    let bytes = bytes.get(..usize::try_from(words).ok()?.checked_mul(8)?)?;
    let (words, _) = bytes.as_chunks::<8>();
    (xxh3_64(bytes) == sum).then(|| words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 1, as docs/formats/generational.md has it: a change is another version.
    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let known = Known { home: 0x0102_0304, log: 6, born: 77, objects: 9, bytes: 123_456, last_number: 0xABCD };
        let segments = vec![(known, false), (Known::default(), false), (Known { log: 1, ..known }, true)];
        let learned = vec![1, 2, 3];
        let superseded = Vec::new();
        let ledger =
            Ledger { next_number: 0xABCE, newest: Place(1 << 30), now: 1_000_000, segments, learned, superseded };
        let bytes = ledger.encode();
        assert_eq!(bytes.len() as u64, bytes_for(3) + 3);
        let hex: String = bytes.iter().take(72).map(|byte| format!("{byte:02x}")).collect();
        let golden = "ceab000000000000000000400000000040420f00000000000300000000000000\
                      0403020100000000cdab0000000000004d0000000000000040e2010000000000\
                      0900000006000000";
        assert_eq!(hex, golden);
        let learned = [vec![1, 2, 3], vec![0; 99]].concat();
        assert_eq!(Ledger::decode(&[bytes.clone(), vec![0; 99]].concat(), 3), Some(Ledger { learned, ..ledger }));
        assert_eq!(Ledger::decode(&bytes, 4), None);
        assert!((0..bytes.len() - 3).all(|cut| Ledger::decode(&bytes[..cut], 3).is_none()));
    }

    /// Pages may have room for a part of it, and programs from before write zeroes there.
    #[test]
    fn what_counts_no_more_is_read_as_it_was_written_or_not_at_all() {
        let segments = vec![(Known { home: 1, objects: 5, ..Known::default() }, false); 3];
        let learned = vec![7; Generations::saved_bytes(3)];
        let ledger = Ledger { segments, learned, superseded: vec![1, u64::MAX, 0], ..Ledger::default() };
        let bytes = ledger.encode();
        let golden = "03000000000000004b1490412e94bf830100000000000000ffffffffffffffff0000000000000000";
        let from = bytes_with_learned_for(3) as usize;
        let hex: String = bytes.iter().skip(from).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden);
        assert_eq!(Ledger::decode(&[bytes.clone(), vec![0; 99]].concat(), 3), Some(ledger.clone()));
        let none = Ledger { superseded: Vec::new(), ..ledger.clone() };
        for cut in from..bytes.len() {
            assert_eq!(Ledger::decode(&bytes[..cut], 3), Some(none.clone()));
            let padded = [bytes[..cut].to_vec(), vec![0; 99]].concat();
            let is_whole = padded.starts_with(&bytes);
            assert_eq!(Ledger::decode(&padded, 3), Some(if is_whole { ledger.clone() } else { none.clone() }));
        }
    }
}
