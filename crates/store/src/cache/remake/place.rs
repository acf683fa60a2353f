//! Where a cache that is made anew lies until it is whole, and how it takes the old one's place.
//!
//! It is made in the directory `remade` in each of the cache's directories. When all is on disk, an empty file `whole` is put into each; after
//! the last of them nothing goes back: what is in `remade` is moved up, and a crash meanwhile is no more than a pause. `remade`
//! without that file in each is a beginning, and is removed by whoever opens the cache next. The directory is locked by
//! whoever works in it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::cache::OpenError;
use crate::cache::open::FILE_NAME;
use crate::device::is_block_device;
use crate::engine::trees;

const REMADE: &str = "remade";
const WHOLE: &str = "whole";
const OUT: &str = "old-is-out";

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_path_buf();
    move |error| OpenError::Place { what, path, error }
}

/// New caches beside the old ones. Dropped before they are put in place, they are removed.
pub(super) struct Beside {
    /// The cache's own directories, or block devices.
    own: Vec<PathBuf>,
    locks: Vec<File>,
    is_placed: bool,
}

impl Beside {
    /// Directories for them, empty and locked.
    pub(super) fn make(own: &[PathBuf]) -> Result<Beside, OpenError> {
        let mut beside = Beside { own: own.to_vec(), locks: Vec::new(), is_placed: false };
        for dir in own.iter().filter(|dir| !is_block_device(dir)) {
            fs::create_dir_all(dir).map_err(failed("create", dir))?;
            let remade = dir.join(REMADE);
            fs::DirBuilder::new().mode(0o700).create(&remade).map_err(failed("create", &remade))?;
            beside.locks.push(locked(&remade)?);
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
        for remade in self.dirs().iter().filter(|dir| !is_block_device(dir)) {
            let whole = remade.join(WHOLE);
            let made = File::create_new(&whole).and_then(|file| file.sync_all()).and_then(|()| sync(remade));
            made.map_err(failed("create", &whole))?;
        }
        self.is_placed = true;
        self.own.iter().filter(|dir| !is_block_device(dir)).try_for_each(|dir| move_up(dir))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if self.is_placed {
            return;
        }
        for remade in self.dirs().iter().filter(|dir| !is_block_device(dir)) {
            // What is left the next to open the cache removes.
            let _ = fs::remove_dir_all(remade);
        }
    }
}

/// End what was cut short: put what is whole in its place, remove what is not. Errors: the system's, and that another process
/// makes the cache anew.
pub(in crate::cache) fn settle(dirs: &[PathBuf]) -> Result<(), OpenError> {
    let is_there = |dir: &&PathBuf| fs::symlink_metadata(dir.join(REMADE)).is_ok_and(|there| there.is_dir());
    let begun: Vec<_> = dirs.iter().filter(is_there).collect();
    let locks: Vec<_> = begun.iter().map(|dir| locked(&dir.join(REMADE))).collect::<Result<_, _>>()?;
    let is_whole = begun.iter().all(|dir| dir.join(REMADE).join(WHOLE).exists());
    for dir in begun {
        let remade = dir.join(REMADE);
        if is_whole {
            tracing::info!("putting the cache that was made anew in its place in {}", dir.display());
            move_up(dir)?;
        } else {
            tracing::warn!(
                "removing {}: making the cache anew was cut short, and the old one is as it was",
                remade.display()
            );
            fs::remove_dir_all(&remade).map_err(failed("remove", &remade))?;
        }
    }
    drop(locks);
    Ok(())
}

fn locked(remade: &Path) -> Result<File, OpenError> {
    let dir = File::open(remade).map_err(failed("open", remade))?;
    match dir.try_lock() {
        Ok(()) => Ok(dir),
        Err(TryLockError::WouldBlock) => Err(OpenError::Remaking(remade.parent().unwrap_or(remade).to_path_buf())),
        Err(TryLockError::Error(error)) => Err(failed("lock", remade)(error)),
    }
}

/// Put what is in `remade` where it belongs. First the old cache goes in there, and a file says so; then the new one comes out.
/// Begun anew after a crash, it goes on.
fn move_up(dir: &Path) -> Result<(), OpenError> {
    let remade = dir.join(REMADE);
    let parts = || std::iter::once(FILE_NAME).chain(trees::NAMES);
    let moved = (|| {
        let is_out = remade.join(OUT);
        if !is_out.exists() {
            for name in parts().filter(|name| dir.join(name).exists()) {
                fs::rename(dir.join(name), remade.join(format!("old-{name}")))?;
            }
            sync(dir)?;
            File::create(&is_out)?.sync_all()?;
            sync(&remade)?;
        }
        for name in parts().filter(|name| remade.join(name).exists()) {
            fs::rename(remade.join(name), dir.join(name))?;
        }
        sync(dir)?;
        fs::remove_dir_all(&remade)
    })();
    moved.map_err(failed("put the cache that was made anew into", dir))
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
