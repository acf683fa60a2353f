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
    #[inline]
    fn unpack(bits: u64) -> Slot {
        let position = bits >> 14 & EMPTY;
        Slot {
            fingerprint: (bits & 0xFFF) as u16,
            hits: (bits >> 12 & 3) as u8,
            position: (position != EMPTY).then_some(position as u32),
        }
    }

    #[inline]
    fn pack(self) -> u64 {
        let position = self.position.map_or(EMPTY, u64::from);
        u64::from(self.fingerprint & 0xFFF) | u64::from(self.hits & 3) << 12 | position << 14
    }

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

/// All slots of a set. Which bits are whose is known when this is compiled, so that each costs a load and two shifts.
#[inline]
fn packed(set: &[u8; SLOT_BITS]) -> [u64; WAYS] {
    std::array::from_fn(|way| SLOT.get(set, SLOT_BITS, way))
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

    /// The ways with this fingerprint and their slots, those of the first set first. Nearly every lookup of what is absent ends here: all
    /// are compared at once, and whoever asks twice clones this.
    #[inline]
    pub fn of(&self, fingerprint: u16) -> impl Iterator<Item = (usize, Slot)> + Clone + '_ {
        let wanted = fingerprint.into();
        let mut same =
            u16::from(self.0.same(FINGERPRINT, wanted)) | u16::from(self.1.same(FINGERPRINT, wanted)) << WAYS;
        std::iter::from_fn(move || {
            let way = (same != 0).then(|| same.trailing_zeros() as usize)?;
            same &= same - 1;
            Some((way, self.get(way)))
        })
    }

    /// Every way with its slot.
    pub fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        (0..self.ways()).map(|way| (way, self.get(way)))
    }

    /// The slot for an object of this fingerprint: its own, most likely an older version's, or the one that it had left; else a free one,
    /// where more are free; else that of what is worth least, and true.
    pub fn room_for<W: Ord>(&self, fingerprint: u16, worth: impl Fn(&Slot) -> W) -> (Option<(usize, Slot)>, bool) {
        let ours = self.of(fingerprint);
        let same = ours.clone().find(|(_, slot)| slot.position.is_some());
        let own = || ours.clone().find(|(_, slot)| slot.remembers(fingerprint));
        match same.or_else(own).or_else(|| self.free()) {
            Some(found) => (Some(found), false),
            None => (self.slots().min_by_key(|(_, slot)| worth(slot)), true),
        }
    }

    /// A free slot, of the set that has more of them: one that remembers nothing, or has long remembered what it does.
    fn free(&self) -> Option<(usize, Slot)> {
        let [first, other] = [&self.0, &self.1].map(|set| set.same(POSITION, EMPTY));
        let is_first = first.count_ones() >= other.count_ones();
        let (set, empty, before) = if is_first { (&self.0, first, 0) } else { (&self.1, other, WAYS) };
        // Nearly all sets have one that remembers nothing.
        let remembers = |hits: u8| empty & set.same(HITS, hits.into());
        let found = (0..=MOST_HITS).map(remembers).find(|ways| *ways != 0)?;
        let way = before + found.trailing_zeros() as usize;
        Some((way, self.get(way)))
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
        Slot::unpack(SLOT.get(self.0, SLOT_BITS, way))
    }

    /// Replace a slot.
    pub fn put(&mut self, way: usize, slot: Slot) {
        SLOT.set(self.0, SLOT_BITS, way, slot.pack());
    }

    /// Every slot that leads somewhere; it becomes another one where `into` says so.
    #[inline]
    pub fn each(&mut self, mut into: impl FnMut(Slot) -> Option<Slot>) {
        let Some(bytes) = self.0.first_chunk_mut::<SLOT_BITS>() else { return };
        for (way, slot) in packed(bytes).into_iter().enumerate() {
            let slot = Slot::unpack(slot);
            if slot.position.is_some()
                && let Some(becomes) = into(slot)
            {
                SLOT.set(bytes, SLOT_BITS, way, becomes.pack());
            }
        }
    }

    /// What empty slots remember is a round older.
    pub fn age(&mut self) {
        let Some(bytes) = self.0.first_chunk_mut::<SLOT_BITS>() else { return };
        for (way, slot) in packed(bytes).into_iter().enumerate() {
            if slot >> POSITION.shift == EMPTY && slot >> HITS.shift & u64::from(MOST_HITS) > 0 {
                SLOT.set(bytes, SLOT_BITS, way, slot - (1 << HITS.shift));
            }
        }
    }

    /// The ways of which a field has this value, a bit for each. They are compared without a branch, in an array of known size, so that each
    /// costs a load, a shift and a comparison.
    #[inline]
    fn same(&self, field: Field, value: u64) -> u8 {
        let mut same = 0;
        if let Some(bytes) = self.0.first_chunk::<SLOT_BITS>() {
            for way in 0..WAYS {
                same |= u8::from(field.get(bytes, SLOT_BITS, way) == value) << way;
            }
        }
        same
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
