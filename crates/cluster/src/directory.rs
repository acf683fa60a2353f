//! What a home knows of the objects whose home it is: who has copies of each, and which of them counts.
//!
//! One copy of each object is its primary, and is what the key-table lists. All others are redundant, and their holders are told so (3.2 looks for redundant
//! copies "systematically" and does not say how). Only redundant copies go first, so no two nodes drop the last two copies of an object, each for the
//! other's sake.
//!
//! Pure state and its changes: what holders are to be told is returned ([`Tell`]).

use crate::arena::Arena;
use crate::limits::{BUCKET_ENTRIES, MAX_COPIES};
use crate::members::NodeId;
use crate::slots::{SlotKey, Where};
use crate::table::{Listed, Seen, Table, bucket_of};

/// A copy that a node says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Where it has it.
    pub at: Where,
    /// Which version: the same for all copies of one store, and another for the next.
    pub version: u64,
    /// How it came by it.
    pub by: Came,
}

/// How a node came by what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// From an origin; so much had happened to its bucket before it asked. Whatever others have is older.
    Stored(Seen),
    /// From another node, which keeps it or not.
    Copied {
        /// What had happened to its bucket when it was found, if it was looked for.
        seen: Option<Seen>,
        /// Whose copy it is listed instead of, and that copy's generation: it was moved.
        instead_of: Option<(NodeId, u64)>,
    },
    /// It has it for longer than this home has been its home.
    Before,
}

/// What a holder is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Whether another copy counts, and the one of this generation may go first.
    Redundant(SlotKey, u64, bool),
    /// To drop the copy of this generation: it is not valid any more, or there is no room to list it.
    Forget(SlotKey, u64),
}

struct Entry {
    key: SlotKey,
    version: u64,
    bytes: u32,
    /// The primary first.
    copies: Vec<Listed>,
}

struct Bucket {
    seen: Seen,
    /// The one that has changed last is at the end.
    entries: Vec<Entry>,
}

/// See the module. Memory: some 100 bytes an object, and 24 a copy; there are eight objects a bucket at most.
pub struct Directory<A> {
    table: Table<A>,
    buckets: Vec<Bucket>,
    /// Objects that had to go because their bucket was full.
    pub overflows: u64,
}

impl<A: Arena> Directory<A> {
    /// An empty one that is published in this table. `first` is what has happened so far: another number than any other home's, so that what was seen there
    /// is not taken for what was seen here.
    pub fn of(table: Table<A>, first: Seen) -> Directory<A> {
        let buckets = (0..table.buckets()).map(|_| Bucket { seen: first, entries: Vec::new() }).collect();
        let directory = Directory { table, buckets, overflows: 0 };
        (0..directory.buckets.len()).for_each(|number| directory.publish(number));
        directory
    }

    /// Where an object is, as [`crate::table::look_up`].
    pub fn look_up(&self, key: &SlotKey) -> (Seen, Option<Listed>) {
        let Some(bucket) = self.buckets.get(self.number(key)) else { return (Seen::default(), None) };
        let entry = bucket.entries.iter().find(|entry| entry.key == *key);
        (bucket.seen, entry.and_then(|entry| entry.copies.first().copied()))
    }

    fn number(&self, key: &SlotKey) -> usize {
        bucket_of(key, self.table.buckets()) as usize
    }

    /// A node has a copy. What is to be told, and whom.
    pub fn add(&mut self, node: NodeId, key: &SlotKey, holding: Holding) -> Vec<(NodeId, Tell)> {
        let number = self.number(key);
        let Some(bucket) = self.buckets.get_mut(number) else {
            return vec![(node, Tell::Forget(*key, holding.at.generation))];
        };
        let mut tell = Vec::new();
        let known = bucket.entries.iter().position(|entry| entry.key == *key);
        let is_same = known.and_then(|at| bucket.entries.get(at)).map(|entry| entry.version == holding.version);
        let is_welcome = match holding.by {
            Came::Stored(seen) => bucket.seen.is_as_valid_as(seen),
            Came::Copied { seen, .. } => is_same.unwrap_or(Some(bucket.seen) == seen),
            Came::Before => is_same.unwrap_or(true),
        };
        if let (Came::Before, Some(at), false) = (holding.by, known, is_welcome) {
            // Which is newer, nobody knows.
            let other = bucket.entries.remove(at);
            tell.extend(other.copies.iter().map(|copy| (copy.node, Tell::Forget(*key, copy.at.generation))));
            self.publish(number);
        }
        let Some(bucket) = self.buckets.get_mut(number).filter(|_| is_welcome) else {
            tell.push((node, Tell::Forget(*key, holding.at.generation)));
            return tell;
        };
        let mut entry = match known {
            Some(at) => bucket.entries.remove(at),
            None => Entry { key: *key, version: holding.version, bytes: holding.at.bytes, copies: Vec::new() },
        };
        if let Came::Stored(_) = holding.by {
            bucket.seen.stored();
            let older = entry.copies.drain(..).filter(|copy| copy.node != node);
            tell.extend(older.map(|copy| (copy.node, Tell::Forget(*key, copy.at.generation))));
            (entry.version, entry.bytes) = (holding.version, holding.at.bytes);
        }
        let listed = Listed { node, at: holding.at, version: holding.version };
        let own = entry.copies.iter().position(|copy| copy.node == node);
        let place = match holding.by {
            Came::Copied { instead_of: Some((from, generation)), .. } => {
                let is_moved = |copy: &Listed| copy.node == from && copy.at.generation == generation;
                entry.copies.iter().position(is_moved).or(own)
            }
            _ => own,
        };
        // Of its own and the one that was moved to it, the first stays, so that no third copy comes to count without being told.
        let first = place.into_iter().chain(own).min();
        let second = place.into_iter().chain(own).max().filter(|second| Some(*second) != first);
        match first.and_then(|at| entry.copies.get_mut(at)) {
            Some(copy) => *copy = listed,
            None => entry.copies.push(listed),
        }
        let place = first.unwrap_or(entry.copies.len() - 1);
        if let Some(second) = second {
            entry.copies.remove(second);
        }
        // It takes what it has got for the one that counts, unless it has had it before.
        if place > 0 || own.is_some() {
            let counts = entry.copies.first() == Some(&listed);
            tell.push((node, Tell::Redundant(*key, holding.at.generation, !counts)));
        }
        if let Some(copy) = entry.copies.get(MAX_COPIES) {
            tell.push((copy.node, Tell::Forget(*key, copy.at.generation)));
        }
        entry.copies.truncate(MAX_COPIES);
        bucket.entries.push(entry);
        if bucket.entries.len() > BUCKET_ENTRIES {
            self.overflows += 1;
            let oldest = bucket.entries.remove(0);
            tell.extend(oldest.copies.iter().map(|copy| (copy.node, Tell::Forget(oldest.key, copy.at.generation))));
        }
        self.publish(number);
        tell
    }

    /// A node has its copy no longer: the one of this generation.
    pub fn remove(&mut self, node: NodeId, key: &SlotKey, generation: u64) -> Vec<(NodeId, Tell)> {
        self.change(key, |entry| entry.copies.retain(|copy| copy.node != node || copy.at.generation != generation))
    }

    /// A key is not valid any more.
    pub fn invalidate(&mut self, key: &SlotKey) {
        let number = self.number(key);
        let Some(bucket) = self.buckets.get_mut(number) else { return };
        bucket.seen.invalidated();
        bucket.entries.retain(|entry| entry.key != *key);
        self.publish(number);
    }

    /// These nodes are gone, and their copies with them.
    pub fn without(&mut self, gone: &[NodeId]) -> Vec<(NodeId, Tell)> {
        let listed = self.buckets.iter().flat_map(|bucket| &bucket.entries);
        let keys: Vec<SlotKey> = listed
            .filter(|entry| entry.copies.iter().any(|copy| gone.contains(&copy.node)))
            .map(|entry| entry.key)
            .collect();
        keys.iter()
            .flat_map(|key| self.change(key, |entry| entry.copies.retain(|copy| !gone.contains(&copy.node))))
            .collect()
    }

    /// Keep those keys alone: of the others this is the home no longer.
    pub fn retain(&mut self, mut is_own: impl FnMut(&SlotKey) -> bool) {
        for number in 0..self.buckets.len() {
            let Some(bucket) = self.buckets.get_mut(number) else { continue };
            let before = bucket.entries.len();
            bucket.entries.retain(|entry| is_own(&entry.key));
            if bucket.entries.len() != before {
                self.publish(number);
            }
        }
    }

    /// Objects that are listed, and bytes of all copies beyond the first of each.
    pub fn listed(&self) -> (u64, u64) {
        let entries = self.buckets.iter().flat_map(|bucket| &bucket.entries);
        entries.fold((0, 0), |(objects, bytes), entry| {
            let more = entry.copies.len().saturating_sub(1) as u64;
            (objects + 1, bytes + more * u64::from(entry.bytes))
        })
    }

    /// Change an entry; it goes with its last copy, and the next one is primary if the first has gone.
    fn change(&mut self, key: &SlotKey, change: impl FnOnce(&mut Entry)) -> Vec<(NodeId, Tell)> {
        let number = self.number(key);
        let Some(bucket) = self.buckets.get_mut(number) else { return Vec::new() };
        let Some(entry) = bucket.entries.iter_mut().find(|entry| entry.key == *key) else { return Vec::new() };
        let before = entry.copies.first().copied();
        change(entry);
        let after = entry.copies.first().copied();
        bucket.entries.retain(|entry| !entry.copies.is_empty());
        self.publish(number);
        let promoted = after.filter(|_| after != before);
        promoted.map(|copy| (copy.node, Tell::Redundant(*key, copy.at.generation, false))).into_iter().collect()
    }

    fn publish(&self, number: usize) {
        let Some(bucket) = self.buckets.get(number) else { return };
        let first = |entry: &Entry| Some((entry.key, *entry.copies.first()?));
        let entries: Vec<(SlotKey, Listed)> = bucket.entries.iter().filter_map(first).collect();
        self.table.publish(u32::try_from(number).unwrap_or(u32::MAX), bucket.seen, &entries);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::table::{BUCKET_BYTES, look_up};

    const KEY: SlotKey = [7; 16];
    const OTHER: SlotKey = [8; 16];

    fn directory() -> Directory<Vec<AtomicU64>> {
        Directory::of(Table::over((0..BUCKET_BYTES / 8).map(|_| AtomicU64::new(0)).collect(), 42, 0), Seen(0))
    }

    fn at(generation: u64) -> Where {
        Where { slot: 1, bytes: 100, generation }
    }

    fn stored(generation: u64, version: u64, seen: Seen) -> Holding {
        Holding { at: at(generation), version, by: Came::Stored(seen) }
    }

    fn copied(generation: u64, version: u64, seen: Seen) -> Holding {
        Holding { at: at(generation), version, by: Came::Copied { seen: Some(seen), instead_of: None } }
    }

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn primary(directory: &Directory<Vec<AtomicU64>>) -> Option<NodeId> {
        let (seen, listed) = directory.look_up(&KEY);
        assert_eq!(
            look_up(&directory.table.copy(0), &KEY, 42),
            Ok((seen, listed)),
            "what is published is what is known"
        );
        listed.map(|listed| listed.node)
    }

    #[test]
    fn the_first_copy_counts_and_the_next_one_when_it_goes() {
        let mut directory = directory();
        assert_eq!(directory.add(A, &KEY, stored(2, 1, Seen(0))), vec![]);
        let (seen, _) = directory.look_up(&KEY);
        assert_eq!(directory.add(B, &KEY, copied(4, 1, seen)), vec![(B, Tell::Redundant(KEY, 4, true))]);
        assert_eq!((primary(&directory), directory.listed()), (Some(A), (1, 100)));
        assert_eq!(directory.remove(A, &KEY, 8), vec![], "of an older generation");
        assert_eq!(directory.remove(A, &KEY, 2), vec![(B, Tell::Redundant(KEY, 4, false))]);
        assert_eq!((primary(&directory), directory.listed()), (Some(B), (1, 0)));
        assert_eq!(directory.without(&[B, C]), vec![]);
        assert_eq!((primary(&directory), directory.listed()), (None, (0, 0)));
    }

    #[test]
    fn what_is_moved_counts_where_it_comes_to() {
        let mut directory = directory();
        directory.add(A, &KEY, stored(2, 1, Seen(0)));
        let (seen, _) = directory.look_up(&KEY);
        directory.add(C, &KEY, copied(8, 1, seen));
        let moved =
            |from| Holding { at: at(4), version: 1, by: Came::Copied { seen: None, instead_of: Some((from, 2)) } };
        assert_eq!(directory.add(B, &KEY, moved(A)), vec![]);
        assert_eq!((primary(&directory), directory.listed()), (Some(B), (1, 100)));
        assert_eq!(directory.add(A, &KEY, moved(B)), vec![(A, Tell::Redundant(KEY, 4, true))], "B has another by now");
        directory.without(&[A, B, C]);
        assert_eq!(directory.add(B, &KEY, moved(A)), vec![(B, Tell::Forget(KEY, 4))], "it is not known any more");
    }

    /// A node that has a copy already takes over the other's part.
    #[test]
    fn what_is_moved_to_where_it_is_already_is_one_copy_less() {
        let mut directory = directory();
        directory.add(A, &KEY, stored(2, 1, Seen(0)));
        let (seen, _) = directory.look_up(&KEY);
        directory.add(C, &KEY, copied(8, 1, seen));
        directory.add(B, &KEY, copied(4, 1, seen));
        let taken = Holding { at: at(4), version: 1, by: Came::Copied { seen: None, instead_of: Some((A, 2)) } };
        assert_eq!(directory.add(B, &KEY, taken), vec![(B, Tell::Redundant(KEY, 4, false))]);
        assert_eq!((primary(&directory), directory.listed()), (Some(B), (1, 100)));
        let taken = Holding { at: at(4), version: 1, by: Came::Copied { seen: None, instead_of: Some((C, 8)) } };
        assert_eq!(directory.add(B, &KEY, taken), vec![(B, Tell::Redundant(KEY, 4, false))]);
        assert_eq!(directory.listed(), (1, 0));
    }

    #[test]
    fn a_newer_version_voids_all_older_copies() {
        let mut directory = directory();
        directory.add(A, &KEY, stored(2, 1, Seen(0)));
        let (seen, _) = directory.look_up(&KEY);
        directory.add(B, &KEY, copied(4, 1, seen));
        let tell = directory.add(C, &KEY, stored(6, 2, seen));
        assert_eq!(tell, vec![(A, Tell::Forget(KEY, 2)), (B, Tell::Forget(KEY, 4))]);
        assert_eq!(primary(&directory), Some(C));
        let late = copied(8, 1, seen);
        assert_eq!(directory.add(A, &KEY, late), vec![(A, Tell::Forget(KEY, 8))], "a copy of the older one comes late");
        directory.remove(C, &KEY, 6);
        assert_eq!(
            directory.add(A, &KEY, late),
            vec![(A, Tell::Forget(KEY, 8))],
            "and later than the newer one has gone"
        );
        assert_eq!(primary(&directory), None);
    }

    #[test]
    fn what_was_fetched_before_an_invalidation_is_not_listed_after_it() {
        let mut directory = directory();
        let (before, _) = directory.look_up(&KEY);
        directory.invalidate(&KEY);
        assert_eq!(directory.add(A, &KEY, stored(2, 1, before)), vec![(A, Tell::Forget(KEY, 2))]);
        let (after, _) = directory.look_up(&KEY);
        assert_eq!(directory.add(A, &KEY, stored(2, 1, after)), vec![]);
        assert_eq!(directory.add(B, &OTHER, stored(2, 2, after)), vec![], "another object of the bucket, meanwhile");
        directory.invalidate(&KEY);
        assert_eq!(primary(&directory), None);
        assert!(directory.look_up(&OTHER).1.is_some());
    }

    #[test]
    fn a_full_bucket_forgets_what_changed_first() {
        let mut directory = directory();
        for n in 0..9 {
            let tell = directory.add(NodeId(n.into()), &[n; 16], stored(2, n.into(), Seen(0)));
            assert_eq!(tell, if n < 8 { vec![] } else { vec![(NodeId(0), Tell::Forget([0; 16], 2))] });
        }
        assert_eq!((directory.overflows, directory.listed().0), (1, 8));
        directory.retain(|key| key[0] % 2 == 0);
        assert_eq!(directory.listed().0, 4);
    }

    #[test]
    fn copies_are_bounded() {
        let mut directory = directory();
        directory.add(A, &KEY, stored(2, 1, Seen(0)));
        let (seen, _) = directory.look_up(&KEY);
        for n in 0..100 {
            let tell = directory.add(NodeId(100 + n), &KEY, copied(2, 1, seen));
            let is_listed = n + 1 < MAX_COPIES as u64;
            assert_eq!(tell.contains(&(NodeId(100 + n), Tell::Forget(KEY, 2))), !is_listed);
        }
        assert_eq!(directory.listed(), (1, 6300));
    }

    /// A home that has begun anew knows nothing, and takes everybody's word.
    #[test]
    fn a_new_home_is_told_what_there_is() {
        let mut directory = directory();
        let before = |generation, version| Holding { at: at(generation), version, by: Came::Before };
        assert_eq!(directory.add(A, &KEY, before(2, 1)), vec![]);
        assert_eq!(directory.add(B, &KEY, before(4, 1)), vec![(B, Tell::Redundant(KEY, 4, true))]);
        assert_eq!(directory.add(A, &KEY, before(2, 1)), vec![(A, Tell::Redundant(KEY, 2, false))], "again");
        assert_eq!(directory.listed(), (1, 100));
        let forget = |node, generation| (node, Tell::Forget(KEY, generation));
        let all = vec![forget(A, 2), forget(B, 4), forget(C, 6)];
        assert_eq!(directory.add(C, &KEY, before(6, 2)), all, "which is newer, nobody knows");
        assert_eq!(directory.listed(), (0, 0));
    }
}
