//! What one node holds: objects in slots that peers read, and the order in which they were used.
//!
//! Victims are the least recently used; the paper leaves it open ("orthogonal"). What is being moved to another node is nobody's victim meanwhile, but is
//! still found.

use std::collections::{BTreeMap, HashMap};

use crate::arena::Arena;
use crate::limits::{BUFFER_SLOTS, MAX_LOOKED_AT};
use crate::scheme::Room;
use crate::slots::{SlotKey, Slots, Taken, Where};

/// An object in a slot.
#[derive(Debug)]
pub struct Held {
    slot: Taken,
    /// Where it is.
    pub at: Where,
    /// Which version of the object.
    pub version: u64,
    is_redundant: bool,
    is_moving: bool,
    used: u64,
}

/// A slot that is reserved, for an object that is to come or on its way to another node.
#[derive(Debug)]
#[must_use]
pub struct Reserved(Taken);

/// See the module. Memory beside the arena: some 190 bytes an object.
pub struct Pool<A> {
    slots: Slots<A>,
    held: HashMap<SlotKey, Held>,
    /// The same by their slots.
    by_slot: BTreeMap<u32, SlotKey>,
    /// By the time of their last use, redundant ones apart; what is being moved is in neither.
    redundant: BTreeMap<u64, SlotKey>,
    others: BTreeMap<u64, SlotKey>,
    buffers: Vec<Taken>,
    uses: u64,
}

impl<A: Arena> Pool<A> {
    /// An empty one. Of the slots, [`BUFFER_SLOTS`] are for objects on their way to other nodes.
    pub fn over(slots: Slots<A>) -> Pool<A> {
        let buffers = (0..BUFFER_SLOTS).map_while(|_| slots.take()).collect();
        let (held, by_slot, redundant, others) = Default::default();
        Pool { slots, held, by_slot, redundant, others, buffers, uses: 0 }
    }

    /// The largest object, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.slots.payload_bytes()
    }

    /// An object, if it is here.
    pub fn get(&self, key: &SlotKey) -> Option<&Held> {
        self.held.get(key)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = (&SlotKey, &Held)> {
        self.held.iter()
    }

    /// Objects in slots from this one on, in their order.
    pub fn from_slot(&self, slot: u32) -> impl Iterator<Item = (u32, &SlotKey)> {
        self.by_slot.range(slot..).map(|(slot, key)| (*slot, key))
    }

    /// The bytes of an object, which is not used by that.
    pub fn peek(&self, key: &SlotKey) -> Option<Vec<u8>> {
        self.held.get(key).map(|held| self.slots.payload(&held.slot, held.at.bytes))
    }

    /// The bytes of an object, which is used by that.
    pub fn read(&mut self, key: &SlotKey) -> Option<Vec<u8>> {
        self.uses += 1;
        let (uses, held) = (self.uses, self.held.get_mut(key)?);
        if !held.is_moving {
            let order = if held.is_redundant { &mut self.redundant } else { &mut self.others };
            order.remove(&held.used);
            order.insert(uses, *key);
        }
        held.used = uses;
        Some(self.slots.payload(&held.slot, held.at.bytes))
    }

    /// What room there is.
    pub fn room(&self) -> Room {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Room {
            free: count(self.slots.free()),
            redundant: count(self.redundant.len()),
            others: count(self.others.len()),
        }
    }

    /// A free slot.
    pub fn reserve(&self) -> Option<Reserved> {
        self.slots.take().map(Reserved)
    }

    /// It was not needed.
    pub fn release(&self, reserved: Reserved) {
        self.slots.give_back(reserved.0);
    }

    /// Put an object into a reserved slot, in the place of whatever is here under its key. `None`, and there is nothing, if it is too long.
    pub fn put(&mut self, reserved: Reserved, key: &SlotKey, payload: &[u8], version: u64) -> Option<Where> {
        self.remove(key);
        let slot = reserved.0;
        let Some(at) = self.fill(&slot, key, payload) else {
            self.slots.give_back(slot);
            return None;
        };
        self.uses += 1;
        let held = Held { slot, at, version, is_redundant: false, is_moving: false, used: self.uses };
        self.others.insert(self.uses, *key);
        self.by_slot.insert(at.slot, *key);
        self.held.insert(*key, held);
        Some(at)
    }

    fn fill(&self, slot: &Taken, key: &SlotKey, payload: &[u8]) -> Option<Where> {
        let bytes = u32::try_from(payload.len()).ok()?;
        let generation = self.slots.put(slot, key, payload)?;
        Some(Where { slot: slot.number(), bytes, generation })
    }

    /// Forget an object; where it was.
    pub fn remove(&mut self, key: &SlotKey) -> Option<Where> {
        let held = self.held.remove(key)?;
        self.order(&held).remove(&held.used);
        self.by_slot.remove(&held.at.slot);
        self.slots.give_back(held.slot);
        Some(held.at)
    }

    fn order(&mut self, held: &Held) -> &mut BTreeMap<u64, SlotKey> {
        if held.is_redundant { &mut self.redundant } else { &mut self.others }
    }

    /// Which redundant copy was not used for the longest time.
    pub fn oldest_redundant(&self) -> Option<SlotKey> {
        self.redundant.first_key_value().map(|(_, key)| *key)
    }

    /// Which object that is not redundant and of such a size was not used for the longest time. Looks at [`MAX_LOOKED_AT`] at most.
    pub fn oldest_other_of(&self, is_fit: impl Fn(u32) -> bool) -> Option<SlotKey> {
        let oldest = self.others.values().take(MAX_LOOKED_AT);
        oldest.copied().find(|key| self.held.get(key).is_some_and(|held| is_fit(held.at.bytes)))
    }

    /// Which object was not used for the longest time, redundant or not.
    pub fn oldest(&self) -> Option<SlotKey> {
        let firsts = [self.redundant.first_key_value(), self.others.first_key_value()];
        firsts.into_iter().flatten().min_by_key(|(used, _)| **used).map(|(_, key)| *key)
    }

    /// Whether another node's copy of an object counts.
    pub fn set_redundant(&mut self, key: &SlotKey, is_redundant: bool) {
        self.change(key, |held| held.is_redundant = is_redundant);
    }

    /// Whether an object is being moved.
    pub fn set_moving(&mut self, key: &SlotKey, is_moving: bool) {
        self.change(key, |held| held.is_moving = is_moving);
    }

    fn change(&mut self, key: &SlotKey, change: impl FnOnce(&mut Held)) {
        let Some(held) = self.held.get_mut(key) else { return };
        let order = if held.is_redundant { &mut self.redundant } else { &mut self.others };
        order.remove(&held.used);
        change(held);
        let order = if held.is_redundant { &mut self.redundant } else { &mut self.others };
        if !held.is_moving {
            order.insert(held.used, *key);
        }
    }

    /// Put an object into a buffer, from which another node will read it. `None` if there is none, or it is too long.
    pub fn lend(&mut self, key: &SlotKey, payload: &[u8]) -> Option<(Reserved, Where)> {
        let slot = self.buffers.pop()?;
        match self.fill(&slot, key, payload) {
            Some(at) => Some((Reserved(slot), at)),
            None => {
                self.buffers.push(slot);
                None
            }
        }
    }

    /// Nobody may read the buffer any more.
    pub fn take_back(&mut self, buffer: Reserved) {
        self.slots.clear(&buffer.0);
        self.buffers.push(buffer.0);
    }

    /// Buffers that are not lent.
    pub fn buffers(&self) -> usize {
        self.buffers.len()
    }
}

impl Held {
    /// Whether another node's copy counts.
    pub fn is_redundant(&self) -> bool {
        self.is_redundant
    }

    /// Whether it is being moved.
    pub fn is_moving(&self) -> bool {
        self.is_moving
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::slots::HEADER_BYTES;

    const SLOTS: usize = BUFFER_SLOTS + 3;

    fn pool() -> Pool<Vec<AtomicU64>> {
        let arena = (0..SLOTS * (HEADER_BYTES + 16) / 8).map(|_| AtomicU64::new(0)).collect();
        Pool::over(Slots::over(arena, 16, 42, 0))
    }

    fn put(pool: &mut Pool<Vec<AtomicU64>>, n: u8) -> Where {
        let slot = pool.reserve().unwrap();
        pool.put(slot, &[n; 16], &[n; 9], n.into()).unwrap()
    }

    #[test]
    fn the_least_recently_used_goes_first_of_each_kind() {
        let mut pool = pool();
        (1..=3).for_each(|n| assert!(put(&mut pool, n).bytes == 9));
        assert_eq!(pool.room(), Room { free: 0, redundant: 0, others: 3 });
        assert_eq!(pool.read(&[1; 16]).unwrap(), [1; 9]);
        assert_eq!((pool.oldest(), pool.oldest_redundant()), (Some([2; 16]), None));
        pool.set_redundant(&[1; 16], true);
        assert_eq!(
            (pool.oldest(), pool.oldest_redundant(), pool.oldest_other_of(|_| true)),
            (Some([2; 16]), Some([1; 16]), Some([2; 16]))
        );
        pool.set_redundant(&[2; 16], true);
        pool.set_redundant(&[1; 16], false);
        assert_eq!(pool.room(), Room { free: 0, redundant: 1, others: 2 });
        assert_eq!(pool.oldest_other_of(|_| true), Some([3; 16]), "its use is remembered");
    }

    #[test]
    fn what_is_being_moved_is_found_and_is_nobodys_victim() {
        let mut pool = pool();
        (1..=2).for_each(|n| assert!(put(&mut pool, n).bytes == 9));
        pool.set_moving(&[1; 16], true);
        assert_eq!((pool.oldest(), pool.room().others), (Some([2; 16]), 1));
        assert!(pool.read(&[1; 16]).is_some());
        pool.set_redundant(&[1; 16], true);
        assert_eq!(pool.room(), Room { free: 1, redundant: 0, others: 1 });
        pool.set_moving(&[1; 16], false);
        assert_eq!(pool.room(), Room { free: 1, redundant: 1, others: 1 });
        pool.set_moving(&[1; 16], true);
        assert!(pool.remove(&[1; 16]).is_some() && pool.get(&[1; 16]).is_none());
        assert_eq!(pool.room(), Room { free: 2, redundant: 0, others: 1 });
    }

    #[test]
    fn an_object_takes_the_place_of_its_older_version() {
        let mut pool = pool();
        let older = put(&mut pool, 1);
        let slot = pool.reserve().unwrap();
        let newer = pool.put(slot, &[1; 16], b"newer", 9).unwrap();
        assert!(older != newer && pool.room() == Room { free: 2, redundant: 0, others: 1 });
        assert_eq!(pool.read(&[1; 16]).unwrap(), b"newer");
        let slot = pool.reserve().unwrap();
        assert_eq!(pool.put(slot, &[1; 16], &[0; 17], 10), None, "too long");
        assert_eq!(pool.room(), Room { free: 3, redundant: 0, others: 0 });
    }

    #[test]
    fn buffers_come_back() {
        let mut pool = pool();
        let lent: Vec<(Reserved, Where)> = std::iter::from_fn(|| pool.lend(&[5; 16], b"on its way")).collect();
        assert_eq!((lent.len(), pool.buffers(), pool.room().free), (BUFFER_SLOTS, 0, 3));
        lent.into_iter().for_each(|(buffer, _)| pool.take_back(buffer));
        assert!(pool.lend(&[5; 16], &[0; 17]).is_none(), "too long");
        assert_eq!(pool.buffers(), BUFFER_SLOTS);
    }
}
