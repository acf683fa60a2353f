//! What section 5.1 asks for: objects in groups, and in which order they are created, read and deleted.

use crate::random::Random;

/// The orderings of section 5.1. It does not say how the requests of zipf 1:4 and 3:8 are shared; both readings are here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ordering {
    /// Everything once, by group.
    Sequential,
    /// Everything in random order; each read is for any object.
    Random,
    /// Of so many eighths of the objects so many eighths of the reads; the rest as random.
    Zipf { popular: u32, share: u32 },
}

impl Ordering {
    pub const ALL: [Ordering; 7] = [
        Ordering::Sequential,
        Ordering::Random,
        Ordering::ZIPF_1_8,
        Ordering::ZIPF_1_4,
        Ordering::Zipf { popular: 2, share: 6 },
        Ordering::Zipf { popular: 3, share: 7 },
        Ordering::Zipf { popular: 3, share: 5 },
    ];
    /// Those whose creates and deletes differ, with the others that read what these have created.
    pub const CREATED: [(Ordering, &[Ordering]); 2] = {
        let [sequential, others @ ..] = &Ordering::ALL;
        [(*sequential, std::slice::from_ref(sequential)), (Ordering::Random, others)]
    };
    pub const ZIPF_1_8: Ordering = Ordering::Zipf { popular: 1, share: 7 };
    /// In the reading in which 7/8 of the reads are for the popular objects in each zipf.
    pub const ZIPF_1_4: Ordering = Ordering::Zipf { popular: 2, share: 7 };

    pub fn name(self) -> &'static str {
        match self {
            Ordering::Sequential => "sequential",
            Ordering::Random => "random",
            Ordering::Zipf { popular: 1, .. } => "zipf 1:8",
            Ordering::Zipf { popular: 2, share: 7 } => "zipf 1:4 (7/8)",
            Ordering::Zipf { popular: 2, .. } => "zipf 1:4 (3/4)",
            Ordering::Zipf { share: 7, .. } => "zipf 3:8 (7/8)",
            Ordering::Zipf { .. } => "zipf 3:8 (5/8)",
        }
    }

    /// Of the objects, the first so many are popular: those of whole groups. All of them where none is more popular than others.
    pub fn popular(self, objects: u32) -> u32 {
        match self {
            Ordering::Sequential | Ordering::Random => objects,
            Ordering::Zipf { popular, .. } => objects / 8 * popular,
        }
    }
}

/// The three stages of a microbenchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Create,
    Read,
    Delete,
}

impl Stage {
    pub const ALL: [Stage; 3] = [Stage::Create, Stage::Read, Stage::Delete];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Create => "create",
            Stage::Read => "read",
            Stage::Delete => "delete",
        }
    }
}

/// Objects by their numbers, each in a group: the first in the first group.
#[derive(Clone, Debug)]
pub struct Objects {
    bytes: Vec<u32>,
    seed: u64,
}

impl Objects {
    /// So many, of a random size up to `most` bytes each.
    pub fn new(count: u32, most: u32, seed: u64) -> Objects {
        let mut random = Random::new(seed);
        let bytes = (0..count).map(|_| 1 + random.below(u64::from(most.max(1))) as u32).collect();
        Objects { bytes, seed }
    }

    pub fn count(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// The size of one, in bytes.
    pub fn bytes(&self, object: u32) -> u32 {
        self.bytes.get(object as usize).copied().unwrap_or_default()
    }

    /// The sizes of all together.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.iter().map(|bytes| u64::from(*bytes)).sum()
    }

    /// Which of so many groups, or directories, one belongs to.
    pub fn group(&self, object: u32, groups: u32) -> u32 {
        (u64::from(object) * u64::from(groups) / u64::from(self.count().max(1))) as u32
    }

    /// What is done in a stage, in this order.
    pub fn requests(&self, ordering: Ordering, stage: Stage) -> Vec<u32> {
        let count = self.count();
        let mut random = Random::new(self.seed ^ (stage as u64 + 1));
        let popular = ordering.popular(count);
        match (ordering, stage) {
            (Ordering::Sequential, _) => (0..count).collect(),
            (Ordering::Random, Stage::Read) => (0..count).map(|_| random.below(u64::from(count)) as u32).collect(),
            (Ordering::Zipf { share, .. }, Stage::Read) => {
                let one = |_| {
                    let (from, of) =
                        if random.below(8) < u64::from(share) { (0, popular) } else { (popular, count - popular) };
                    from + random.below(u64::from(of)) as u32
                };
                (0..count).map(one).collect()
            }
            (_, Stage::Create | Stage::Delete) => shuffled(count, &mut random),
        }
    }
}

fn shuffled(count: u32, random: &mut Random) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count).collect();
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ordering_is_what_section_5_1_says() {
        let objects = Objects::new(4096, 1000, 7);
        for ordering in Ordering::ALL {
            for stage in Stage::ALL {
                let mut requests = objects.requests(ordering, stage);
                assert_eq!((requests.len(), requests.iter().max() < Some(&4096)), (4096, true));
                let is_in_order = requests.is_sorted();
                assert_eq!(is_in_order, ordering == Ordering::Sequential, "{ordering:?} {stage:?}");
                let popular = ordering.popular(4096);
                let asked = requests.iter().filter(|object| **object < popular).count() as f64 / 4096.0;
                requests.sort_unstable();
                requests.dedup();
                match (ordering, stage) {
                    (Ordering::Zipf { share, .. }, Stage::Read) => {
                        assert!((asked - f64::from(share) / 8.0).abs() < 0.03, "{ordering:?}: {asked}");
                    }
                    (Ordering::Random, Stage::Read) => assert!((2300..2900).contains(&requests.len())),
                    _ => assert_eq!(requests.len(), 4096, "each once"),
                }
            }
            assert_ne!(
                objects.requests(Ordering::Random, Stage::Create),
                objects.requests(Ordering::Random, Stage::Delete)
            );
        }
    }

    #[test]
    fn popular_objects_fill_whole_groups() {
        let objects = Objects::new(4096, 1000, 7);
        for ordering in Ordering::ALL {
            let popular = ordering.popular(4096);
            assert!(popular == 4096 || objects.group(popular, 16) == objects.group(popular - 1, 16) + 1);
        }
        assert_eq!([objects.group(0, 16), objects.group(4095, 16), objects.group(4095, 676)], [0, 15, 675]);
        let sizes: Vec<_> = (0..4096).map(|object| objects.bytes(object)).collect();
        assert!(sizes.iter().all(|bytes| (1..=1000).contains(bytes)));
        assert!((450..550).contains(&(objects.all_bytes() / 4096)));
    }
}
