//! Positions that are to go out to their file, by stripe.

use super::layout::OffsetLayout;
use crate::engine::hashcache::loglru::set::{At, WAYS};

/// A slot, by its number in its stripe, and its position.
type Entry = (u32, At);

/// The positions. Memory: 12 bytes each, twice that at worst, and 24 a stripe.
pub struct ToGo {
    /// Of each stripe, by slot.
    stripes: Vec<Vec<Entry>>,
    len: usize,
    layout: OffsetLayout,
}

impl ToGo {
    /// None yet.
    pub fn new(layout: OffsetLayout) -> Self {
        ToGo { stripes: vec![Vec::new(); layout.stripes() as usize], len: 0, layout }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    fn number(&self, stripe: u64, set: u64, way: usize) -> u32 {
        ((set - self.layout.sets_of(stripe).start) * WAYS as u64) as u32 + way as u32
    }

    fn find(&self, set: u64, way: usize) -> Option<(usize, u32, Result<usize, usize>)> {
        let stripe = self.layout.stripe_of(set);
        let number = self.number(stripe, set, way);
        let found = self.stripes.get(stripe as usize)?.binary_search_by_key(&number, |(slot, _)| *slot);
        Some((stripe as usize, number, found))
    }

    /// The position of a slot, if it is among them.
    pub fn get(&self, set: u64, way: usize) -> Option<At> {
        let (stripe, _, found) = self.find(set, way)?;
        self.stripes.get(stripe)?.get(found.ok()?).map(|(_, at)| *at)
    }

    /// Add a position, in the place of the one that the slot had.
    pub fn put(&mut self, set: u64, way: usize, at: At) {
        let Some((stripe, number, found)) = self.find(set, way) else { return };
        let Some(entries) = self.stripes.get_mut(stripe) else { return };
        match found {
            Ok(index) => entries.get_mut(index).into_iter().for_each(|entry| entry.1 = at),
            Err(index) => {
                entries.insert(index, (number, at));
                self.len += 1;
            }
        }
    }

    /// Those of the stripe that has most of them, in the order of the file.
    pub fn fullest(&self) -> Vec<((u64, usize), At)> {
        let Some((stripe, entries)) = (0_u64..).zip(&self.stripes).max_by_key(|(_, entries)| entries.len()) else {
            return Vec::new();
        };
        let first = self.layout.sets_of(stripe).start;
        let slot = |number: u32| (first + u64::from(number) / WAYS as u64, number as usize % WAYS);
        entries.iter().map(|(number, at)| (slot(*number), *at)).collect()
    }

    /// Take a position away, unless the slot has another one by now.
    pub fn remove(&mut self, (set, way): (u64, usize), at: At) {
        let Some((stripe, _, Ok(index))) = self.find(set, way) else { return };
        let Some(entries) = self.stripes.get_mut(stripe) else { return };
        if entries.get(index).is_some_and(|(_, now)| *now == at) {
            entries.remove(index);
            self.len -= 1;
        }
    }

    /// Bytes of memory allocated now.
    pub fn memory_bytes(&self) -> u64 {
        let entries: usize = self.stripes.iter().map(Vec::capacity).sum();
        (entries * size_of::<Entry>() + self.stripes.len() * size_of::<Vec<Entry>>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::reach::Reach;
    use std::collections::BTreeMap;

    #[test]
    fn it_holds_what_a_map_would() {
        let layout = OffsetLayout { base: 4096, sets: 50_000, has_reaches: true, is_apart: false };
        let (mut to_go, mut model) = (ToGo::new(layout), BTreeMap::new());
        assert!(layout.stripes() > 3 && to_go.fullest().is_empty());
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for step in 0..20_000_u64 {
            let (set, way) = (random(layout.sets / 50) * 50, random(8) as usize);
            let at = At { position: random(3) as u32, reach: Reach(random(2) as u8) };
            if random(3) > 0 {
                to_go.put(set, way, at);
                model.insert((set, way), at);
            } else {
                to_go.remove((set, way), at);
                if model.get(&(set, way)) == Some(&at) {
                    model.remove(&(set, way));
                }
            }
            assert_eq!((to_go.len(), to_go.get(set, way)), (model.len(), model.get(&(set, way)).copied()));
            if step % 1000 == 0 {
                let fullest = to_go.fullest();
                let stripe = |set: u64| layout.stripe_of(set);
                let of = |number| model.iter().filter(|((set, _), _)| stripe(*set) == number).collect::<Vec<_>>();
                let most = (0..layout.stripes()).map(|number| of(number).len()).max().unwrap();
                assert_eq!(fullest.len(), most);
                let same = fullest.first().map_or(Vec::new(), |((set, _), _)| of(stripe(*set)));
                assert!(fullest.iter().map(|(slot, at)| (slot, at)).eq(same));
            }
        }
        assert!(to_go.len() > 1000 && to_go.memory_bytes() >= to_go.len() as u64 * 12);
    }
}
