//! GDSF (Cherkasova, 1998): what is worth least leaves, where an object's worth is how often it was used for its size, plus what the
//! one that left last was worth.

use std::collections::BTreeSet;

use super::ordered::Ordered;
use super::{Asked, Policy};

/// See the module.
pub struct Gdsf {
    capacity_bytes: u64,
    objects: Ordered,
    /// Uses of each object since it came, and what it is worth.
    worth: Vec<(u64, f64)>,
    by_worth: BTreeSet<(u64, u32)>,
    left: f64,
}

impl Gdsf {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64) -> Gdsf {
        let (objects, worth, by_worth) = (Ordered::default(), Vec::new(), BTreeSet::new());
        Gdsf { capacity_bytes, objects, worth, by_worth, left: 0.0 }
    }

    /// One more use of an object, or the first.
    fn use_of(&mut self, asked: &Asked, first: bool) {
        let at = asked.object as usize;
        if self.worth.len() <= at {
            self.worth.resize(at + 1, (0, 0.0));
        }
        let Some((uses, worth)) = self.worth.get_mut(at) else { return };
        if !first {
            self.by_worth.remove(&(worth.to_bits(), asked.object));
        }
        *uses = if first { 1 } else { *uses + 1 };
        *worth = self.left + *uses as f64 / asked.bytes.max(1) as f64;
        // Positive floats are in the order of their bits.
        self.by_worth.insert((worth.to_bits(), asked.object));
    }
}

impl Policy for Gdsf {
    fn ask(&mut self, asked: &Asked) -> bool {
        if self.objects.has(asked.object) {
            self.use_of(asked, false);
            return true;
        }
        if asked.bytes > self.capacity_bytes {
            return false;
        }
        while self.objects.bytes() + asked.bytes > self.capacity_bytes {
            let Some((worth, least)) = self.by_worth.pop_first() else { break };
            self.left = f64::from_bits(worth);
            self.objects.take(least);
        }
        self.objects.push(asked.object, asked.bytes);
        self.use_of(asked, true);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sequence;
    use super::*;

    #[test]
    fn what_is_large_and_seldom_used_leaves_first() {
        let asked = Sequence::of(&[(1, 60), (2, 20), (3, 20), (4, 20), (2, 20), (3, 20), (1, 60), (2, 20)]);
        // For 4 the large one leaves, though it came with the others; when it returns, 4 leaves, then 2 of equal worth by number.
        assert_eq!(asked.found(&mut Gdsf::new(100)), [false, false, false, false, true, true, false, true]);
    }
}
