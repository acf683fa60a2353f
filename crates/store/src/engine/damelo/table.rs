//! What a group has: digest -> (page, slot), in memory (section 4).
//!
//! Open addressing over a fixed number of entries, so that a group never takes more memory than it was cut for, and so that
//! a walk has a cursor. An entry says in which life of the page its record was written; when a page is evicted, its entries
//! are stale at once, and are swept out when room is wanted.

use crate::terms::Digest;

/// Where an object lies in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The page.
    pub page: u32,
    /// The slot of it.
    pub slot: u16,
    /// The lowest bits of the page's life when it was written.
    pub life: u16,
    /// When it was written, counted over all groups: the greater is newer.
    pub number: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    id: Digest,
    spot: Spot,
}

const NOTHING: u32 = u32::MAX;
const EMPTY: Entry = Entry { id: Digest([0; 16]), spot: Spot { page: NOTHING, slot: 0, life: 0, number: 0 } };

/// Entries of 32 bytes, a third more than there may be objects.
pub struct Table {
    entries: Box<[Entry]>,
    len: usize,
    most: usize,
}

impl Table {
    /// Room for so many objects.
    pub fn new(most: usize) -> Self {
        Table { entries: vec![EMPTY; most + most / 3 + 8].into(), len: 0, most }
    }

    /// Memory.
    pub fn allocated_bytes(&self) -> u64 {
        size_of_val(&*self.entries) as u64
    }

    /// How many entries may be in it.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Whether it takes no more, stale ones included.
    pub fn is_full(&self) -> bool {
        self.len >= self.most
    }

    fn home(&self, id: &Digest) -> usize {
        ((u128::from(id.high()) * self.entries.len() as u128) >> 64) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.entries.len() { 0 } else { at + 1 }
    }

    /// Where an id is, or the empty entry where it would be.
    fn search(&self, id: &Digest) -> (usize, Option<Spot>) {
        let mut at = self.home(id);
        loop {
            match self.entries.get(at) {
                Some(entry) if entry.spot.page == NOTHING => return (at, None),
                Some(entry) if entry.id == *id => return (at, Some(entry.spot)),
                _ => at = self.after(at),
            }
        }
    }

    /// Where an object lies, be the entry stale or not.
    pub fn get(&self, id: &Digest) -> Option<Spot> {
        self.search(id).1
    }

    /// Say where an object lies. Returns where it lay before. Nothing is done where there is no room ([`Table::is_full`]).
    pub fn insert(&mut self, id: Digest, spot: Spot) -> Option<Spot> {
        let (at, before) = self.search(&id);
        if before.is_none() && self.is_full() {
            return None;
        }
        if let Some(entry) = self.entries.get_mut(at) {
            *entry = Entry { id, spot };
        }
        self.len += usize::from(before.is_none());
        before
    }

    /// Forget an object. Returns where it lay.
    pub fn remove(&mut self, id: &Digest) -> Option<Spot> {
        let (at, before) = self.search(id);
        if before.is_some() {
            self.clear(at);
        }
        before
    }

    /// Empty an entry, and move back those behind it that would not be found any more.
    fn clear(&mut self, mut gap: usize) {
        self.len -= 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let Some(entry) = self.entries.get(at).copied().filter(|entry| entry.spot.page != NOTHING) else { break };
            let size = self.entries.len();
            let from_home = |place: usize| (place + size - self.home(&entry.id)) % size;
            if from_home(gap) <= from_home(at) {
                if let Some(to) = self.entries.get_mut(gap) {
                    *to = entry;
                }
                gap = at;
            }
        }
        if let Some(entry) = self.entries.get_mut(gap) {
            *entry = EMPTY;
        }
    }

    /// Drop the entries that are not to be kept.
    pub fn sweep(&mut self, keep: impl Fn(&Spot) -> bool) {
        let mut at = 0;
        while let Some(entry) = self.entries.get(at) {
            if entry.spot.page != NOTHING && !keep(&entry.spot) {
                // Another one may lie here now.
                self.clear(at);
            } else {
                at += 1;
            }
        }
    }

    /// Entries from a cursor on, with the cursor behind each.
    pub fn from(&self, cursor: usize) -> impl Iterator<Item = (usize, &Digest, Spot)> {
        let rest = self.entries.get(cursor..).unwrap_or_default().iter().enumerate();
        rest.filter(|(_, entry)| entry.spot.page != NOTHING)
            .map(move |(n, entry)| (cursor + n + 1, &entry.id, entry.spot))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn spot(number: u64) -> Spot {
        Spot { page: number as u32 % 7, slot: 1, life: 2, number }
    }

    /// Ids that crowd around a few homes, the last of them at the table's end.
    fn id(n: u8) -> Digest {
        let mut id = [n; 16];
        id[8..].copy_from_slice(&u64::from(n / 4).wrapping_mul(u64::MAX / 63).to_le_bytes());
        Digest(id)
    }

    proptest! {
        #[test]
        fn it_matches_a_map(steps in proptest::collection::vec((0..4_u8, 0..255_u8), 0..400)) {
            let (mut table, mut model) = (Table::new(60), HashMap::new());
            for (n, (what, which)) in steps.into_iter().enumerate() {
                let (id, new) = (id(which), spot(n as u64));
                match what {
                    0 => prop_assert_eq!(table.remove(&id), model.remove(&id)),
                    1 if which < 8 => {
                        table.sweep(|spot| spot.page != u32::from(which % 7));
                        model.retain(|_, spot: &mut Spot| spot.page != u32::from(which % 7));
                    }
                    _ => {
                        let full = model.len() == 60 && !model.contains_key(&id);
                        prop_assert_eq!(table.insert(id, new), if full { None } else { model.insert(id, new) });
                    }
                }
                prop_assert_eq!(table.get(&id), model.get(&id).copied());
                prop_assert_eq!(table.is_full(), model.len() == 60);
            }
            let listed: HashMap<_, _> = table.from(0).map(|(_, id, spot)| (*id, spot)).collect();
            prop_assert_eq!(listed, model);
        }
    }
}
