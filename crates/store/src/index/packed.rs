//! Numbers of a few bits each, packed without gaps into bytes.

/// A field of up to 64 bits inside slots that follow each other without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bits before the field inside its slot.
    pub shift: usize,
    /// Bits of the field.
    pub bits: usize,
}

impl Field {
    /// The value in slot `slot` of slots of `slot_bits`; 0 outside `bytes`.
    #[inline]
    pub fn get(&self, bytes: &[u8], slot_bits: usize, slot: usize) -> u64 {
        let at = slot * slot_bits + self.shift;
        match self.is_wide() {
            true => (load_wide(bytes, at / 8) >> (at % 8)) as u64 & self.mask(),
            false => (load(bytes, at / 8) >> (at % 8)) & self.mask(),
        }
    }

    /// Set the value; bits beyond the field are dropped, and nothing happens outside `bytes`.
    #[inline]
    pub fn set(&self, bytes: &mut [u8], slot_bits: usize, slot: usize, value: u64) {
        let at = slot * slot_bits + self.shift;
        if self.is_wide() {
            let mask = u128::from(self.mask()) << (at % 8);
            let word = (load_wide(bytes, at / 8) & !mask) | ((u128::from(value) << (at % 8)) & mask);
            bytes.iter_mut().skip(at / 8).zip(word.to_le_bytes()).take(9).for_each(|(byte, new)| *byte = new);
            return;
        }
        let word = load(bytes, at / 8);
        let mask = self.mask() << (at % 8);
        let word = (word & !mask) | ((value << (at % 8)) & mask);
        let tail = bytes.get_mut(at / 8..).unwrap_or_default();
        match tail.first_chunk_mut::<8>() {
            Some(to) => *to = word.to_le_bytes(),
            None => tail.iter_mut().zip(word.to_le_bytes()).for_each(|(byte, new)| *byte = new),
        }
    }

    #[inline]
    fn mask(&self) -> u64 {
        if self.bits == 0 { 0 } else { u64::MAX >> (64 - self.bits.min(64)) }
    }

    /// Whether it may lie in nine bytes.
    #[inline]
    fn is_wide(&self) -> bool {
        self.bits > 57
    }
}

/// Nine bytes from `at`, zeroes past the end.
#[inline]
fn load_wide(bytes: &[u8], at: usize) -> u128 {
    u128::from(load(bytes, at)) | u128::from(bytes.get(at + 8).copied().unwrap_or(0)) << 64
}

/// Eight bytes from `at`, zeroes past the end.
#[inline]
fn load(bytes: &[u8], at: usize) -> u64 {
    let tail = bytes.get(at..).unwrap_or_default();
    match tail.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        // Of the last eight bytes it is what is behind the others: one load in the place of one for each byte.
        None => match bytes.last_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word).checked_shr(beyond(tail.len())).unwrap_or(0),
            None => tail.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        },
    }
}

/// Bits that the last eight bytes have before the last so many of them.
#[inline]
fn beyond(bytes: usize) -> u32 {
    64 - 8 * bytes.min(8) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Fields of neighbouring slots never disturb each other, at any width.
        #[test]
        fn fields_keep_to_themselves(
            widths in proptest::collection::vec(1..=64_usize, 1..5),
            writes in proptest::collection::vec((0..8_usize, 0..5_usize, any::<u64>()), 0..60),
        ) {
            let slot_bits: usize = widths.iter().sum();
            let mut shift = 0;
            let fields: Vec<_> = widths.iter().map(|&bits| { shift += bits; Field { shift: shift - bits, bits } }).collect();
            let mut bytes = vec![0; (slot_bits * 8).div_ceil(8)];
            let mut model = vec![vec![0; fields.len()]; 8];
            for (slot, field, value) in writes {
                let field = field % fields.len();
                fields[field].set(&mut bytes, slot_bits, slot, value);
                model[slot][field] = value & fields[field].mask();
            }
            for (slot, values) in model.iter().enumerate() {
                for (field, value) in fields.iter().zip(values) {
                    prop_assert_eq!(field.get(&bytes, slot_bits, slot), *value);
                }
            }
        }
    }
}
