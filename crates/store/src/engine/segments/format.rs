//! The 46 bits of a slot, and a set of eight of them.
//!
//! ```text
//! bits 0-11 fingerprint | 12-13 hits, 3 = three or more | 14-45 position in the log / unit, all ones = empty
//! ```
//!
//! An empty slot remembers what has left it: the fingerprint, and instead of hits for how much longer, 0 = no more.

use crate::index::Field;

/// Slots of a set.
pub const WAYS: usize = 8;
/// Bits of a slot: 12 + 2 + 32. A set of eight has as many bytes.
pub const SLOT_BITS: usize = 46;
/// The most hits that a slot counts.
pub const MOST_HITS: u8 = 3;

const SLOT: Field = Field { shift: 0, bits: SLOT_BITS };
const FINGERPRINT: Field = Field { shift: 0, bits: 12 };
const HITS: Field = Field { shift: 12, bits: 2 };
const POSITION: Field = Field { shift: 14, bits: 32 };
const EMPTY: u64 = u32::MAX as u64;

/// The bits of a digest that a slot keeps: none of those that chose the set.
pub fn fingerprint(id_low: u64) -> u16 {
    (id_low & 0xFFF) as u16
}

/// One slot, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// See [`fingerprint`].
    pub fingerprint: u16,
    /// How often it was asked for since it was written, up to [`MOST_HITS`]. In an empty slot: how many rounds of
    /// [`super::Index::age`] longer it remembers what has left it.
    pub hits: u8,
    /// Where on the log it lies, in units; `None` if the slot is empty.
    pub position: Option<u32>,
}

impl Slot {
    /// The slot once its object has left, which it remembers.
    pub fn left(self) -> Slot {
        Slot { hits: MOST_HITS, position: None, ..self }
    }

    /// The slot once its object was removed, which it does not remember.
    pub fn removed(self) -> Slot {
        Slot { hits: 0, position: None, ..self }
    }

    /// Whether it is empty and remembers an object of this fingerprint.
    pub fn remembers(&self, fingerprint: u16) -> bool {
        self.position.is_none() && self.hits > 0 && self.fingerprint == fingerprint
    }
}

/// A set of packed slots.
pub struct Set<'a>(pub &'a mut [u8]);

/// The slots of the two sets that an object may be in; only those of the first if there is no other. Ways 8 to 15 are the other's.
pub struct Sets<'a>(pub Set<'a>, pub Set<'a>);

impl Sets<'_> {
    /// How many ways there are: 8 or 16.
    pub fn ways(&self) -> usize {
        if self.1.0.is_empty() { WAYS } else { 2 * WAYS }
    }

    /// The slot in a way.
    pub fn get(&self, way: usize) -> Slot {
        if way < WAYS { self.0.get(way) } else { self.1.get(way - WAYS) }
    }

    /// Replace a slot.
    pub fn put(&mut self, way: usize, slot: Slot) {
        if way < WAYS { self.0.put(way, slot) } else { self.1.put(way - WAYS, slot) }
    }

    /// The ways with this fingerprint and their slots, those of the first set first.
    #[inline]
    pub fn of(&self, fingerprint: u16) -> impl Iterator<Item = (usize, Slot)> + '_ {
        let other = self.1.of(fingerprint).map(|(way, slot)| (WAYS + way, slot));
        self.0.of(fingerprint).chain(other)
    }

    /// The empty ways and their slots, those of the first set first.
    #[inline]
    pub fn empties(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        let other = self.1.empties().map(|(way, slot)| (WAYS + way, slot));
        self.0.empties().chain(other)
    }

    /// Every way with its slot.
    pub fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        (0..self.ways()).map(|way| (way, self.get(way)))
    }

    /// The slot for an object of this fingerprint: its own, most likely an older version's, or the one that it had left; else a free one,
    /// where more are free; else that of what is worth least, and true.
    pub fn room_for<W: Ord>(&self, fingerprint: u16, worth: impl Fn(&Slot) -> W) -> (Option<(usize, Slot)>, bool) {
        let same = || self.of(fingerprint).find(|(_, slot)| slot.position.is_some());
        let own = || self.of(fingerprint).find(|(_, slot)| slot.remembers(fingerprint));
        match same().or_else(own).or_else(|| self.free()) {
            Some(found) => (Some(found), false),
            None => (self.slots().min_by_key(|(_, slot)| worth(slot)), true),
        }
    }

    /// A free slot, of the set that has more of them: one that remembers nothing, or has long remembered what it does.
    fn free(&self) -> Option<(usize, Slot)> {
        let mut found: [(usize, Option<(usize, Slot)>); 2] = [(0, None); 2];
        for (way, slot) in self.empties() {
            let [first, other] = &mut found;
            let (count, best) = if way < WAYS { first } else { other };
            *count += 1;
            if best.is_none_or(|(_, best)| slot.hits < best.hits) {
                *best = Some((way, slot));
            }
        }
        let [(of_first, first), (of_other, other)] = found;
        if of_first >= of_other { first } else { other }
    }
}

impl Set<'_> {
    /// An empty set.
    pub fn empty() -> Vec<u8> {
        let mut bytes = vec![0; SLOT_BITS];
        let mut set = Set(&mut bytes);
        (0..WAYS).for_each(|way| set.put(way, Slot { fingerprint: 0, hits: 0, position: None }));
        bytes
    }

    /// The slot in way 0 to 7.
    pub fn get(&self, way: usize) -> Slot {
        let bits = SLOT.get(self.0, SLOT_BITS, way);
        let position = bits >> 14 & EMPTY;
        Slot {
            fingerprint: (bits & 0xFFF) as u16,
            hits: (bits >> 12 & 3) as u8,
            position: (position != EMPTY).then_some(position as u32),
        }
    }

    /// Replace a slot.
    pub fn put(&mut self, way: usize, slot: Slot) {
        let position = slot.position.map_or(EMPTY, u64::from);
        let bits = u64::from(slot.fingerprint & 0xFFF) | u64::from(slot.hits & 3) << 12 | position << 14;
        SLOT.set(self.0, SLOT_BITS, way, bits);
    }

    /// What empty slots remember is a round older.
    pub fn age(&mut self) {
        let Some(bytes) = self.0.first_chunk_mut::<SLOT_BITS>() else { return };
        for way in 0..WAYS {
            let slot = SLOT.get(bytes, SLOT_BITS, way);
            if slot >> POSITION.shift == EMPTY && slot >> HITS.shift & u64::from(MOST_HITS) > 0 {
                SLOT.set(bytes, SLOT_BITS, way, slot - (1 << HITS.shift));
            }
        }
    }

    /// The ways with this fingerprint and their slots. Nearly every lookup of what is absent ends here.
    #[inline]
    pub fn of(&self, fingerprint: u16) -> impl Iterator<Item = (usize, Slot)> + '_ {
        self.with(FINGERPRINT, fingerprint.into())
    }

    /// The empty ways and their slots.
    #[inline]
    pub fn empties(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        self.with(POSITION, EMPTY)
    }

    /// The ways of which a field has this value, and their slots.
    ///
    /// All ways are compared without a branch, in an array of known size, so that each costs a load, a shift and a comparison.
    #[inline]
    fn with(&self, field: Field, value: u64) -> impl Iterator<Item = (usize, Slot)> + '_ {
        let mut same = 0_u8;
        if let Some(bytes) = self.0.first_chunk::<SLOT_BITS>() {
            for way in 0..WAYS {
                same |= u8::from(field.get(bytes, SLOT_BITS, way) == value) << way;
            }
        }
        std::iter::from_fn(move || {
            let way = (same != 0).then(|| same.trailing_zeros() as usize)?;
            same &= same - 1;
            Some((way, self.get(way)))
        })
    }

    /// Every way with its slot.
    pub fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        (0..WAYS).map(|way| (way, self.get(way)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_every_field_in_as_many_bytes_as_a_slot_has_bits() {
        let mut bytes = Set::empty();
        assert_eq!(bytes.len() * 8, SLOT_BITS * WAYS);
        let mut set = Set(&mut bytes);
        assert!(set.slots().all(|(_, slot)| slot.position.is_none()));
        let slot =
            |n: u32| Slot { fingerprint: 0xFFF - n as u16, hits: (n % 4) as u8, position: Some(u32::MAX - 1 - n) };
        (0..8).for_each(|n| set.put(n as usize, slot(n)));
        (0..8).for_each(|n| assert_eq!(set.get(n as usize), slot(n)));
        // Version 1, as docs/formats/segmented.md has it: a change is another version.
        let golden = "ff8fffffffbfffd7ffffffdffff2fffffff3fffbfffffffb";
        let hex: String = set.0.iter().take(24).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden);
        set.put(3, Slot { position: None, ..slot(3) });
        assert_eq!((set.get(2), set.get(3).position, set.get(4)), (slot(2), None, slot(4)));
    }
}
