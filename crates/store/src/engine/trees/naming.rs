//! Which file an object goes into: the formulas of section 2.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::urls::{self, Address};
use crate::device::mapped::Segment;

/// How files are named, and what goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// By number, (n mod l1, n/l1 mod l2, n): neighbours lie in different directories (2.3.2).
    Squid,
    /// By number, (n/(k l2), n/k mod l2, n mod k): k files fill a directory, then the next one (2.4.1).
    Squid2,
    /// By host, (h(s) and m1, h(s) and m2, n): what a host has lies in one directory (2.4.1).
    SquidL,
    /// By host, and at most k files a directory: a full one is followed by the next that is not. Ours; section 2.4.1 says
    /// that it could be done.
    SquidLK,
    /// By URL, a directory for each of its components (2.3.1).
    Cern,
}

/// A scheme with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Which.
    pub scheme: Scheme,
    /// First-level directories, l1.
    pub first: u32,
    /// Second-level directories in each, l2.
    pub second: u32,
    /// Files in a directory at most, k; of no account to schemes without that limit.
    pub files: u32,
    /// Whether both masks of SquidL take the same bits of the hash, as far as they go: there are as many directories as
    /// the larger mask has values then, and not their product. The paper does not say.
    pub overlapping: bool,
}

/// The place of a file in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileSpot {
    /// The number of its directory: first level times l2, plus second level.
    pub directory: u32,
    /// Its name there.
    pub file: u32,
}

/// Where an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spot {
    /// In a file of its own.
    File(FileSpot),
    /// In a segment of the mapped file.
    Segment(Segment),
}

/// Numbers of files: new ones count up, those of files that are gone are used again (2.3.2). Memory: 4 bytes for each
/// number that waits, and for SquidLK 4 bytes a directory.
pub struct Numbers {
    naming: Naming,
    next: u32,
    free: Vec<u32>,
    /// Files in each directory, where that is limited by choice of directory.
    counts: Vec<u32>,
}

impl Naming {
    fn directories(&self) -> u32 {
        self.first.saturating_mul(self.second)
    }

    /// How many files there may be.
    pub fn most_files(&self) -> u64 {
        match self.scheme {
            Scheme::Squid | Scheme::SquidL | Scheme::Cern => u64::from(u32::MAX),
            Scheme::Squid2 | Scheme::SquidLK => {
                (u64::from(self.directories()) * u64::from(self.files)).min(u32::MAX.into())
            }
        }
    }

    /// The file's path beneath the root, in capital hexadecimal digits as Squid writes it. Not of a tree by URL.
    pub fn path(&self, spot: FileSpot) -> String {
        let (x, y) = (spot.directory / self.second.max(1), spot.directory % self.second.max(1));
        format!("{x:02X}/{y:02X}/{:08X}", spot.file)
    }

    /// The spot of which this is the path; `None` if it is no path of this naming.
    pub fn spot(&self, path: &str) -> Option<FileSpot> {
        let mut parts = path.split('/').map(|part| u32::from_str_radix(part, 16).ok());
        let (x, y, file) = (parts.next()??, parts.next()??, parts.next()??);
        let directory = x.checked_mul(self.second)?.checked_add(y)?;
        let spot = FileSpot { directory, file };
        (x < self.first && y < self.second && self.path(spot) == path).then_some(spot)
    }

    /// The path of an object.
    pub fn path_of(&self, spot: Spot) -> String {
        match spot {
            Spot::File(spot) => self.path(spot),
            Spot::Segment(segment) => segment.path(),
        }
    }

    /// What lies at a path; `None` if it is none of the cache's.
    pub fn spot_of(&self, path: &str) -> Option<Spot> {
        if self.scheme == Scheme::Cern {
            let (_, _, file) = urls::parsed(path)?;
            return Some(Spot::File(FileSpot { directory: 0, file }));
        }
        self.spot(path).map(Spot::File).or_else(|| Segment::of(path).map(Spot::Segment))
    }

    /// The number of the file at a spot.
    fn number(&self, spot: FileSpot) -> u32 {
        match self.scheme {
            Scheme::Squid2 => spot.directory.saturating_mul(self.files).saturating_add(spot.file),
            Scheme::Squid | Scheme::SquidL | Scheme::SquidLK | Scheme::Cern => spot.file,
        }
    }

    /// Where the file of this number belongs, by number alone; `None` past the last one.
    fn by_number(&self, number: u32) -> Option<FileSpot> {
        match self.scheme {
            Scheme::Squid2 => {
                let (directory, file) = (number.checked_div(self.files)?, number.checked_rem(self.files)?);
                (directory < self.directories()).then_some(FileSpot { directory, file })
            }
            // Its path is its URL's: there is one directory to number them in.
            Scheme::Cern => Some(FileSpot { directory: 0, file: number }),
            Scheme::Squid | Scheme::SquidL | Scheme::SquidLK => {
                let (x, y) =
                    (number.checked_rem(self.first)?, number.checked_div(self.first)?.checked_rem(self.second)?);
                Some(FileSpot { directory: x * self.second + y, file: number })
            }
        }
    }

    /// The directory of a host with this hash.
    fn by_host(&self, hash: u64) -> u32 {
        let (x, rest) = (hash & u64::from(self.first - 1), hash >> self.first.trailing_zeros());
        let y = if self.overlapping { hash } else { rest } & u64::from(self.second - 1);
        x as u32 * self.second + y as u32
    }
}

/// Which directory a file goes into, where that is not by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// That of a host with this hash.
    Host(u64),
    /// This one, where the object's file has been.
    Directory(u32),
    /// That of its URL.
    Url(Address),
}

/// What stands for the host that an object came from: its site where that is told, else the host of its name, if that is a
/// URL. `None` if neither says.
pub fn host_hash(name: &[u8], site: Option<u64>, seed: u64) -> Option<u64> {
    let behind = name.windows(3).position(|three| three == b"://").and_then(|at| name.get(at + 3..));
    match (site, behind) {
        (Some(site), _) => Some(xxh3_64_with_seed(&site.to_le_bytes(), seed)),
        (None, Some(behind)) => {
            let end = behind.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(behind.len());
            Some(xxh3_64_with_seed(behind.get(..end).unwrap_or_default(), seed))
        }
        (None, None) => None,
    }
}

impl Numbers {
    /// All of them free.
    pub fn new(naming: Naming) -> Numbers {
        let counted = if naming.scheme == Scheme::SquidLK { naming.directories() as usize } else { 0 };
        Numbers { naming, next: 0, free: Vec::new(), counts: vec![0; counted] }
    }

    /// With files at these spots.
    pub fn with(naming: Naming, taken: impl Iterator<Item = FileSpot>) -> Numbers {
        let mut numbers = Numbers::new(naming);
        let mut used: Vec<u32> = Vec::new();
        for spot in taken {
            used.push(naming.number(spot));
            numbers.count(spot, 1);
        }
        used.sort_unstable();
        used.dedup();
        let mut next = 0;
        for number in used {
            numbers.free.extend(next..number);
            next = number.saturating_add(1);
        }
        numbers.next = next;
        numbers
    }

    /// A spot for a file that has its home there; `None` if there is none left. Number `u32::MAX` is never given out.
    pub fn take(&mut self, home: &Home) -> Option<FileSpot> {
        let own = match home {
            // Their levels are powers of two; those of the others need not be.
            Home::Host(hash) => self.naming.by_host(*hash),
            Home::Directory(directory) => *directory,
            Home::Url(_) => 0,
        };
        let directory = match self.naming.scheme {
            Scheme::SquidL => Some(own),
            Scheme::SquidLK => Some(self.free_directory(own)?),
            Scheme::Squid | Scheme::Squid2 | Scheme::Cern => None,
        };
        let number = self.free.last().copied().unwrap_or(self.next);
        let by_number = self.naming.by_number(number).filter(|_| number < u32::MAX)?;
        match self.free.pop() {
            Some(_) => {}
            None => self.next += 1,
        }
        let spot = FileSpot { directory: directory.unwrap_or(by_number.directory), ..by_number };
        self.count(spot, 1);
        Some(spot)
    }

    /// The file is gone, and its number is free.
    pub fn give_back(&mut self, spot: FileSpot) {
        self.count(spot, -1);
        self.free.push(self.naming.number(spot));
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        ((self.free.capacity() + self.counts.capacity()) * 4) as u64
    }

    fn count(&mut self, spot: FileSpot, change: i32) {
        if let Some(count) = self.counts.get_mut(spot.directory as usize) {
            *count = count.saturating_add_signed(change);
        }
    }

    /// This directory, or the first behind it with room.
    fn free_directory(&self, own: u32) -> Option<u32> {
        let (own, all) = (u64::from(own), u64::from(self.naming.directories()));
        let in_turn = (own..own + all).map(|directory| (directory % all.max(1)) as u32);
        let has_room =
            |directory: &u32| self.counts.get(*directory as usize).is_some_and(|count| *count < self.naming.files);
        in_turn.into_iter().find(has_room)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn naming(scheme: Scheme) -> Naming {
        Naming { scheme, first: 16, second: 256, files: 256, overlapping: false }
    }

    /// The formulas of the paper, worked out by hand.
    #[test]
    fn files_lie_where_the_paper_says() {
        let squid = |n: u32| naming(Scheme::Squid).by_number(n).map(|spot| naming(Scheme::Squid).path(spot)).unwrap();
        // (n mod 16, n/16 mod 256, n)
        assert_eq!(squid(0), "00/00/00000000");
        assert_eq!(squid(17), "01/01/00000011");
        assert_eq!(squid(16 * 256 + 5), "05/00/00001005");
        let squid2 = |n: u32| naming(Scheme::Squid2).by_number(n).map(|spot| naming(Scheme::Squid2).path(spot));
        // (n/(k l2), n/k mod l2, n mod k)
        assert_eq!(squid2(0).unwrap(), "00/00/00000000");
        assert_eq!(squid2(255).unwrap(), "00/00/000000FF");
        assert_eq!(squid2(256).unwrap(), "00/01/00000000");
        assert_eq!(squid2(256 * 256).unwrap(), "01/00/00000000");
        assert_eq!(squid2(16 * 256 * 256 - 1).unwrap(), "0F/FF/000000FF");
        assert_eq!(
            (squid2(16 * 256 * 256), naming(Scheme::Squid2).most_files()),
            (None, 1 << 20),
            "l1 l2 k and no more"
        );
    }

    #[test]
    fn a_host_has_one_directory() {
        let host = |name: &[u8]| host_hash(name, None, 7).unwrap();
        assert_eq!(host(b"http://a.example/x"), host(b"http://a.example/y/z?q"));
        assert_ne!(host(b"http://a.example/x"), host(b"http://b.example/x"));
        assert_eq!(host_hash(b"x", Some(3), 7), host_hash(b"y", Some(3), 7));
        assert_eq!(host_hash(b"x", None, 7), None);
        let mut numbers = Numbers::new(naming(Scheme::SquidL));
        let spots: Vec<_> = (0..2000).map(|_| numbers.take(&Home::Host(host(b"http://a.example/"))).unwrap()).collect();
        assert!(spots.iter().all(|spot| spot.directory == spots[0].directory));
        // Disjoint masks reach 4096 directories, overlapping ones 256.
        for (overlapping, most) in [(false, 4096), (true, 256)] {
            let naming = Naming { overlapping, ..naming(Scheme::SquidL) };
            let reached: BTreeSet<_> =
                (0..100_000_u64).map(|n| naming.by_host(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20)).collect();
            assert_eq!(reached.len(), most);
        }
    }

    #[test]
    fn a_host_of_many_files_goes_on_in_the_next_directories() {
        let mut numbers = Numbers::new(Naming { files: 100, ..naming(Scheme::SquidLK) });
        let spots: Vec<_> = (0..1000).map(|_| numbers.take(&Home::Host(77)).unwrap()).collect();
        let mut files = BTreeMap::<u32, u32>::new();
        spots.iter().for_each(|spot| *files.entry(spot.directory).or_default() += 1);
        assert!(files.len() == 10 && files.values().all(|count| *count == 100), "{files:?}");
        numbers.give_back(spots[3]);
        let again = numbers.take(&Home::Host(77)).unwrap();
        assert_eq!(again, spots[3], "its own directory first, and the number is used again");
    }

    #[test]
    fn when_all_are_full_there_is_none() {
        for scheme in [Scheme::Squid2, Scheme::SquidLK] {
            let naming = Naming { scheme, first: 2, second: 2, files: 3, overlapping: false };
            let mut numbers = Numbers::new(naming);
            let spots: Vec<_> = std::iter::from_fn(|| numbers.take(&Home::Host(5))).take(20).collect();
            assert_eq!((spots.len(), naming.most_files()), (12, 12));
            numbers.give_back(spots[7]);
            assert_eq!((numbers.take(&Home::Host(5)), numbers.take(&Home::Host(5))), (Some(spots[7]), None));
        }
    }

    #[test]
    fn strange_paths_are_none_of_ours() {
        for path in [
            "",
            "00",
            "00/00",
            "00/00/00000000/",
            "0/0/0",
            "00/00/0000000a",
            "10/00/00000000",
            "00/100/00000000",
            "+0/00/00000000",
            "00/00/lock",
        ] {
            assert_eq!(naming(Scheme::Squid).spot(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_path_says_its_spot(scheme in 0..4_usize, hosts in prop::collection::vec(any::<u64>(), 1..200)) {
            let scheme = [Scheme::Squid, Scheme::Squid2, Scheme::SquidL, Scheme::SquidLK][scheme];
            let naming = naming(scheme);
            let mut numbers = Numbers::new(naming);
            let spots: Vec<_> = hosts.iter().map(|host| numbers.take(&Home::Host(*host)).unwrap()).collect();
            prop_assert_eq!(spots.iter().collect::<BTreeSet<_>>().len(), spots.len(), "no two files are one");
            for spot in &spots {
                prop_assert_eq!(naming.spot(&naming.path(*spot)), Some(*spot));
            }
            // Found again after a restart, no number is given out twice.
            let (kept, gone) = spots.split_at(spots.len() / 2);
            let mut again = Numbers::with(naming, kept.iter().copied());
            for host in &hosts {
                prop_assert!(!kept.contains(&again.take(&Home::Host(*host)).unwrap()));
            }
            let _ = gone;
        }
    }
}
