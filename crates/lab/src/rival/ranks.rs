//! Who leaves: lists by how often entries were used again, each in the order of the last use.

use std::collections::BTreeMap;
use std::time::Duration;

/// What entries' ages do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ages {
    /// Nothing: the lists' lengths alone decide.
    Ignored,
    /// An entry is old after a week without use if it was never used again, after twice and four times that in the other lists. By the
    /// clock of a replay, which passes over pauses, hardly any ever is: the paper's footnote 1.
    ByTheClock,
}

/// Never used again, used again, and used again this often.
const HIGH_USE: u32 = 10;
/// After this long without use an entry of the first list is old.
const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// How often it was used again.
    pub uses: u32,
    list: usize,
    order: u64,
}

/// The lists. Memory: some 40 bytes an entry.
#[derive(Debug, Default)]
pub struct Ranks {
    lists: [BTreeMap<u64, (u64, Duration)>; 3],
    order: u64,
}

fn list_of(uses: u32) -> usize {
    match uses {
        0 => 0,
        1..HIGH_USE => 1,
        _ => 2,
    }
}

impl Ranks {
    /// A new entry stands first in the list of those not used again.
    pub fn insert(&mut self, entry: u64, now: Duration) -> Rank {
        self.put(entry, 0, now)
    }

    /// It was used again: first in the list that it belongs to now.
    pub fn used(&mut self, entry: u64, rank: Rank, now: Duration) -> Rank {
        self.remove(rank);
        self.put(entry, rank.uses.saturating_add(1), now)
    }

    /// Written to and not used again: first in its list.
    pub fn written(&mut self, entry: u64, rank: Rank, now: Duration) -> Rank {
        self.remove(rank);
        self.put(entry, rank.uses, now)
    }

    fn put(&mut self, entry: u64, uses: u32, now: Duration) -> Rank {
        self.order += 1;
        let (list, order) = (list_of(uses), self.order);
        if let Some(list) = self.lists.get_mut(list) {
            list.insert(order, (entry, now));
        }
        Rank { uses, list, order }
    }

    /// It is gone.
    pub fn remove(&mut self, rank: Rank) {
        if let Some(list) = self.lists.get_mut(rank.list) {
            list.remove(&rank.order);
        }
    }

    /// The entries that stand beside it in its list: their links change with it.
    pub fn neighbours(&self, rank: Rank) -> [Option<u64>; 2] {
        let list = self.lists.get(rank.list);
        let before = list.and_then(|list| list.range(..rank.order).next_back());
        let behind = list.and_then(|list| list.range(rank.order + 1..).next());
        [before, behind].map(|neighbour| neighbour.map(|(_, (entry, _))| *entry))
    }

    /// Who leaves next, of those that may: the last of a list whose last is old; else, with more than a third of all entries in it, the last of the first
    /// list, or of the second, or of the third.
    pub fn victim(&self, ages: Ages, now: Duration, may_leave: impl Fn(u64) -> bool) -> Option<u64> {
        let last = |list: usize| self.lists.get(list)?.values().find(|(entry, _)| may_leave(*entry)).copied();
        let is_old = |list: usize, used: Duration| now.saturating_sub(used) >= OLD * (1 << list);
        if ages == Ages::ByTheClock {
            let old = (0..3).find_map(|list| last(list).filter(|(_, used)| is_old(list, *used)));
            if let Some((entry, _)) = old {
                return Some(entry);
            }
        }
        let [first, second, third] = self.lists.each_ref().map(BTreeMap::len);
        let third_of_all = (first + second + third) / 3;
        let list = match () {
            () if first > third_of_all => 0,
            () if second > third_of_all => 1,
            () => 2,
        };
        // What was used again is kept for a while, if there is anything else.
        let too_young = ages == Ages::ByTheClock && list > 0 && last(list).is_some_and(|(_, used)| !is_old(0, used));
        let list = if too_young { 0 } else { list };
        [list, 0, 1, 2].into_iter().find_map(last).map(|(entry, _)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(3600);

    #[test]
    fn lists_are_by_use_and_lengths_decide() {
        let mut ranks = Ranks::default();
        let mut of: Vec<_> = (0..9).map(|entry| ranks.insert(entry, NOW)).collect();
        let victim = |ranks: &Ranks, ages| ranks.victim(ages, NOW, |_| true);
        assert_eq!(victim(&ranks, Ages::Ignored), Some(0));
        for (entry, rank) in (0..7).zip(&mut of) {
            *rank = ranks.used(entry, *rank, NOW);
        }
        assert_eq!(ranks.neighbours(of[3]), [Some(2), Some(4)]);
        assert_eq!(victim(&ranks, Ages::Ignored), Some(0), "the second list is the longest: its last");
        assert_eq!(victim(&ranks, Ages::ByTheClock), Some(7), "used again less than a week ago");
        for _ in 0..9 {
            of[0] = ranks.used(0, of[0], NOW);
        }
        assert_eq!(victim(&ranks, Ages::Ignored), Some(1));
        of[7] = ranks.written(7, of[7], NOW);
        assert_eq!(ranks.victim(Ages::ByTheClock, NOW, |entry| entry != 8), Some(7));
        (1..9).for_each(|entry| ranks.remove(of[entry]));
        assert_eq!(victim(&ranks, Ages::Ignored), Some(0), "of any list, if there is no other");
        ranks.remove(of[0]);
        assert_eq!(victim(&ranks, Ages::Ignored), None);
    }

    #[test]
    fn by_the_clock_old_entries_leave_first() {
        let mut ranks = Ranks::default();
        let used = ranks.insert(1, Duration::ZERO);
        ranks.used(1, used, Duration::ZERO);
        ranks.insert(2, OLD);
        ranks.insert(3, OLD);
        assert_eq!(ranks.victim(Ages::ByTheClock, OLD * 2, |_| true), Some(2), "a week, in the first list");
        assert_eq!(ranks.victim(Ages::ByTheClock, OLD + NOW, |_| true), Some(2), "none is old");
        assert_eq!(ranks.victim(Ages::ByTheClock, OLD * 2 - NOW, |entry| entry == 1), Some(1));
        ranks.insert(4, OLD * 2);
        let late = ranks.victim(Ages::ByTheClock, OLD * 2, |entry| entry == 1 || entry == 4);
        assert_eq!(late, Some(1), "two weeks, in the second");
    }
}
