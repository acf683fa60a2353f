//! Files beneath one directory, for engines that leave the placing of bytes to a file system.
//!
//! A [`Call`] is carried out on the thread that makes it, so an engine makes them on threads of its own. There is one
//! method for all of them, so that wrappers compose as those of devices do: [`Counted`] counts, [`Faulty`] fails. Paths are
//! relative, their parts are parted by `/`, and an engine makes them of its own numbers: no byte of a client's is in one, but for the
//! tree by URL, which escapes them.

mod counted;
mod faulty;
mod memory;
mod real;
pub(crate) mod workers;

use std::io;

pub use counted::Counted;
pub use faulty::{Faulty, FileFault};
pub use memory::{Fate, MemoryTree};
pub use real::RealTree;

/// What to do to a file.
#[derive(Debug)]
pub enum Call<'a> {
    /// Fill `into` from offset `at`. A file that ends before is an error of the kind `UnexpectedEof`.
    Read {
        /// Which file.
        path: &'a str,
        /// From which byte on.
        at: u64,
        /// To be filled whole.
        into: &'a mut [u8],
    },
    /// Write at offset `at`. A file that is not there is made, and so are the directories that lead to it.
    Write {
        /// Which file.
        path: &'a str,
        /// From which byte on.
        at: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// Remove a file. One that is not there is removed already.
    Remove {
        /// Which file.
        path: &'a str,
    },
    /// Remove a directory, if it is empty. Errors: of the kind `DirectoryNotEmpty` if it is not.
    RemoveDirectory {
        /// Which directory.
        path: &'a str,
    },
    /// Make all that was done survive power loss.
    Sync,
}

impl Call<'_> {
    /// The file or directory that it is about; `None` for a sync.
    pub fn path(&self) -> Option<&str> {
        match self {
            Call::Read { path, .. }
            | Call::Write { path, .. }
            | Call::Remove { path }
            | Call::RemoveDirectory { path } => Some(path),
            Call::Sync => None,
        }
    }
}

/// Files beneath one directory.
pub trait Tree: Send + Sync + 'static {
    /// Carry out a call and wait for it. Errors: the system's; what failed and where is [`explain`]'s to say.
    fn call(&self, call: Call<'_>) -> io::Result<()>;

    /// Tell of each file its path and its size in bytes, in no order. What is neither a file nor a directory is passed over.
    /// Errors: the system's.
    fn list(&self, each: &mut dyn FnMut(&str, u64)) -> io::Result<()>;
}

/// An error with what was tried, and on what.
pub fn explain(error: &io::Error, what: &str, path: &str) -> String {
    format!("cannot {what} {path}: {error}")
}
