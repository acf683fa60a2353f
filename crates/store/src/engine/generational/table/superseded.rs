//! Where records lie that count no more, though their segments are there still: what was replaced, removed, or lost its slot.
//!
//! The table says which record of an object counts, and the log does not. So that what lies beside a record can be entered without
//! asking the table, each segment has a few bits, one for each part of it: set when something in that part counts no more.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::layout::LogLayout;

/// A part of a segment, if a segment is large enough for that.
const PART_BYTES: u64 = 32 << 10;
/// Parts of a segment are at the least so many: a word of bits.
const WORD: u64 = 64;

/// See the module. Memory: 8 to 32 bytes a segment.
pub struct Superseded {
    /// Places of a segment, and of a part.
    units: (u64, u64),
    words_each: usize,
    words: Box<[AtomicU64]>,
}

impl Superseded {
    /// Of a log cut so. Everything counts.
    pub fn new(layout: &LogLayout) -> Self {
        let words_each = (layout.region_bytes / PART_BYTES).div_ceil(WORD).max(1);
        let units = layout.region_bytes / layout.unit;
        let units = (units, (units / (words_each * WORD)).max(1));
        let words = (0..layout.regions * words_each).map(|_| AtomicU64::new(0)).collect();
        Superseded { units, words_each: words_each as usize, words }
    }

    fn at(&self, position: u32) -> Option<(&AtomicU64, u64)> {
        let (in_segment, in_part) = self.units;
        let (segment, part) = (u64::from(position) / in_segment, u64::from(position) % in_segment / in_part);
        let word = self.words_of(segment as usize).nth((part / WORD) as usize)?;
        Some((word, 1 << (part % WORD)))
    }

    /// The record at a position counts no more.
    pub fn note(&self, position: u32) {
        if let Some((word, bit)) = self.at(position) {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// Whether all records near a position count.
    pub fn is_none_near(&self, position: u32) -> bool {
        self.at(position).is_some_and(|(word, bit)| word.load(SeqCst) & bit == 0)
    }

    fn words_of(&self, segment: usize) -> impl Iterator<Item = &AtomicU64> {
        self.words.iter().skip(segment * self.words_each).take(self.words_each)
    }

    /// It is not known which records of a segment count.
    pub fn suspect(&self, segment: usize) {
        self.words_of(segment).for_each(|word| word.store(u64::MAX, SeqCst));
    }

    /// All bits, to be saved.
    pub fn save(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(SeqCst)).collect()
    }

    /// The bits of a segment are as they were saved; whether they are among these.
    pub fn recall(&self, segment: usize, saved: &[u64]) -> bool {
        let from = segment * self.words_each;
        let saved = saved.get(from..from + self.words_each).filter(|_| saved.len() == self.words.len());
        let pairs = self.words_of(segment).zip(saved.unwrap_or_default());
        pairs.for_each(|(word, saved)| word.store(*saved, SeqCst));
        saved.is_some()
    }

    /// The same of all segments.
    pub fn suspect_all(&self) {
        self.words.iter().for_each(|word| word.store(u64::MAX, SeqCst));
    }

    /// A segment is free: what will be written to it counts.
    pub fn freed(&self, segment: usize) {
        self.words_of(segment).for_each(|word| word.store(0, SeqCst));
    }

    /// Bytes of memory.
    pub fn allocated_bytes(&self) -> u64 {
        (self.words.len() * size_of::<AtomicU64>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_it_is_suspected_with_it() {
        let of = |disk, parts, words| (LogLayout::new(0, disk, 4096).unwrap(), parts, words);
        // Of 256 TiB a part would be less than what a position counts.
        let huge = LogLayout { unit: 64 << 10, regions: 4, ..of(4 << 30, 0, 0).0 };
        for (layout, parts, words_each) in
            [of(16 << 20, 64, 1), of(256 << 20, 128, 2), of(4 << 30, 256, 4), of(1 << 40, 256, 4), (huge, 128, 4)]
        {
            let superseded = Superseded::new(&layout);
            let units = (layout.region_bytes / layout.unit) as u32;
            let part = units / parts;
            assert_eq!(superseded.words_each, words_each, "{layout:?}");
            // In the second segment.
            let at = units + part * 5;
            superseded.note(at + part / 2);
            let spoilt = (0..units * 3).step_by(part as usize).filter(|at| !superseded.is_none_near(*at));
            assert_eq!(spoilt.collect::<Vec<_>>(), [at], "{layout:?}");
            assert!(superseded.is_none_near(at - 1) && superseded.is_none_near(at + part));
            superseded.freed(0);
            assert!(!superseded.is_none_near(at));
            superseded.freed(1);
            assert!(superseded.is_none_near(at));
            superseded.suspect(1);
            assert!(superseded.is_none_near(units - 1) && superseded.is_none_near(units * 2));
            assert!(!superseded.is_none_near(units) && !superseded.is_none_near(units * 2 - 1));
            let again = Superseded::new(&layout);
            let saved = superseded.save();
            assert!(!again.recall(1, &saved[1..]) && again.recall(0, &saved) && again.recall(1, &saved));
            assert_eq!(again.save(), saved);
            superseded.suspect_all();
            assert!(!superseded.is_none_near(0));
            let last = (layout.regions * u64::from(units) - 1) as u32;
            assert!(!superseded.is_none_near(last));
        }
    }
}
