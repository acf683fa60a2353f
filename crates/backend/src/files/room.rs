//! Which files there are, how much they take, and who leaves.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::limits::MAX_STREAM_FILES;

/// The files that have their lasting names. Memory: about 150 bytes for each.
#[derive(Default)]
pub(super) struct Room {
    /// Bytes taken or reserved, those of files that are being written included.
    pub(super) taken: u64,
    /// Written since the last sync.
    pub(super) unsynced: Vec<u64>,
    /// Replaced, and kept until what replaced them lasts.
    pub(super) leaving: VecDeque<u64>,
    /// In the order in which they came: number and bytes.
    by_age: BTreeMap<u64, (u64, u64)>,
    ages: HashMap<u64, u64>,
    next_age: u64,
}

impl Room {
    /// A file whose bytes were taken already; gives those that leave because there are too many.
    pub(super) fn add(&mut self, number: u64, bytes: u64) -> Vec<u64> {
        self.next_age += 1;
        self.by_age.insert(self.next_age, (number, bytes));
        self.ages.insert(number, self.next_age);
        self.unsynced.push(number);
        let mut evicted = Vec::new();
        while self.by_age.len() > MAX_STREAM_FILES {
            evicted.extend(self.evict());
        }
        evicted
    }

    /// Take the file out that is to leave first: one that was replaced, or else the oldest. `None` if there is none.
    pub(super) fn evict(&mut self) -> Option<u64> {
        while let Some(number) = self.leaving.pop_front() {
            if self.remove(number) {
                return Some(number);
            }
        }
        let (number, _) = *self.by_age.first_key_value()?.1;
        self.remove(number).then_some(number)
    }

    /// Take a file out; false if it was not there.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        let Some((_, bytes)) = self.ages.remove(&number).and_then(|age| self.by_age.remove(&age)) else {
            return false;
        };
        self.taken = self.taken.saturating_sub(bytes);
        self.unsynced.retain(|other| *other != number);
        self.leaving.retain(|other| *other != number);
        true
    }

    /// It leaves first from now on.
    pub(super) fn leave(&mut self, number: u64) {
        if self.ages.contains_key(&number) && !self.leaving.contains(&number) {
            self.leaving.push_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replaced_leave_before_the_oldest_and_bytes_add_up() {
        let mut room = Room { taken: 60, ..Room::default() };
        for number in 1..=3 {
            assert!(room.add(number, 20).is_empty());
        }
        room.leave(2);
        room.leave(2);
        room.leave(9);
        assert_eq!((room.evict(), room.evict(), room.taken), (Some(2), Some(1), 20));
        assert!(room.remove(3) && !room.remove(3));
        assert_eq!((room.evict(), room.taken, room.unsynced.len(), room.leaving.len()), (None, 0, 0, 0));
    }

    #[test]
    fn there_are_never_too_many() {
        let mut room = Room::default();
        let evicted: Vec<_> = (0..MAX_STREAM_FILES as u64 + 2).flat_map(|number| room.add(number, 0)).collect();
        assert_eq!(evicted, [0, 1]);
    }
}
