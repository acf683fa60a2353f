//! Which blocks of a block file are taken: a bit each, four to a group, and what belongs together within one group.

use std::collections::BTreeSet;

/// Blocks of a group, and the most that one piece of data takes.
pub const GROUP: u32 = 4;

/// The bitmap of a block file. Memory: a byte for four blocks, and some 40 more where some of them are free.
#[derive(Debug, Default)]
pub struct Blocks {
    /// A bit for each block that is taken.
    groups: Vec<u8>,
    /// Groups with so many free blocks in a row, 1 to 4, at the most.
    free: [BTreeSet<u32>; GROUP as usize],
    most_groups: u32,
}

/// The most free blocks in a row.
fn longest(taken: u8) -> usize {
    let (mut longest, mut run) = (0, 0);
    for block in 0..GROUP {
        run = if taken & (1 << block) == 0 { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

impl Blocks {
    /// A file of up to so many blocks.
    pub fn new(most_blocks: u64) -> Self {
        let most_groups = u32::try_from(most_blocks / u64::from(GROUP)).unwrap_or(u32::MAX / GROUP);
        Blocks { most_groups, ..Blocks::default() }
    }

    /// So many blocks, 1 to 4, in a row within a group: the number of the first. Where they fit best, and there as far in front as there
    /// is room; the file grows if there is none. `None` if it is as large as it may be.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        let wanted = (count.clamp(1, GROUP) - 1) as usize;
        let known = self.free.get(wanted..)?.iter().find_map(|groups| groups.first().copied());
        let group = match known {
            Some(group) => group,
            None if self.groups.len() < self.most_groups as usize => {
                self.groups.push(0);
                self.groups.len() as u32 - 1
            }
            None => return None,
        };
        let taken = self.groups.get(group as usize).copied()?;
        let bits = ((1_u16 << (wanted + 1)) - 1) as u8;
        let at = (0..=GROUP - count.clamp(1, GROUP)).find(|at| taken & (bits << at) == 0)?;
        self.set(group, taken | (bits << at));
        Some(group * GROUP + at)
    }

    /// They are free again.
    pub fn give_back(&mut self, first: u32, count: u32) {
        let (group, bits) = (first / GROUP, ((1_u16 << count.min(GROUP)) - 1) as u8);
        if let Some(taken) = self.groups.get(group as usize).copied() {
            self.set(group, taken & !(bits << (first % GROUP)));
        }
    }

    fn set(&mut self, group: u32, now: u8) {
        let Some(taken) = self.groups.get_mut(group as usize) else { return };
        let before = std::mem::replace(taken, now);
        let set = |groups: &mut [BTreeSet<u32>; GROUP as usize], taken, put: bool| {
            let Some(groups) = longest(taken).checked_sub(1).and_then(|run| groups.get_mut(run)) else { return };
            if put {
                groups.insert(group)
            } else {
                groups.remove(&group)
            };
        };
        set(&mut self.free, before, false);
        set(&mut self.free, now, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn no_block_is_given_out_twice_and_none_is_lost() {
        let (mut blocks, mut random) = (Blocks::new(64), Random::new(5));
        let (mut given, mut taken): (Vec<(u32, u32)>, BTreeSet<u32>) = (Vec::new(), BTreeSet::new());
        for _ in 0..5000 {
            let count = 1 + random.below(4) as u32;
            if random.chance(0.55) {
                match blocks.take(count) {
                    Some(first) => {
                        assert_eq!(first / GROUP, (first + count - 1) / GROUP, "within a group");
                        assert!((first..first + count).all(|block| taken.insert(block)), "{first}");
                        given.push((first, count));
                    }
                    None => assert!(taken.len() > 20, "{} are taken", taken.len()),
                }
            } else if !given.is_empty() {
                let (first, count) = given.swap_remove(random.below(given.len() as u64) as usize);
                blocks.give_back(first, count);
                (first..first + count).for_each(|block| assert!(taken.remove(&block)));
            }
        }
        given.drain(..).for_each(|(first, count)| blocks.give_back(first, count));
        assert!((0..16).all(|_| blocks.take(4).is_some()) && blocks.take(1).is_none());
    }

    #[test]
    fn the_smallest_gap_that_fits_is_taken() {
        let mut blocks = Blocks::new(400);
        assert_eq!([3, 2, 1, 2].map(|count| blocks.take(count)), [Some(0), Some(4), Some(3), Some(6)]);
        blocks.give_back(4, 2);
        assert_eq!([1, 4, 1].map(|count| blocks.take(count)), [Some(4), Some(8), Some(5)]);
    }
}
