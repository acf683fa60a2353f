//! Streams in files of their own: those that are too long for a record, or for the memory there is.
//!
//! A file is written under a name that ends in `.part`, gets its end and its lasting name when its entry is closed, and never
//! changes again. The entry's record says which files are its own and what their ends sum up to. Files that no record speaks
//! of are removed when the store is opened; all of them together take a set number of bytes, and the oldest leave for new
//! ones: their entries are misses then, as everything in a cache may be.
//!
//! Since a stored file never changes, a new head beside a long body is one record, which names the body's file once more. A
//! file that was replaced stays until the next flush, unless its room is needed, so that after a power cut either version is
//! whole. The engine does not tell which entries it evicts: their files leave when there are too many bytes or files, or when
//! the store is opened.

mod format;
mod opening;
mod room;
mod stream;
mod workers;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tinaja_store::Clock;
use tinaja_store::engine::Engine;
use tinaja_store::{Digest, Secret};

pub(super) use stream::StreamFile;

use super::counted::Ongoing;
use super::format::InFile;
use super::options::StreamFiles;
use crate::error::BackendError;
use crate::limits::{ENTRY_FILES_SHARE, MAX_UNSYNCED_FILES};
use format::Seal;
use room::Room;
use workers::Workers;

/// Why a file was not read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileFault {
    /// It is not there.
    Missing,
    /// It is not as it was written.
    Damaged,
    /// No room, and nothing that may leave for it.
    Full,
    /// The system said so.
    Io(String),
}

impl FileFault {
    /// Of a call on a path.
    pub(super) fn of(what: &str, path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => FileFault::Missing,
            _ => FileFault::Io(format!("{what} {}: {error}", path.display())),
        }
    }
}

impl std::fmt::Display for FileFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileFault::Missing => f.write_str("a stream's file is not there"),
            FileFault::Damaged => f.write_str("a stream's file is not as it was written"),
            FileFault::Full => f.write_str("files of streams take all the room they may"),
            FileFault::Io(what) => f.write_str(what),
        }
    }
}

/// All files of a store. Memory: about 150 bytes for each.
pub(super) struct Files {
    directory: PathBuf,
    /// What this store's files begin with.
    tag: u32,
    seed: u64,
    most_bytes: u64,
    room: Mutex<Room>,
    workers: Workers,
    /// Files that are being let go of.
    leaving: Ongoing,
}

impl Files {
    /// Make the directory if need be, look at what is in it, and remove what no entry speaks of. Blocks: it reads the end of
    /// each file, and its entry's record. Errors: the directory cannot be made or listed, or the system has no more threads.
    pub(super) fn open(
        options: &StreamFiles,
        clock: &Clock,
        secret: &Secret,
        engine: &dyn Engine,
    ) -> io::Result<Arc<Self>> {
        let StreamFiles { directory, most_bytes } = options;
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
        fs::create_dir_all(directory).map_err(named)?;
        let files = Arc::new(Files {
            directory: directory.clone(),
            tag: (secret.seed() >> 32) as u32,
            seed: secret.seed(),
            most_bytes: *most_bytes,
            room: Mutex::default(),
            workers: Workers::start(clock)?,
            leaving: Ongoing::default(),
        });
        opening::look_around(&files, engine).map_err(named)?;
        Ok(files)
    }

    /// The most bytes an entry may have.
    pub(super) fn most_entry_bytes(&self) -> u64 {
        self.most_bytes / ENTRY_FILES_SHARE
    }

    /// Do blocking work on one of the threads. Errors: it panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BackendError> {
        let lost = || BackendError::Unreadable("a thread that works on files has ended: open the cache anew".into());
        self.workers.run(work).await.ok_or_else(lost)
    }

    fn seal(&self, number: u64, id: Digest) -> Seal {
        Seal::new(self.seed, number, id)
    }

    fn path(&self, number: u64, ending: &str) -> PathBuf {
        self.directory.join(format!("{:08x}-{number:016x}.{ending}", self.tag))
    }

    fn lasting(&self, number: u64) -> PathBuf {
        self.path(number, "stream")
    }

    fn part(&self, number: u64) -> PathBuf {
        self.path(number, "part")
    }

    /// Room for so many bytes more, for which the oldest leave. Blocks. Errors: [`FileFault::Full`].
    fn reserve(&self, bytes: u64) -> Result<(), FileFault> {
        let mut room = self.room.lock();
        while room.taken.saturating_add(bytes) > self.most_bytes {
            let Some(number) = room.evict() else { return Err(FileFault::Full) };
            // A name less is room only once those who read it are done; they are few.
            self.unlink(number);
        }
        room.taken += bytes;
        Ok(())
    }

    fn release(&self, bytes: u64) {
        let mut room = self.room.lock();
        room.taken = room.taken.saturating_sub(bytes);
    }

    fn unlink(&self, number: u64) {
        let path = self.lasting(number);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{} is not removed: {error}", path.display());
            }
            _ => {}
        }
    }

    /// A file has its lasting name. Whatever room it takes was reserved. Blocks where too many wait to be synced. Errors: the
    /// sync's; the file is there all the same.
    fn finished(&self, number: u64, bytes: u64) -> Result<(), FileFault> {
        let (evicted, sync) = {
            let mut room = self.room.lock();
            (room.add(number, bytes), room.unsynced.len() > MAX_UNSYNCED_FILES)
        };
        evicted.into_iter().for_each(|number| self.unlink(number));
        if sync { self.sync() } else { Ok(()) }
    }

    /// No entry speaks of this file any more. Blocks.
    pub(super) fn remove(&self, file: InFile) {
        if self.room.lock().remove(file.number) {
            self.unlink(file.number);
        }
    }

    /// The newest record does not speak of this file any more, and one that a cut of the power would leave does: it goes
    /// after the next sync of all, or sooner when room is wanted.
    pub(super) fn leave(&self, file: InFile) {
        self.room.lock().leave(file.number);
    }

    /// What may be removed once the records written so far last.
    pub(super) fn leaving(&self) -> Vec<InFile> {
        self.room.lock().leaving.iter().map(|number| InFile { number: *number, sum: 0 }).collect()
    }

    /// Close a file, and remove its part if it has no lasting name, on one of the threads.
    fn let_go(&self, part: Option<PathBuf>, file: impl Send + 'static) {
        let begun = self.leaving.begin();
        self.workers.push(move || {
            drop(part.map(fs::remove_file));
            drop((file, begun));
        });
    }

    /// Wait until all files that nobody has open any more are closed, and parts of them removed.
    pub(super) async fn have_left(&self) {
        self.leaving.wait().await;
    }

    /// Make all files that have their lasting names survive a cut of the power. Blocks. Errors: the system's; what could not
    /// be synced is not tried again, since nobody knows what became of it: it does not verify if it was lost.
    pub(super) fn sync(&self) -> Result<(), FileFault> {
        let numbers = std::mem::take(&mut self.room.lock().unsynced);
        let mut result = Ok(());
        if numbers.is_empty() {
            return result;
        }
        for number in numbers {
            let path = self.lasting(number);
            match File::open(&path).and_then(|file| file.sync_all()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    result = Err(FileFault::of("sync of", &path, &error));
                }
                _ => {}
            }
        }
        result.and(self.sync_names())
    }

    /// Make the names that files have now survive a cut of the power. Blocks. Errors: the system's.
    fn sync_names(&self) -> Result<(), FileFault> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| FileFault::of("sync of", &self.directory, &error))
    }
}
