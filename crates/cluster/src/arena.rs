//! Memory as words.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();

/// Memory that this process changes by whole words, and that others may read at any time.
pub trait Arena: Send + Sync {
    /// All of it. The same words each time.
    fn words(&self) -> &[AtomicU64];
}

impl Arena for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

impl Arena for Vec<AtomicU64> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

impl<A: Arena + ?Sized> Arena for std::sync::Arc<A> {
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }
}

/// Write bytes, a word at a time, from the first word on; the last word is filled up with zeros. What there is no room for is left out. Who reads meanwhile may
/// see any of the words changed and any not.
pub fn write(words: &[AtomicU64], bytes: &[u8]) {
    // Whole words apart: a word that is put together from single bytes takes as long as eight of them.
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if let Some(word) = words.get(whole.len()).filter(|_| !rest.is_empty()) {
        word.store(word_of(rest), Ordering::Relaxed);
    }
}

/// A copy of words, in their order.
pub fn copy(words: &[AtomicU64]) -> Vec<u8> {
    // Collected as words and seen as bytes: a vector that is extended by each word's bytes looks for room each time.
    let words: Vec<[u8; WORD]> = words.iter().map(|word| word.load(Ordering::Acquire).to_le_bytes()).collect();
    words.into_flattened()
}

/// Up to eight bytes as a word, filled up with zeros.
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    let mut whole = [0; WORD];
    whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_copied_whatever_its_length_and_nothing_else_changes() {
        for bytes in 0..=33 {
            let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(u64::MAX)).collect();
            let written: Vec<u8> = (1..=bytes).collect();
            write(&words, &written);
            let mut expected = written;
            expected.resize(expected.len().next_multiple_of(WORD), 0);
            expected.resize(32, 0xFF);
            assert_eq!(copy(&words), expected, "{bytes} bytes");
        }
        assert!(copy(&[]).is_empty());
    }
}
