//! Calls, counted and timed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tinaja_clock::Clock;

use super::{Call, Tree};
use crate::device::tally::Tally;
use crate::device::{Counters, Kind};

/// A tree that counts. Reads and writes are calls, each of which opens a file: what the file system makes of one the kernel
/// knows.
pub struct Counted {
    below: Arc<dyn Tree>,
    tally: Tally,
    removed: AtomicU64,
}

impl Counted {
    /// This tree, with times by this clock.
    pub fn over(below: Arc<dyn Tree>, clock: Clock) -> Counted {
        Counted { below, tally: Tally::by(clock), removed: AtomicU64::new(0) }
    }

    /// What was done. Calls that failed are timed and not counted.
    pub fn counters(&self) -> Counters {
        self.tally.get()
    }

    /// Files removed.
    pub fn removed(&self) -> u64 {
        self.removed.load(Relaxed)
    }
}

impl Tree for Counted {
    fn call(&self, call: Call<'_>) -> io::Result<()> {
        let (kind, bytes) = match &call {
            Call::Read { into, .. } => (Kind::Read, into.len()),
            Call::Write { bytes, .. } => (Kind::Write, bytes.len()),
            Call::Remove { .. } => {
                self.below.call(call)?;
                self.removed.fetch_add(1, Relaxed);
                return Ok(());
            }
            Call::RemoveDirectory { .. } => return self.below.call(call),
            Call::Sync => (Kind::Sync, 0),
        };
        let accepted = self.tally.began(kind);
        let result = self.below.call(call);
        self.tally.ended(accepted);
        if result.is_ok() {
            match kind {
                Kind::Read => self.tally.read(bytes),
                Kind::Write => self.tally.wrote(bytes),
                Kind::Sync => {}
            }
        }
        result
    }

    fn list(&self, each: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        self.below.list(each)
    }
}
