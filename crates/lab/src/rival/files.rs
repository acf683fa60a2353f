//! Where files of their own lie: pages of one region, in a few extents each.

use std::collections::BTreeMap;

/// Free pages. Memory: some 40 bytes for each run of free ones.
#[derive(Debug)]
pub struct Files {
    /// Runs of free pages: the first one's number, and how many.
    free: BTreeMap<u64, u64>,
}

/// A file: runs of pages, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// First page and count.
    pub runs: Vec<(u64, u64)>,
    /// Which file it is: where its inode lies.
    pub number: u64,
}

impl Files {
    /// So many pages, all free.
    pub fn new(pages: u64) -> Self {
        Files { free: BTreeMap::from([(0, pages)]) }
    }

    /// Make a file so many pages long at least: behind what it has if that is free, else in the first run that holds all, else in
    /// whatever there is. Whether it is now; if not, it is as it was.
    pub fn grow(&mut self, file: &mut File, pages: u64) -> bool {
        let before = file.clone();
        let mut missing = pages.saturating_sub(file.pages());
        while missing > 0 {
            let behind = file.runs.last().map(|(first, count)| first + count).filter(|at| self.free.contains_key(at));
            let whole = || self.free.iter().find(|(_, count)| **count >= missing).map(|(at, _)| *at);
            let most = || self.free.iter().max_by_key(|(_, count)| **count).map(|(at, _)| *at);
            let Some(at) = behind.or_else(whole).or_else(most) else {
                self.free_beyond(file, before.pages());
                return false;
            };
            let count = self.free.remove(&at).unwrap_or_default();
            let taken = count.min(missing);
            if taken < count {
                self.free.insert(at + taken, count - taken);
            }
            missing -= taken;
            match file.runs.last_mut() {
                Some((first, had)) if *first + *had == at => *had += taken,
                _ => file.runs.push((at, taken)),
            }
        }
        true
    }

    /// Free what a file has beyond so many pages.
    pub fn free_beyond(&mut self, file: &mut File, pages: u64) {
        let mut excess = file.pages().saturating_sub(pages);
        while excess > 0 {
            let Some((first, count)) = file.runs.pop() else { return };
            let gone = count.min(excess);
            excess -= gone;
            self.give_back(first + count - gone, gone);
            if gone < count {
                file.runs.push((first, count - gone));
            }
        }
    }

    fn give_back(&mut self, first: u64, count: u64) {
        let (mut first, mut count) = (first, count);
        if let Some((&before, &pages)) = self.free.range(..first).next_back()
            && before + pages == first
        {
            self.free.remove(&before);
            (first, count) = (before, count + pages);
        }
        count += self.free.remove(&(first + count)).unwrap_or_default();
        self.free.insert(first, count);
    }
}

impl File {
    /// How many pages it has.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|(_, count)| count).sum()
    }

    /// Where bytes of it lie: from which byte of the region, and how many.
    pub fn extents(&self, offset: u64, len: u64, page_bytes: u64) -> Vec<(u64, u64)> {
        let (mut from, end, mut at) = (offset, offset + len, 0);
        let mut extents = Vec::new();
        for (first, count) in &self.runs {
            let next = at + count * page_bytes;
            if from < next && from < end {
                let to = end.min(next);
                extents.push((first * page_bytes + (from - at), to - from));
                from = to;
            }
            at = next;
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn no_page_is_in_two_files_and_none_is_lost() {
        let (mut files, mut random) = (Files::new(100), Random::new(9));
        let mut all = vec![File::default(); 6];
        for _ in 0..3000 {
            let at = random.below(6) as usize;
            let (pages, had) = (random.below(40), all[at].pages());
            if pages < had {
                files.free_beyond(&mut all[at], pages);
                assert_eq!(all[at].pages(), pages);
            } else {
                let grown = files.grow(&mut all[at], pages);
                assert_eq!(all[at].pages(), if grown { pages } else { had });
            }
            let runs = all.iter().flat_map(|file| file.runs.iter().copied()).chain(files.free.clone());
            let mut taken: Vec<_> = runs.flat_map(|(first, count)| first..first + count).collect();
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..100));
        }
    }

    #[test]
    fn extents_are_those_of_the_runs() {
        let file = File { runs: vec![(10, 2), (50, 1), (7, 3)], number: 0 };
        assert_eq!(file.extents(0, 100, 4096), [(40_960, 100)]);
        assert_eq!(file.extents(8000, 5000, 4096), [(40_960 + 8000, 192), (204_800, 4096), (28_672, 712)]);
        assert_eq!(file.extents(8000, 0, 4096), []);
    }
}
