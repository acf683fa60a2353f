//! The bytes of a stream in a file of its own.
//!
//! ```text
//! the stream, in blocks of 64 KiB, the last shorter
//! u64  for each block its sum
//! end, 56 bytes:
//!   0  u32   magic "TjF1": the last character is the version
//!   4  u32   bytes of a block
//!   8  u64   the file's number
//!  16  [16]  the entry's digest
//!  32  u64   the stream's bytes
//!  40  u64   the sum of the blocks' sums
//!  48  u64   the sum of bytes 0 to 47
//! ```
//!
//! Sums are XXH3-64, seeded with a number made from the store's secret, the file's number and the entry's digest: a file in
//! another's place never verifies. A block's sum counts the block's number in. The last sum is in the entry's record as well,
//! so a file that was once this entry's, and is not any more, does not verify either.

use tinaja_store::Digest;
use tinaja_store::layout::take::{take, take_u32, take_u64};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

const MAGIC: u32 = u32::from_le_bytes(*b"TjF1");

/// Bytes of a block: what is read and checked at once.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// Bytes of a file's end.
pub(super) const END_BYTES: u64 = 56;
const CHECKED_BYTES: usize = 48;

/// What makes sums those of one file.
#[derive(Clone, Copy)]
pub(super) struct Seal {
    pub(super) number: u64,
    pub(super) id: Digest,
    seed: u64,
}

/// A verified end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) bytes: u64,
    sums_sum: u64,
}

/// How many blocks a stream of so many bytes has.
pub(super) fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}

/// Bytes of the file of a stream of so many bytes.
pub(super) fn file_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(8 * blocks(bytes)).saturating_add(END_BYTES)
}

/// The number and digest that the end of a file claims, before either is believed.
pub(super) fn claims(mut end: &[u8]) -> Option<(u64, Digest, u64)> {
    let end = &mut end;
    if (take_u32(end)?, take_u32(end)?) != (MAGIC, BLOCK_BYTES as u32) {
        return None;
    }
    Some((take_u64(end)?, Digest(take(end)?), take_u64(end)?))
}

impl Seal {
    /// Of a file of a store with this seed.
    pub(super) fn new(store_seed: u64, number: u64, id: Digest) -> Self {
        let mut sum = Xxh3::with_seed(store_seed);
        sum.update(b"stream file");
        sum.update(&number.to_le_bytes());
        sum.update(&id.0);
        Seal { number, id, seed: sum.digest() }
    }

    /// The sum of a block.
    pub(super) fn block(&self, index: u64, block: &[u8]) -> u64 {
        let mut sum = Xxh3::with_seed(self.seed);
        sum.update(&index.to_le_bytes());
        sum.update(block);
        sum.digest()
    }

    /// What stands behind the blocks, and its last sum.
    pub(super) fn end(&self, bytes: u64, sums: &[u64]) -> (Vec<u8>, u64) {
        let mut all: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let sums_sum = xxh3_64_with_seed(&all, self.seed);
        let mut end = Vec::with_capacity(END_BYTES as usize);
        end.extend_from_slice(&MAGIC.to_le_bytes());
        end.extend_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
        end.extend_from_slice(&self.number.to_le_bytes());
        end.extend_from_slice(&self.id.0);
        end.extend_from_slice(&bytes.to_le_bytes());
        end.extend_from_slice(&sums_sum.to_le_bytes());
        let sum = xxh3_64_with_seed(&end, self.seed);
        all.append(&mut end);
        all.extend_from_slice(&sum.to_le_bytes());
        (all, sum)
    }

    /// The end of this very file, and its last sum; `None` if this is not it.
    pub(super) fn verify_end(&self, end: &[u8]) -> Option<(End, u64)> {
        let (number, id, bytes) = claims(end)?;
        let (checked, mut rest) = end.split_at_checked(CHECKED_BYTES)?;
        let sums_sum = take_u64(&mut checked.get(40..)?)?;
        let sum = take_u64(&mut rest)?;
        let right =
            rest.is_empty() && (number, id) == (self.number, self.id) && sum == xxh3_64_with_seed(checked, self.seed);
        right.then_some((End { bytes, sums_sum }, sum))
    }

    /// The blocks' sums, if these are they.
    pub(super) fn verify_sums(&self, end: &End, bytes: &[u8]) -> Option<Vec<u64>> {
        let (sums, []) = bytes.as_chunks::<8>() else { return None };
        let right = sums.len() as u64 == blocks(end.bytes) && xxh3_64_with_seed(bytes, self.seed) == end.sums_sum;
        right.then(|| sums.iter().map(|sum| u64::from_le_bytes(*sum)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_that_of_one_file_and_every_flipped_bit_is_noticed() {
        let seal = Seal::new(5, 77, Digest([3; 16]));
        let sums = [seal.block(0, b"one"), seal.block(1, b"one")];
        assert_ne!(sums[0], sums[1], "the same bytes elsewhere");
        let (bytes, sum) = seal.end(BLOCK_BYTES + 9, &sums);
        let whole = |seal: &Seal, bytes: &[u8]| {
            let (end, sum) = seal.verify_end(bytes.get(16..)?)?;
            Some((end.bytes, seal.verify_sums(&end, bytes.get(..16)?)?, sum))
        };
        assert_eq!(whole(&seal, &bytes), Some((BLOCK_BYTES + 9, sums.to_vec(), sum)));
        for other in [Seal::new(6, 77, seal.id), Seal::new(5, 78, seal.id), Seal::new(5, 77, Digest([4; 16]))] {
            assert_eq!(whole(&other, &bytes), None, "another store, number or entry");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(whole(&seal, &flipped), None, "bit {bit}");
        }
    }

    /// The bytes on disk: whoever changes them must change the version.
    #[test]
    fn the_bytes_are_those_of_version_1() {
        let seal = Seal::new(5, 77, Digest([3; 16]));
        let (bytes, _) = seal.end(3, &[seal.block(0, b"abc")]);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, include_str!("golden-v1.hex").trim());
    }
}
