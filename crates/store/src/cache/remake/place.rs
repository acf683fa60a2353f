//! Where a cache that is made anew lies until it is whole, and how it takes the old one's place.
//!
//! It is made in the directory `remade` in each of the cache's directories, which is locked by whoever works in it. What has happened is
//! said by names alone, each of which comes to be in one step:
//!
//! 1. `remade` with `making` in it: the new cache is being made. The old one is whole.
//! 2. `remade/whole` in **each** directory: the new cache is whole. From here on nothing goes back.
//! 3. In each directory: the old cache goes into `remade`, then `remade/old-is-out`, then the new one comes out, and then `remade` is
//!    called `remade-old`. The new cache is in its place.
//! 4. When that is so in each directory, `remade-old` is removed.
//!
//! A process that ends in between leaves one of these, and whoever opens the cache next goes on from there; where not each directory
//! has got to the second, `remade` is removed. A `remade` without `making` is somebody's own and left alone.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};

use crate::cache::OpenError;
use crate::cache::open::FILE_NAME;
use crate::device::is_block_device;
use crate::engine::trees;

const REMADE: &str = "remade";
const DONE: &str = "remade-old";
const MAKING: &str = "making";
const WHOLE: &str = "whole";
const OUT: &str = "old-is-out";
/// What a disk is called that is no part of its cache any more.
const OUTDATED: &str = "outdated";

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_path_buf();
    move |error| OpenError::Place { what, path, error }
}

/// One `remade` that is locked.
struct Locked {
    /// The directory that it is in.
    of: PathBuf,
    _lock: File,
}

/// New caches beside the old ones. Dropped before they are put in place, they are removed.
pub(super) struct Beside {
    /// The cache's own directories, or block devices.
    own: Vec<PathBuf>,
    /// Those that were made here.
    made: Vec<Locked>,
    is_placed: bool,
}

impl Beside {
    /// Directories for them, empty and locked. `is_tree` says whether the new cache is one of files in a tree.
    pub(super) fn make(own: &[PathBuf], is_tree: bool) -> Result<Beside, OpenError> {
        let mut beside = Beside { own: own.to_vec(), made: Vec::new(), is_placed: false };
        for dir in own.iter().filter(|dir| !is_block_device(dir)) {
            fs::create_dir_all(dir).map_err(failed("create", dir))?;
            may_move(dir, is_tree)?;
            let remade = dir.join(REMADE);
            match fs::DirBuilder::new().mode(0o700).create(&remade) {
                // An empty one is what a crash leaves at once.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && is_empty(&remade) => {}
                made => made.map_err(failed("create", &remade))?,
            }
            let lock = locked(&remade)?;
            File::create_new(remade.join(MAKING)).and_then(|_| sync(&remade)).map_err(failed("write in", &remade))?;
            beside.made.push(Locked { of: dir.clone(), _lock: lock });
        }
        Ok(beside)
    }

    /// Where they are: a block device stands for itself.
    pub(super) fn dirs(&self) -> Vec<PathBuf> {
        let beside = |dir: &PathBuf| if is_block_device(dir) { dir.clone() } else { dir.join(REMADE) };
        self.own.iter().map(beside).collect()
    }

    /// Put them in the place of the old ones. Errors: the system's; then the next to open the cache goes on with it, or
    /// finds the old one.
    pub(super) fn put_in_place(mut self) -> Result<(), OpenError> {
        for Locked { of, .. } in &self.made {
            let remade = of.join(REMADE);
            // Made by root, it must be the service's, whose directory it is in.
            let owner = fs::metadata(of).map_err(failed("examine", of))?;
            given_to(&remade, &owner).map_err(failed("change the owner of", &remade))?;
        }
        for Locked { of, .. } in &self.made {
            let remade = of.join(REMADE);
            self.is_placed = true;
            step()
                .and_then(|()| File::create_new(remade.join(WHOLE))?.sync_all())
                .and_then(|()| sync(&remade))
                .map_err(failed("write in", &remade))?;
        }
        self.made.iter().try_for_each(|made| move_up(&made.of))?;
        self.made.iter().try_for_each(|made| remove_done(&made.of))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.is_placed {
            for Locked { of, .. } in &self.made {
                // What is left the next to open the cache removes.
                let _ = fs::remove_dir_all(of.join(REMADE));
            }
        }
    }
}

/// End what was cut short: put what is whole in its place, remove what is not. Errors: the system's, and that another process
/// makes the cache anew.
pub(in crate::cache) fn settle(dirs: &[PathBuf]) -> Result<(), OpenError> {
    let is_ours = |dir: &&PathBuf| {
        let remade = dir.join(REMADE);
        fs::symlink_metadata(&remade).is_ok_and(|there| there.is_dir()) && remade.join(MAKING).exists()
    };
    let begun: Vec<_> = dirs.iter().filter(is_ours).collect();
    let locks: Vec<_> = begun.iter().map(|dir| locked(&dir.join(REMADE))).collect::<Result<_, _>>()?;
    let is_whole = begun.iter().all(|dir| dir.join(REMADE).join(WHOLE).exists());
    for dir in begun {
        if is_whole {
            tracing::info!("putting the cache that was made anew in its place in {}", dir.display());
            move_up(dir)?;
        } else {
            let remade = dir.join(REMADE);
            tracing::warn!(
                "removing {}: making the cache anew was cut short; the old cache is whole",
                remade.display()
            );
            removed(&remade).map_err(failed("remove", &remade))?;
        }
    }
    drop(locks);
    for remade in dirs.iter().map(|dir| dir.join(REMADE)).filter(|remade| is_empty(remade)) {
        // The last step of a removal is left.
        fs::remove_dir(&remade).map_err(failed("remove", &remade))?;
    }
    dirs.iter().try_for_each(|dir| remove_done(dir))
}

/// Take a disk out of use whose cache goes on without it: it would bring back what is replaced or removed from now on. Errors: the system's.
pub(super) fn outdate(dir: &Path) -> Result<(), OpenError> {
    for name in [FILE_NAME, trees::NAMES[0]].iter().filter(|name| dir.join(name).exists()) {
        let renamed = fs::rename(dir.join(name), dir.join(format!("{name}.{OUTDATED}"))).and_then(|()| sync(dir));
        renamed.map_err(failed("put out of use", &dir.join(name)))?;
    }
    Ok(())
}

fn locked(remade: &Path) -> Result<File, OpenError> {
    let dir = File::open(remade).map_err(failed("open", remade))?;
    let busy = || OpenError::Remaking(remade.parent().unwrap_or(remade).to_path_buf());
    match dir.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy()),
        Err(TryLockError::Error(error)) => return Err(failed("lock", remade)(error)),
    }
    // Another process may have moved it away before it was locked.
    let same = |there: &Metadata, held: &Metadata| (there.dev(), there.ino()) == (held.dev(), held.ino());
    match (fs::symlink_metadata(remade), dir.metadata()) {
        (Ok(there), Ok(held)) if same(&there, &held) => Ok(dir),
        _ => Err(busy()),
    }
}

/// Whether what is the cache's in a directory can be moved within it, and what the new one brings finds its names free.
fn may_move(dir: &Path, is_tree: bool) -> Result<(), OpenError> {
    let own = fs::metadata(dir).map_err(failed("examine", dir))?;
    for name in parts_of(dir) {
        let path = dir.join(name);
        let refused = |why: &str| OpenError::Setting(format!("{} {why}", path.display()));
        let there = fs::symlink_metadata(&path).map_err(failed("examine", &path))?;
        if there.is_symlink() {
            return Err(refused("is a link, which would be replaced: name the directory that it leads to"));
        }
        if there.dev() != own.dev() {
            return Err(refused("is on a file system of its own, and cannot be replaced: copy the cache elsewhere"));
        }
    }
    let is_others = |name: &&&str| dir.join(name).exists() && !parts_of(dir).contains(name);
    match trees::NAMES.iter().find(is_others).filter(|_| is_tree) {
        Some(name) => {
            let error = io::Error::new(ErrorKind::AlreadyExists, "something else has this name: move it away");
            Err(failed("make", &dir.join(name))(error))
        }
        None => Ok(()),
    }
}

/// What there is of a cache in a directory, in the order in which it may be moved: what says that it is one comes last.
fn parts_of(dir: &Path) -> Vec<&'static str> {
    let [said, others @ ..] = trees::NAMES;
    let mut parts = if dir.join(FILE_NAME).exists() { vec![FILE_NAME] } else { Vec::new() };
    if dir.join(said).exists() {
        parts.extend(others.iter().filter(|name| dir.join(name).exists()));
        parts.push(said);
    }
    parts
}

/// Put what is in `remade` where it belongs.
fn move_up(dir: &Path) -> Result<(), OpenError> {
    let remade = dir.join(REMADE);
    let moved = (|| {
        if !remade.join(OUT).exists() {
            for name in parts_of(dir) {
                step()?;
                fs::rename(dir.join(name), remade.join(format!("old-{name}")))?;
            }
            sync(dir)?;
            step()?;
            File::create(remade.join(OUT))?.sync_all()?;
            sync(&remade)?;
        }
        for name in parts_of(&remade) {
            step()?;
            fs::rename(remade.join(name), dir.join(name))?;
        }
        sync(dir)?;
        step()?;
        fs::rename(&remade, dir.join(DONE))?;
        sync(dir)
    })();
    moved.map_err(failed("put the cache that was made anew into", dir))
}

/// What is left of the old cache goes.
fn remove_done(dir: &Path) -> Result<(), OpenError> {
    let done = dir.join(DONE);
    if done.join(MAKING).exists() || is_empty(&done) {
        removed(&done).map_err(failed("remove", &done))?;
    }
    Ok(())
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes a directory with all in it; what says whose it is, last.
fn removed(dir: &Path) -> io::Result<()> {
    let entries = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort_by_key(|path| [WHOLE, MAKING].iter().position(|mark| path.ends_with(mark)).map_or(0, |at| at + 1));
    for path in paths {
        step()?;
        if fs::symlink_metadata(&path)?.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }?;
    }
    step()?;
    fs::remove_dir(dir)
}

/// Gives all in a directory to an owner, if this process is not theirs.
fn given_to(path: &Path, owner: &Metadata) -> io::Result<()> {
    let there = fs::symlink_metadata(path)?;
    if there.uid() != owner.uid() {
        lchown(path, Some(owner.uid()), Some(owner.gid()))?;
    }
    if there.is_dir() {
        for entry in fs::read_dir(path)? {
            given_to(&entry?.path(), owner)?;
        }
    }
    Ok(())
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A step after which the process may end: in tests it does.
fn step() -> io::Result<()> {
    #[cfg(test)]
    return tests::step();
    #[cfg(not(test))]
    Ok(())
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
