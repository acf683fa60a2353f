//! Belady: what is asked for again last leaves first, which only a simulation can know. With sizes, what takes most bytes for longest.

use std::collections::BTreeMap;

use super::ordered::Ordered;
use super::{Asked, Policy};
use crate::random::Random;

/// See the module.
pub struct Belady {
    capacity_bytes: u64,
    sizes: bool,
    objects: Ordered,
    /// When each is asked for again: the one that is last leaves.
    again: BTreeMap<(u32, u32), ()>,
    at: Vec<u32>,
    /// Objects that are there, to draw from, and where each is among them.
    there: Vec<u32>,
    where_there: Vec<u32>,
    random: Random,
}

/// With sizes, of so many that are drawn the worst leaves: the order of all changes with time.
const DRAWN: usize = 64;

impl Belady {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64, sizes: bool) -> Belady {
        Belady {
            capacity_bytes,
            sizes,
            objects: Ordered::default(),
            again: BTreeMap::new(),
            at: Vec::new(),
            there: Vec::new(),
            where_there: Vec::new(),
            random: Random::new(1966),
        }
    }

    fn know(&mut self, asked: &Asked, there: bool) {
        let object = asked.object as usize;
        if self.at.len() <= object {
            self.at.resize(object + 1, 0);
            self.where_there.resize(object + 1, 0);
        }
        let (Some(at), Some(place)) = (self.at.get_mut(object), self.where_there.get_mut(object)) else { return };
        if there {
            self.again.remove(&(*at, asked.object));
        } else {
            *place = self.there.len() as u32;
            self.there.push(asked.object);
        }
        *at = asked.again;
        self.again.insert((asked.again, asked.object), ());
    }

    fn forget(&mut self, object: u32) {
        let again = self.at.get(object as usize).copied().unwrap_or_default();
        self.again.remove(&(again, object));
        self.objects.take(object);
        let place = self.where_there.get(object as usize).copied().unwrap_or_default();
        self.there.swap_remove(place as usize);
        if let Some(moved) = self.there.get(place as usize)
            && let Some(of_moved) = self.where_there.get_mut(*moved as usize)
        {
            *of_moved = place;
        }
    }

    fn worst(&mut self, now: u32) -> Option<u32> {
        let (&(again, last), ()) = self.again.last_key_value()?;
        if !self.sizes || again == Asked::NEVER {
            return Some(last);
        }
        let mut worst = (0, last);
        for _ in 0..DRAWN {
            let drawn = self.random.below(self.there.len() as u64) as usize;
            let Some(&object) = self.there.get(drawn) else { continue };
            let wait = self.at.get(object as usize).map_or(0, |again| again.saturating_sub(now));
            worst = worst.max((u64::from(wait) * self.objects.size(object).unwrap_or(0), object));
        }
        Some(worst.1)
    }

    /// Whether an object would be the first to leave. Without sizes it comes in all the same, as Belady has it.
    fn is_worst(&self, asked: &Asked) -> bool {
        self.sizes && asked.again == Asked::NEVER
    }
}

impl Policy for Belady {
    fn ask(&mut self, asked: &Asked) -> bool {
        if self.objects.has(asked.object) {
            self.know(asked, true);
            return true;
        }
        if asked.bytes > self.capacity_bytes || self.is_worst(asked) {
            return false;
        }
        while self.objects.bytes() + asked.bytes > self.capacity_bytes {
            let Some(worst) = self.worst(asked.at) else { break };
            self.forget(worst);
        }
        self.objects.push(asked.object, asked.bytes);
        self.know(asked, false);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sequence;
    use super::*;

    #[test]
    fn what_is_asked_for_last_leaves_and_with_sizes_what_is_large() {
        let asked = Sequence::of(&[(1, 80), (2, 20), (3, 20), (1, 80), (2, 20), (3, 20)]);
        assert_eq!(asked.found(&mut Belady::new(100, false)), [false, false, false, true, false, true]);
        let found = asked.found(&mut Belady::new(100, true));
        assert_eq!(found[4..], [true, true], "{found:?}");
    }
}
