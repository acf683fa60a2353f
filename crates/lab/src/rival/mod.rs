//! A rival to compare with: an in-place cache of block files, after the public design of Chromium's disk cache, written from an
//! understanding of it.
//!
//! The paper (section 1) says of the cache that it compares with: in-place, LFU, with an entry's age as one criterion. The public design has
//!
//! - an index: a header, and a table of 4 bytes for each hash;
//! - block files with a bitmap each: blocks of 36 bytes for ranks, of 256 bytes for entries (one, or up to four with a long
//!   key) and data up to 1 KiB, of 1 KiB for data up to 4 KiB, of 4 KiB for data up to 16 KiB;
//! - larger streams as files of their own;
//! - lists of entries by how often they were used again, in the order of their last use, linked through the blocks of ranks.
//!
//! All of it is written in place through a page cache ([`crate::rig::PageCache`]): each use of an entry changes its rank and those beside it, each
//! store a few blocks here and there. Here the block files, the index, the larger files and their inodes are regions of one device.
//!
//! Left out, all in the rival's favour: opening it again (what it would find again is kept in memory besides, 300 bytes an entry), chains of the hash table, the file system's journal and
//! directories, growing and truncating block files, the entries that it remembers after it evicted them.

mod blocks;
mod files;
mod handle;
mod ranks;
mod space;
mod state;
mod streams;

use std::sync::Arc;

use parking_lot::Mutex;
use tinaja_backend::{Answer, Backend, BackendError, Entry};

pub use ranks::Ages;
pub use state::Counts;

use crate::rig::{Clock, PageCache};
use handle::Handle;
use state::RivalState;

/// How the rival works.
#[derive(Clone, Copy, Debug)]
pub struct BlockfileOptions {
    /// Bytes of keys and streams that it holds; what it needs besides is not counted, as the public design does not.
    pub bytes: u64,
    /// What ages do.
    pub ages: Ages,
}

/// An in-place cache of block files.
pub struct Blockfile {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<RivalState>,
}

impl Blockfile {
    /// An empty one over a page cache. Its device must have five times `bytes` and 16 MiB; see [`Blockfile::device_bytes`].
    pub fn new(disk: Arc<PageCache>, options: BlockfileOptions, clock: Clock) -> Self {
        Blockfile { shared: Arc::new(Shared { state: Mutex::new(RivalState::new(disk, options, clock)) }) }
    }

    /// Bytes of device for a cache of so many bytes: for the worst case of gaps in every block file.
    pub fn device_bytes(bytes: u64) -> u64 {
        space::device_bytes(bytes)
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        self.shared.state.lock().counts
    }
}

/// A call that is made when it is waited for first, and ends at once: time is the clock's matter.
fn call<T: Send + 'static>(make: impl FnOnce() -> Result<T, BackendError> + Send + 'static) -> Answer<T> {
    Box::pin(async move { make() })
}

impl Blockfile {
    fn handle(
        &self,
        key: &[u8],
        open: impl FnOnce(&mut RivalState, &[u8]) -> Result<u64, BackendError> + Send + 'static,
    ) -> Answer<Arc<dyn Entry>> {
        let (shared, key) = (self.shared.clone(), Box::<[u8]>::from(key));
        call(move || {
            let id = open(&mut shared.state.lock(), &key)?;
            Ok(Arc::new(Handle::new(shared, id, key)) as Arc<dyn Entry>)
        })
    }
}

impl Backend for Blockfile {
    fn create_entry(&self, key: &[u8]) -> Answer<Arc<dyn Entry>> {
        self.handle(key, |state, key| state.create(key))
    }

    fn open_entry(&self, key: &[u8]) -> Answer<Arc<dyn Entry>> {
        self.handle(key, |state, key| state.open(key))
    }

    fn flush(&self) -> Answer<()> {
        let shared = self.shared.clone();
        call(move || shared.state.lock().flush())
    }

    fn stop(&self) -> Answer<()> {
        let shared = self.shared.clone();
        call(move || {
            let mut state = shared.state.lock();
            state.stopped = true;
            state.flush()
        })
    }
}

#[cfg(test)]
mod tests;
