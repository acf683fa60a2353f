//! LRU: what was used longest ago leaves first.

use super::ordered::Ordered;
use super::{Asked, Policy};

/// See the module.
pub struct Lru {
    capacity_bytes: u64,
    objects: Ordered,
}

impl Lru {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64) -> Lru {
        Lru { capacity_bytes, objects: Ordered::default() }
    }
}

impl Policy for Lru {
    fn ask(&mut self, asked: &Asked) -> bool {
        if self.objects.has(asked.object) {
            self.objects.renew(asked.object);
            return true;
        }
        self.objects.push_within(asked.object, asked.bytes, self.capacity_bytes);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sequence;
    use super::*;

    #[test]
    fn what_was_used_longest_ago_leaves_first() {
        let asked = Sequence::of(&[(1, 40), (2, 40), (1, 40), (3, 60), (1, 40), (3, 60), (2, 40), (9, 101), (9, 101)]);
        let found = [false, false, true, false, true, true, false, false, false];
        assert_eq!(asked.found(&mut Lru::new(100)), found, "2 leaves for 3, then 1 for 2");
    }
}
