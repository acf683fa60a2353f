//! When bans leave the file: once the disk itself says that nothing is left which they fit.
//!
//! 1. A walk has come past everything, and what they fit is forgotten ([`super::walk`]). Memory says so alone.
//! 2. An epoch begins in the store: the next index that it saves has nothing of that, and says its epoch.
//! 3. That index is on every disk. The file is written anew without them; it says up to which number they have left, and the epoch.
//!
//! A store that is opened tells the epoch of the index it goes by. If that is older than the file says, as where the newer one was damaged, a disk was
//! away, or the index was made anew from the log, what they fit may be back. So what was asked for before them is validated before it is used, until
//! a walk comes past nothing of it, and an epoch begins behind that.

use super::{Bans, Writer};

impl Bans {
    /// Begins an epoch with `begin`, if something waits for one and the file is not being written; it is given the number behind which.
    pub fn begin_epoch(&self, begin: impl FnOnce(u64) -> Option<u64>) {
        if self.table.read().wants_epoch().is_none() {
            return;
        }
        // While this is held the bans do not change hands, and no walk ends.
        let Some(writer) = self.writer.try_lock() else { return };
        let Some(after) = self.table.read().wants_epoch().filter(|_| matches!(*writer, Writer::Book(_))) else {
            return;
        };
        if let Some(epoch) = begin(after) {
            self.table.write().epoch_began(epoch);
        }
    }

    /// Whether any would leave the file, where an index of this epoch is on each disk.
    pub fn may_leave(&self, saved: u64) -> bool {
        self.table.read().may_leave(saved).is_some()
    }

    /// Writes the file anew without those that nothing fits any more, also once the store is opened anew: an index of this epoch is on each disk.
    /// Those that cannot leave stay. Blocks.
    pub fn leave_out(&self, saved: u64) {
        let mut writer = self.writer.lock();
        let Writer::Book(book) = &mut *writer else { return };
        let (left, number, staying) = {
            let table = self.table.read();
            let Some(left) = table.may_leave(saved) else { return };
            (left, table.number(), table.staying())
        };
        if let Err(error) = book.leave_out(left, number, &staying) {
            tracing::warn!(
                %error, path = %book.path().display(), "purges that name nothing any more stay in the file, which could not be written anew"
            );
            // The next attempt is behind the next walk, or an epoch later.
            return self.table.write().epoch_is_over();
        }
        let mut table = self.table.write();
        table.have_left(left);
        self.show(&table);
    }
}

#[cfg(test)]
#[path = "epochs_tests.rs"]
mod tests;
