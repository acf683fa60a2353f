//! The list of what a directory has and when it expires, and the lock file of an object that is being written (section 2.3.1).
//!
//! ```text
//!  0   "TjL1"   u32 bytes of the lines   u64 checksum of both, XXH3 seeded with the store's secret
//!  16  a line for each object: its file's name, a space, when it expires in seconds since 1970 (0: not known)
//! ```
//!
//! A list is written in place; what a longer one left behind the last line is of no account. It decides what is served: what it does not
//! name is a miss. What is not whole decides nothing, and is written anew with the next object of its directory, or when the cache is opened.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use parking_lot::RwLock;
use xxhash_rust::xxh3::Xxh3;

use super::limits::MAX_LIST_BYTES;
use crate::device::tree::{Call, Tree};
use crate::layout::take::{take, take_u32, take_u64};

/// The list of a directory.
pub const LIST: &str = ",metadata";
/// What follows a file's name in that of its lock.
const LOCK: &str = ",lock";
const MAGIC: &[u8; 4] = b"TjL1";
const HEADER_BYTES: usize = 16;

/// What a directory's list says.
#[derive(Debug, PartialEq, Eq)]
pub enum Listed {
    /// When each file expires, by its name.
    Whole(BTreeMap<String, u64>),
    /// There is none.
    Absent,
    /// It is not what was written.
    Damaged,
}

/// The lists of a tree. One thread changes one at a time. Memory: nothing that grows.
pub struct Lists {
    seed: u64,
    turn: RwLock<()>,
}

/// What a path is, beside an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    List,
    Lock,
}

/// Whether a path is that of a list or a lock.
pub(super) fn beside(path: &str) -> Option<Beside> {
    let name = path.rsplit_once('/')?.1;
    match name {
        LIST => Some(Beside::List),
        _ if name.ends_with(LOCK) => Some(Beside::Lock),
        _ => None,
    }
}

impl Lists {
    /// With checksums of this seed.
    pub fn new(seed: u64) -> Lists {
        Lists { seed, turn: RwLock::default() }
    }

    /// Whether an object is being written: there is a lock beside its file. Errors: the tree's.
    pub fn is_locked(&self, tree: &dyn Tree, path: &str) -> io::Result<bool> {
        match tree.call(Call::Read { path: &format!("{path}{LOCK}"), at: 0, into: &mut [] }) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            looked => looked.map(|()| true),
        }
    }

    /// Write to an object's file, and before that, if nothing of it is written yet, a lock beside it. Errors: the tree's.
    pub fn write(&self, tree: &dyn Tree, path: &str, at: u64, bytes: &[u8], is_first: bool) -> io::Result<()> {
        // Both make directories, which nobody may take for empty meanwhile: who removes those has the turn alone.
        let _turn = self.turn.read();
        if is_first {
            tree.call(Call::Write { path: &format!("{path}{LOCK}"), at: 0, bytes: b"" })?;
        }
        tree.call(Call::Write { path, at, bytes })
    }

    /// All of an object is written: put it on the list of its directory, and remove its lock. Of a list that is damaged or gone `others` has what
    /// belongs there. Errors: the tree's.
    pub fn enter(
        &self,
        tree: &dyn Tree,
        path: &str,
        expires: u64,
        others: impl FnOnce() -> BTreeMap<String, u64>,
    ) -> io::Result<()> {
        let _turn = self.turn.write();
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut listed = match self.read(tree, directory)? {
            Listed::Whole(listed) => listed,
            Listed::Absent | Listed::Damaged => others(),
        };
        listed.insert(name.to_owned(), expires);
        self.put(tree, directory, &listed)?;
        tree.call(Call::Remove { path: &format!("{path}{LOCK}") })
    }

    /// Take an object from its list and remove its file; with the last one the directory goes, and each above that is empty then. Errors:
    /// the tree's, if the file may be there still. `is_alone` says whether the directory has no other, where its list does not.
    pub fn remove(&self, tree: &dyn Tree, path: &str, is_alone: bool) -> io::Result<()> {
        let _turn = self.turn.write();
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let listed = self.read(tree, directory).unwrap_or(Listed::Damaged);
        let is_last = match listed {
            Listed::Whole(mut listed) => {
                let was_there = listed.remove(name).is_some();
                // A list that names too much is told from the files when the cache is opened.
                if was_there && !listed.is_empty() {
                    self.put(tree, directory, &listed).unwrap_or_default();
                }
                listed.is_empty()
            }
            Listed::Absent => true,
            Listed::Damaged => is_alone,
        };
        tree.call(Call::Remove { path })?;
        tree.call(Call::Remove { path: &format!("{path}{LOCK}") }).unwrap_or_default();
        if is_last {
            self.remove_directory(tree, directory).unwrap_or_default();
        }
        Ok(())
    }

    /// Remove a directory's list, and the directory, and those above it, as far as they are empty.
    fn remove_directory(&self, tree: &dyn Tree, directory: &str) -> io::Result<()> {
        tree.call(Call::Remove { path: &format!("{directory}/{LIST}") })?;
        let above = directory.match_indices('/').map(|(end, _)| directory.get(..end).unwrap_or_default());
        let mut all: Vec<&str> = above.chain([directory]).collect();
        while let Some(path) = all.pop() {
            tree.call(Call::RemoveDirectory { path })?;
        }
        Ok(())
    }

    /// Whether a file may be served: `false` if the list of its directory does not name it. Errors: the tree's.
    pub fn names(&self, tree: &dyn Tree, path: &str) -> io::Result<bool> {
        let _turn = self.turn.read();
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok(match self.read(tree, directory)? {
            Listed::Whole(listed) => listed.contains_key(name),
            Listed::Absent => false,
            Listed::Damaged => true,
        })
    }

    /// A directory's list. Errors: the tree's.
    pub fn read(&self, tree: &dyn Tree, directory: &str) -> io::Result<Listed> {
        let path = format!("{directory}/{LIST}");
        let read = |at: usize, bytes: usize| {
            let mut into = vec![0; bytes];
            match tree.call(Call::Read { path: &path, at: at as u64, into: &mut into }) {
                Ok(()) => Ok(Some(into)),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
                Err(error) => Err(error),
            }
        };
        let header = match read(0, HEADER_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Listed::Absent),
            header => header?,
        };
        let Some((bytes, sum)) = header.and_then(|header| read_header(&header)) else { return Ok(Listed::Damaged) };
        let lines = read(HEADER_BYTES, bytes)?.filter(|lines| self.sum(lines) == sum);
        let listed = lines.and_then(|lines| String::from_utf8(lines).ok()).and_then(|lines| parsed(&lines));
        Ok(listed.map_or(Listed::Damaged, Listed::Whole))
    }

    /// Write a directory's list, or remove it with the directory where nothing is on it. Errors: the tree's.
    pub fn put(&self, tree: &dyn Tree, directory: &str, listed: &BTreeMap<String, u64>) -> io::Result<()> {
        if listed.is_empty() {
            return self.remove_directory(tree, directory);
        }
        tree.call(Call::Write { path: &format!("{directory}/{LIST}"), at: 0, bytes: &self.encode(listed) })
    }

    fn encode(&self, listed: &BTreeMap<String, u64>) -> Vec<u8> {
        let lines: String = listed.iter().map(|(name, expires)| format!("{name} {expires}\n")).collect();
        let bytes = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        [&MAGIC[..], &bytes.to_le_bytes(), &self.sum(lines.as_bytes()).to_le_bytes(), lines.as_bytes()].concat()
    }

    fn sum(&self, lines: &[u8]) -> u64 {
        let mut hash = Xxh3::with_seed(self.seed);
        hash.update(&(lines.len() as u64).to_le_bytes());
        hash.update(lines);
        hash.digest()
    }
}

fn read_header(mut header: &[u8]) -> Option<(usize, u64)> {
    let magic: [u8; 4] = take(&mut header)?;
    let bytes = take_u32(&mut header)? as usize;
    (magic == *MAGIC && bytes <= MAX_LIST_BYTES).then_some((bytes, take_u64(&mut header)?))
}

fn parsed(lines: &str) -> Option<BTreeMap<String, u64>> {
    let entry =
        |line: &str| line.rsplit_once(' ').and_then(|(name, expires)| Some((name.to_owned(), expires.parse().ok()?)));
    lines.lines().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tree::MemoryTree;

    const PATH: &str = "http/a.test/x,0000002A";

    fn written() -> (Lists, MemoryTree) {
        let (lists, tree) = (Lists::new(42), MemoryTree::default());
        lists.write(&tree, PATH, 0, b"part", true).unwrap();
        assert_eq!((lists.names(&tree, PATH).unwrap(), lists.is_locked(&tree, PATH).unwrap()), (false, true));
        lists.write(&tree, PATH, 4, b"end", false).unwrap();
        lists.enter(&tree, PATH, 1_800_000_000, BTreeMap::new).unwrap();
        (lists, tree)
    }

    #[test]
    fn what_is_written_is_listed_until_it_is_removed() {
        let (lists, tree) = written();
        assert!(lists.names(&tree, PATH).unwrap() && !lists.is_locked(&tree, PATH).unwrap());
        lists.write(&tree, "http/a.test/x,0000002B", 0, b"newer", true).unwrap();
        lists.enter(&tree, "http/a.test/x,0000002B", 0, BTreeMap::new).unwrap();
        lists.remove(&tree, PATH, false).unwrap();
        assert!(!lists.names(&tree, PATH).unwrap() && lists.names(&tree, "http/a.test/x,0000002B").unwrap());
        lists.remove(&tree, "http/a.test/x,0000002B", true).unwrap();
        let mut left = Vec::new();
        tree.list(&mut |path, _| left.push(path.to_owned())).unwrap();
        assert!(left.is_empty(), "{left:?}");
    }

    /// A list decides while it is whole, and no flipped bit passes for one that is.
    #[test]
    fn a_damaged_list_decides_nothing() {
        let (lists, tree) = written();
        let mut bits = 0;
        tree.change("http/a.test/,metadata", |bytes| bits = bytes.len() * 8);
        let flip = |bit: usize| tree.change("http/a.test/,metadata", |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        for bit in 0..bits {
            flip(bit);
            assert_eq!(lists.read(&tree, "http/a.test").unwrap(), Listed::Damaged, "bit {bit}");
            assert!(lists.names(&tree, PATH).unwrap());
            flip(bit);
        }
        tree.change("http/a.test/,metadata", |bytes| bytes.truncate(30));
        assert_eq!(lists.read(&tree, "http/a.test").unwrap(), Listed::Damaged);
        // The next object has the others listed again.
        let newer = "http/a.test/x,0000002B";
        lists.write(&tree, newer, 0, b"newer", true).unwrap();
        lists.enter(&tree, newer, 0, || BTreeMap::from([("x,0000002A".to_owned(), 7)])).unwrap();
        assert!(lists.names(&tree, PATH).unwrap() && lists.names(&tree, newer).unwrap());
    }

    /// The golden file of version 1: what is written today lies where it did.
    #[test]
    fn a_list_lies_as_it_did() {
        let (_, tree) = written();
        let mut hex = String::new();
        let is_there = tree.change("http/a.test/,metadata", |bytes| {
            hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        });
        assert!(is_there);
        assert_eq!(hex, include_str!("golden-list-v1.txt").trim());
    }
}
