//! Which sets were written lately: whoever has read one must know whether that still holds.

use std::collections::{HashMap, VecDeque};

use crate::layout::limits::MAX_CHANGED_SETS;

/// The sets written last, each with the number of its last bin. Of others it is known only that nothing in them is newer
/// than the newest that was forgotten.
#[derive(Default)]
pub(crate) struct Changed {
    last: HashMap<u64, u64>,
    /// Every change, oldest first; all but the last of a set are passed over.
    order: VecDeque<(u64, u64)>,
    forgotten: u64,
}

impl Changed {
    /// A bin of this set is given this number, higher than all before.
    pub(crate) fn note(&mut self, set: u64, order: u64) {
        self.last.insert(set, order);
        self.order.push_back((set, order));
        while self.order.len() > MAX_CHANGED_SETS {
            let Some((set, order)) = self.order.pop_front() else { return };
            self.forgotten = order;
            if self.last.get(&set) == Some(&order) {
                self.last.remove(&set);
            }
        }
    }

    /// Whether a number from `moment` on was given to a bin of this set, or may have been.
    pub(crate) fn since(&self, set: u64, moment: u64) -> bool {
        match self.last.get(&set) {
            Some(order) => *order >= moment,
            None => self.forgotten > 0 && self.forgotten >= moment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_never_missed_and_the_unknown_counts_as_one() {
        let mut changed = Changed::default();
        assert!(!changed.since(3, 0));
        let most = MAX_CHANGED_SETS as u64;
        (1..=most).for_each(|order| changed.note(order % 10, order));
        assert!(changed.since(3, 1) && !changed.since(3, most) && !changed.since(77, 1));
        changed.note(50, most + 1);
        assert!(!changed.since(50, most + 2) && changed.since(50, most + 1));
        (2..=most).for_each(|n| changed.note(51, most + n));
        assert!(changed.since(3, 1) && changed.since(77, 1), "forgotten: it may be");
        assert!(!changed.since(3, most + 1) && !changed.since(77, most + 1), "not since then");
    }
}
