//! Files in memory, for tests: what they hold outlives the engine over them, and the power can go.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Call, Tree};

type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// Files in memory. A clone is the same tree; [`MemoryTree::left`] is another.
#[derive(Clone, Default)]
pub struct MemoryTree(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    now: Files,
    synced: Files,
}

/// What a cut of the power leaves of a file that changed since the last sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// What the last sync left, even nothing.
    Before,
    /// What is there now, even nothing.
    Now,
    /// The beginning of what is there now, up to this many bytes.
    Cut(usize),
    /// As long as what is there now, and nothing but zeros: the length had reached the disk, and the bytes had not.
    Zeros,
}

impl MemoryTree {
    /// The files that have changed since the last sync, by name.
    pub fn unsynced(&self) -> Vec<String> {
        let held = self.0.lock();
        let all = held.now.keys().chain(held.synced.keys().filter(|path| !held.now.contains_key(*path)));
        all.filter(|path| held.now.get(*path) != held.synced.get(*path)).cloned().collect()
    }

    /// What a cut of the power leaves now. Each file that has changed since the last sync meets its own fate.
    pub fn left(&self, fate: impl Fn(&str) -> Fate) -> MemoryTree {
        let changed = self.unsynced();
        let held = self.0.lock();
        let mut left = held.synced.clone();
        for path in changed {
            let now = held.now.get(&path);
            let kept = match fate(&path) {
                Fate::Before => continue,
                Fate::Now => now.cloned(),
                Fate::Cut(bytes) => now.map(|now| Arc::new(now.iter().copied().take(bytes).collect())),
                Fate::Zeros => now.map(|now| Arc::new(vec![0; now.len()])),
            };
            match kept {
                Some(kept) => left.insert(path, kept),
                None => left.remove(&path),
            };
        }
        MemoryTree(Arc::new(Mutex::new(Held { now: left.clone(), synced: left })))
    }

    /// Look at a file or change it behind the back of whoever uses the tree; `false` if it is not there.
    pub fn change(&self, path: &str, act: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut held = self.0.lock();
        let file = held.now.get_mut(path);
        file.map(|file| act(Arc::make_mut(file))).is_some()
    }
}

fn missing(path: &str) -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("there is no {path}"))
}

impl Tree for MemoryTree {
    fn call(&self, call: Call<'_>) -> io::Result<()> {
        let mut held = self.0.lock();
        match call {
            Call::Read { path, at, into } => {
                let file = held.now.get(path).ok_or_else(|| missing(path))?;
                let from = usize::try_from(at).ok().and_then(|at| file.get(at..at.checked_add(into.len())?));
                into.copy_from_slice(from.ok_or(ErrorKind::UnexpectedEof)?);
            }
            Call::Write { path, at, bytes } => {
                let file = Arc::make_mut(held.now.entry(path.to_owned()).or_default());
                let start = usize::try_from(at).map_err(|_| ErrorKind::FileTooLarge)?;
                let end = start.checked_add(bytes.len()).ok_or(ErrorKind::FileTooLarge)?;
                file.resize(file.len().max(end), 0);
                file.get_mut(start..end).ok_or(ErrorKind::FileTooLarge)?.copy_from_slice(bytes);
            }
            Call::Remove { path } => drop(held.now.remove(path)),
            Call::RemoveDirectory { path } => {
                let inside = |file: &String| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
                if held.now.keys().any(inside) {
                    return Err(ErrorKind::DirectoryNotEmpty.into());
                }
            }
            Call::Sync => held.synced = held.now.clone(),
        }
        Ok(())
    }

    fn list(&self, each: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        let files: Vec<_> = self.0.lock().now.iter().map(|(path, file)| (path.clone(), file.len() as u64)).collect();
        files.iter().for_each(|(path, bytes)| each(path, *bytes));
        Ok(())
    }
}
