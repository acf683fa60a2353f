//! Which parts of a range of bytes are free: the smallest that fits is given out, and neighbours grow together again.

use std::collections::{BTreeMap, BTreeSet};

/// Parts begin on multiples of this, and are as long.
const GRAIN: usize = 64;

/// The free parts. Memory: about 100 bytes for each.
#[derive(Default)]
pub struct Room {
    by_place: BTreeMap<usize, usize>,
    by_length: BTreeSet<(usize, usize)>,
}

fn whole(len: usize) -> usize {
    len.div_ceil(GRAIN).max(1) * GRAIN
}

impl Room {
    /// All of `bytes` free.
    pub fn of(bytes: usize) -> Self {
        let mut room = Room::default();
        room.add(0, bytes / GRAIN * GRAIN);
        room
    }

    fn add(&mut self, at: usize, len: usize) {
        if len > 0 {
            self.by_place.insert(at, len);
            self.by_length.insert((len, at));
        }
    }

    fn remove(&mut self, at: usize, len: usize) {
        self.by_place.remove(&at);
        self.by_length.remove(&(len, at));
    }

    /// Room for so many bytes; `None` if no part is so long.
    pub fn take(&mut self, len: usize) -> Option<usize> {
        let len = whole(len);
        let (free, at) = *self.by_length.range((len, 0)..).next()?;
        self.remove(at, free);
        self.add(at + len, free - len);
        Some(at)
    }

    /// Give back what was taken for so many bytes.
    pub fn give(&mut self, mut at: usize, len: usize) {
        let mut len = whole(len);
        let before = self.by_place.range(..at).next_back().map(|(at, len)| (*at, *len));
        if let Some((start, free)) = before.filter(|(start, free)| start + free == at) {
            self.remove(start, free);
            (at, len) = (start, len + free);
        }
        let after = self.by_place.get(&(at + len)).copied();
        if let Some(free) = after {
            self.remove(at + len, free);
            len += free;
        }
        self.add(at, len);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Parts never overlap, and when all are given back the room is whole.
        #[test]
        fn parts_do_not_overlap_and_all_comes_back(steps in proptest::collection::vec((any::<bool>(), 1..20_000_usize), 1..200)) {
            let mut room = Room::of(200_000);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for (gives, len) in steps {
                if gives && !taken.is_empty() {
                    let (at, len) = taken.swap_remove(len % taken.len());
                    room.give(at, len);
                } else if let Some(at) = room.take(len) {
                    prop_assert!(at + len <= 200_000);
                    prop_assert!(taken.iter().all(|(other, its)| at + whole(len) <= *other || other + whole(*its) <= at));
                    taken.push((at, len));
                }
            }
            taken.into_iter().for_each(|(at, len)| room.give(at, len));
            prop_assert_eq!(room.by_place.len(), 1);
            prop_assert!(room.take(200_000 / GRAIN * GRAIN).is_some());
        }
    }
}
