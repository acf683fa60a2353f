//! What the head of an entry's record says: how long its streams are, and where (Log-structured cache, Figure 4).
//!
//! ```text
//!  0  u32  magic "TjE1": the last character is the version
//!  4  u32  how many streams, 3
//!  8  u64  which version of the entry this is: another number for each
//! 16       for each stream 24 bytes:
//!           0  u64  its bytes
//!           8  u64  the number of the file that it is in; 0: it is in the record's body, behind those before it
//!          16  u64  the sum of that file's end; 0 without a file
//! ```
//!
//! The record itself carries the key, and checksums over all of it: see `docs/formats/backend.md`.

use std::ops::Range;

use tinaja_store::layout::take::{take_u32, take_u64};

use super::error::STREAMS;

const MAGIC: u32 = u32::from_le_bytes(*b"TjE1");

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = 16 + 24 * STREAMS;

/// A stream in a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InFile {
    /// The file's number, never 0.
    pub(super) number: u64,
    /// What its end must sum up to.
    pub(super) sum: u64,
}

/// Where one stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamAt {
    pub(super) bytes: u64,
    pub(super) file: Option<InFile>,
}

/// An entry's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryHead {
    pub(super) version: u64,
    pub(super) streams: [StreamAt; STREAMS],
}

impl EntryHead {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&(STREAMS as u32).to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        for StreamAt { bytes: len, file } in &self.streams {
            let (number, sum) = file.map_or((0, 0), |file| (file.number, file.sum));
            [*len, number, sum].iter().for_each(|field| bytes.extend_from_slice(&field.to_le_bytes()));
        }
        bytes
    }

    /// `None` if it is no such head, or does not fit a body of so many bytes.
    pub(super) fn decode(mut head: &[u8], body_bytes: u64) -> Option<Self> {
        let head = &mut head;
        if (take_u32(head)?, take_u32(head)?) != (MAGIC, STREAMS as u32) {
            return None;
        }
        let version = take_u64(head)?;
        let (mut streams, mut in_body) = ([StreamAt::default(); STREAMS], 0_u64);
        for stream in &mut streams {
            let (bytes, number, sum) = (take_u64(head)?, take_u64(head)?, take_u64(head)?);
            let file = (number != 0).then_some(InFile { number, sum });
            if file.is_none() {
                in_body = in_body.checked_add(bytes).filter(|_| sum == 0)?;
            }
            *stream = StreamAt { bytes, file };
        }
        (head.is_empty() && in_body == body_bytes).then_some(EntryHead { version, streams })
    }

    /// Where in the body each stream lies; an empty range for those that are in files.
    pub(super) fn ranges(&self) -> [Range<u64>; STREAMS] {
        let mut end = 0;
        self.streams.map(|stream| {
            let start = end;
            end += if stream.file.is_some() { 0 } else { stream.bytes };
            start..end
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> EntryHead {
        let file = Some(InFile { number: 77, sum: 0x1122_3344_5566_7788 });
        let at = |bytes, file| StreamAt { bytes, file };
        EntryHead { version: 9, streams: [at(300, None), at(5_000_000_000, file), at(12, None)] }
    }

    #[test]
    fn heads_come_back_and_nonsense_does_not() {
        let bytes = head().encode();
        assert_eq!((bytes.len(), EntryHead::decode(&bytes, 312)), (HEAD_BYTES, Some(head())));
        assert_eq!(head().ranges(), [0..300, 300..300, 300..312]);
        assert_eq!(EntryHead::decode(&bytes, 311), None, "a body of another length");
        assert!((0..HEAD_BYTES).all(|cut| EntryHead::decode(&bytes[..cut], 312).is_none()));
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(EntryHead::decode(&longer, 312), None);
        let mut lying = bytes.clone();
        lying[16..24].fill(0xFF);
        lying[64..72].fill(0xFF);
        assert_eq!(EntryHead::decode(&lying, 310), None, "lengths that pass the last number");
        let mut newer = bytes;
        newer[3] = b'2';
        assert_eq!(EntryHead::decode(&newer, 312), None, "another version");
    }

    /// The bytes on disk: whoever changes them must change the version.
    #[test]
    fn the_bytes_are_those_of_version_1() {
        let hex: String = head().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "546a4531030000000900000000000000\
             2c0100000000000000000000000000000000000000000000\
             00f2052a010000004d000000000000008877665544332211\
             0c0000000000000000000000000000000000000000000000"
        );
    }
}
