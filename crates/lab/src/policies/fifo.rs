//! FIFO: what came first leaves first.

use super::ordered::Ordered;
use super::{Asked, Policy};

/// See the module.
pub struct Fifo {
    capacity_bytes: u64,
    objects: Ordered,
}

impl Fifo {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64) -> Fifo {
        Fifo { capacity_bytes, objects: Ordered::default() }
    }
}

impl Policy for Fifo {
    fn ask(&mut self, asked: &Asked) -> bool {
        if self.objects.has(asked.object) {
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
    fn what_came_first_leaves_first_though_it_was_used() {
        let asked = Sequence::of(&[(1, 40), (2, 40), (1, 40), (3, 60), (1, 40), (9, 101), (9, 101)]);
        assert_eq!(asked.found(&mut Fifo::new(100)), [false, false, true, false, false, false, false]);
    }
}
