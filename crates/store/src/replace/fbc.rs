//! Frequency-based cyclic replacement, FBC (Maltzahn, Richardson, Grunwald, USENIX 1999, section 3.6): a pointer goes round and
//! takes the first item that was not asked for often.

use std::collections::{BTreeMap, BTreeSet};

/// The paper's Cmax: an item with so many references is passed over.
pub const CMAX: u32 = 3;
/// The paper's Amax: when the mean of all counts is above, all are halved.
pub const AMAX: u32 = 100;

/// Items by position, each in a class; a victim comes from a class. Memory: some 48 bytes an item.
pub struct Fbc<T> {
    rings: Vec<Ring<T>>,
    cmax: u32,
    amax: u32,
    sum: u64,
    len: u64,
    agings: u64,
}

struct Ring<T> {
    items: BTreeMap<u32, (T, u32)>,
    /// Positions of the items that may go: those below Cmax. So that none has to be passed over one by one.
    low: BTreeSet<u32>,
    /// Where the search goes on.
    pointer: u32,
}

impl<T: Copy> Fbc<T> {
    /// Empty, with so many classes.
    pub fn new(classes: usize, cmax: u32, amax: u32) -> Fbc<T> {
        let ring = || Ring { items: BTreeMap::new(), low: BTreeSet::new(), pointer: 0 };
        Fbc { rings: (0..classes).map(|_| ring()).collect(), cmax, amax, sum: 0, len: 0, agings: 0 }
    }

    /// How often all counts were halved.
    pub fn agings(&self) -> u64 {
        self.agings
    }

    /// The mean of all counts; 0 if there are none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.len.max(1) as f64
    }

    /// Items in all classes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Add an item at a position, with a count of one. What is there already goes.
    pub fn insert(&mut self, class: usize, at: u32, item: T) {
        self.remove(class, at);
        let Some(ring) = self.rings.get_mut(class) else { return };
        ring.items.insert(at, (item, 1));
        if self.cmax > 1 {
            ring.low.insert(at);
        }
        (self.sum, self.len) = (self.sum + 1, self.len + 1);
    }

    /// An item was asked for. When the mean passes Amax, each count is halved and rounded up: one that is there has at least
    /// one.
    pub fn touch(&mut self, class: usize, at: u32) {
        let Some(ring) = self.rings.get_mut(class) else { return };
        let Some((_, count)) = ring.items.get_mut(&at) else { return };
        *count = count.saturating_add(1);
        if *count >= self.cmax {
            ring.low.remove(&at);
        }
        self.sum += 1;
        if self.sum > self.len * u64::from(self.amax) {
            self.age();
        }
    }

    fn age(&mut self) {
        (self.agings, self.sum) = (self.agings + 1, 0);
        for ring in &mut self.rings {
            for (at, (_, count)) in &mut ring.items {
                *count = count.div_ceil(2);
                self.sum += u64::from(*count);
                if *count < self.cmax {
                    ring.low.insert(*at);
                }
            }
        }
    }

    /// Take an item away.
    pub fn remove(&mut self, class: usize, at: u32) -> Option<T> {
        let ring = self.rings.get_mut(class)?;
        let (item, count) = ring.items.remove(&at)?;
        ring.low.remove(&at);
        (self.sum, self.len) = (self.sum - u64::from(count), self.len - 1);
        Some(item)
    }

    /// Take the victim of a class away: from the pointer on the first below Cmax, else, after a whole turn, the first of the
    /// lowest counts. The pointer is behind it then. `None` if the class has no items.
    pub fn victim(&mut self, class: usize) -> Option<(u32, T)> {
        let ring = self.rings.get_mut(class)?;
        let low = ring.low.range(ring.pointer..).chain(ring.low.range(..ring.pointer)).next().copied();
        let at = low.or_else(|| {
            let in_turn = ring.items.range(ring.pointer..).chain(ring.items.range(..ring.pointer));
            in_turn.min_by_key(|(_, (_, count))| *count).map(|(at, _)| *at)
        })?;
        ring.pointer = at.wrapping_add(1);
        Some((at, self.remove(class, at)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_pointer_passes_over_what_is_popular_and_goes_round() {
        let mut fbc = Fbc::new(1, 3, 100);
        ["a", "b", "c", "d"].into_iter().zip(0..).for_each(|(item, at)| fbc.insert(0, at * 8, item));
        for _ in 0..2 {
            fbc.touch(0, 0);
            fbc.touch(0, 16);
        }
        assert_eq!(fbc.victim(0), Some((8, "b")), "a has a count of three");
        fbc.insert(0, 8, "e");
        assert_eq!(fbc.victim(0), Some((24, "d")), "the pointer is behind e, and c is popular");
        assert_eq!(fbc.victim(0), Some((8, "e")), "round once more");
        fbc.touch(0, 0);
        assert_eq!(fbc.victim(0), Some((16, "c")), "a whole turn finds none: the lowest count");
        assert_eq!((fbc.victim(0), fbc.victim(0), fbc.is_empty()), (Some((0, "a")), None, true));
    }

    #[test]
    fn counts_are_halved_when_their_mean_passes_amax() {
        let mut fbc = Fbc::new(2, 3, 4);
        fbc.insert(0, 0, "a");
        fbc.insert(1, 0, "b");
        (0..6).for_each(|_| fbc.touch(0, 0));
        assert_eq!((fbc.agings(), fbc.sum), (0, 8));
        fbc.touch(0, 0);
        // 8 and 1 are 9, more than 2 times 4: 4 and 1 are left.
        assert_eq!((fbc.agings(), fbc.sum), (1, 5));
    }

    proptest! {
        /// As the paper's words say it, item by item.
        #[test]
        fn it_matches_the_paper_s_rule(steps in prop::collection::vec((0..8_u8, 0..12_u32), 0..400)) {
            let (mut fbc, mut model, mut pointer) = (Fbc::new(1, 3, 5), BTreeMap::<u32, u32>::new(), 0);
            for (step, at) in steps {
                match step {
                    0 | 1 => { fbc.insert(0, at, at); model.insert(at, 1); }
                    2 => { fbc.remove(0, at); model.remove(&at); }
                    3..=5 => {
                        fbc.touch(0, at);
                        if let Some(count) = model.get_mut(&at) {
                            *count += 1;
                            if model.values().sum::<u32>() > 5 * model.len() as u32 {
                                model.values_mut().for_each(|count| *count = count.div_ceil(2));
                            }
                        }
                    }
                    _ => {
                        let turn: Vec<_> = (0..12).map(|n| (pointer + n) % 12).filter(|at| model.contains_key(at)).collect();
                        let victim = turn.iter().find(|at| model[at] < 3).or_else(|| turn.iter().min_by_key(|at| model[at]));
                        prop_assert_eq!(fbc.victim(0), victim.map(|at| (*at, *at)));
                        if let Some(at) = victim {
                            model.remove(at);
                            pointer = (at + 1) % 12;
                        }
                    }
                }
                prop_assert_eq!(fbc.len(), model.len() as u64);
            }
        }
    }
}
