//! How many bits of an object's digest an index keeps to tell it from others of its set (HashCache, sections 3.3, 4.4).
//!
//! A lookup of what is not there reads the disk for nothing where another object of the set has the same bits: with 8 bits
//! and eight ways for one in 32 of them, and half as often with each bit more.

use std::ops::RangeInclusive;

/// How many there are where nothing else is said: the paper's.
pub const HASH_BITS: u8 = 8;
/// How many there may be.
pub const MOST_HASH_BITS: RangeInclusive<u8> = HASH_BITS..=16;

/// A number for this one of 48 bits at the most that is spread over 64 bits, and another one for each: one multiplication, whose high
/// half is spread well, and that half over the low one. Enough for sets and filters; in memory only.
#[inline]
pub fn scatter(number: u64) -> u64 {
    let number = number.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number ^ number >> 32
}

/// So many bits of an object, from [`crate::Digest::low`]: the lowest, which choose no set.
pub fn hash(id_low: u64, bits: u8) -> u16 {
    (id_low & ((1 << bits) - 1)) as u16
}
