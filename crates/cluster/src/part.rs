//! A part of memory, as memory of its own.

use std::sync::atomic::AtomicU64;

use crate::arena::Arena;

const WORD: u64 = size_of::<u64>() as u64;

/// So many bytes of an arena, from a byte on, in whole words; what lies outside is left out.
pub struct Part<A> {
    arena: A,
    from: usize,
    words: usize,
}

impl<A: Arena> Part<A> {
    /// This part of it.
    pub fn of(arena: A, at: u64, bytes: u64) -> Part<A> {
        let words = |bytes: u64| usize::try_from(bytes / WORD).unwrap_or(usize::MAX);
        let from = words(at).min(arena.words().len());
        let words = words(bytes).min(arena.words().len() - from);
        Part { arena, from, words }
    }
}

impl<A: Arena> Arena for Part<A> {
    fn words(&self) -> &[AtomicU64] {
        self.arena.words().get(self.from..self.from + self.words).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_inside_whatever_is_asked_for() {
        let arena = || (0..10).map(AtomicU64::new).collect::<Vec<_>>();
        let first = |part: &Part<Vec<AtomicU64>>| {
            part.words().first().map(|word| word.load(std::sync::atomic::Ordering::Relaxed))
        };
        let part = Part::of(arena(), 16, 24);
        assert_eq!((part.words().len(), first(&part)), (3, Some(2)));
        for (at, bytes, words) in [(0, 80, 10), (72, 800, 1), (80, 8, 0), (u64::MAX, u64::MAX, 0), (0, 7, 0)] {
            assert_eq!(Part::of(arena(), at, bytes).words().len(), words, "{bytes} from {at}");
        }
    }
}
