//! When a disk is given up: it is read on, and nothing more is written to it.

use crate::layout::limits::MAX_WRITE_FAILURES;

/// Writes and syncs that failed in a row, each counted for itself: a disk whose every sync fails keeps nothing, however
/// well its writes go.
#[derive(Default)]
pub(crate) struct Health {
    writes: u32,
    syncs: u32,
    /// Small writes beside the log that failed in a row.
    beside: u32,
    retired: bool,
}

/// So many small writes beside the log are judged as one of its own, which carries as much.
const BESIDE: u32 = 16;

impl Health {
    /// Whether the disk has been given up, which is for good.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }

    pub(crate) fn write_ended(&mut self, well: bool) {
        self.writes = if well { 0 } else { self.writes + 1 };
        self.judge("writes");
    }

    /// A small write to another part of the device ended.
    pub(crate) fn write_beside_ended(&mut self, well: bool) {
        self.beside = if well { 0 } else { self.beside + 1 };
        if well || self.beside % BESIDE == 1 {
            self.write_ended(well);
        }
    }

    pub(crate) fn sync_ended(&mut self, well: bool) {
        self.syncs = if well { 0 } else { self.syncs + 1 };
        self.judge("syncs");
    }

    fn judge(&mut self, which: &str) {
        if !self.retired && self.writes.max(self.syncs) >= MAX_WRITE_FAILURES {
            self.retired = true;
            tracing::error!(
                "{MAX_WRITE_FAILURES} {which} in a row have failed: this disk is retired. What it holds is still served \
                 and nothing more is written to it; replace it, or restart to try it again"
            );
        }
    }
}
