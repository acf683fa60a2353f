//! Epochs of a saved index: what was forgotten before one began is not in an index that was saved since.
//!
//! To forget writes nothing, so what was forgotten may be back when the cache is opened anew, from an index that was saved before. Each saved index
//! says its epoch. Whoever keeps a list of what is forgotten begins a new epoch behind it, and may drop the list once an index of that epoch is on the
//! disk: opening goes by that one, or tells of an older epoch.
//!
//! An index is saved for the sake of an epoch at most once an hour; those that are saved anyway belong to it too.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Between two indexes that are saved for epochs alone.
pub(crate) const PERIOD: Duration = Duration::from_secs(3600);

/// The epochs of one disk.
pub(crate) struct Epochs(Mutex<State>);

#[derive(Clone, Copy)]
struct State {
    begun: u64,
    saved: u64,
    /// When an index was last saved that told of a new one, or could not be.
    last: Option<Instant>,
}

impl Epochs {
    /// Of an index that was opened from one of this epoch; 0 where there was none, or that knew of no epochs.
    pub fn opened(epoch: u64) -> Self {
        Epochs(Mutex::new(State { begun: epoch, saved: epoch, last: None }))
    }

    /// What is forgotten from now on belongs to a later epoch than this.
    pub fn begin(&self, epoch: u64) {
        let mut state = self.0.lock();
        state.begun = state.begun.max(epoch);
    }

    /// The one that an index belongs to whose place in the log, and whose first page, are read after this.
    pub fn begun(&self) -> u64 {
        self.0.lock().begun
    }

    /// The newest that an index on the disk belongs to.
    pub fn saved(&self) -> u64 {
        self.0.lock().saved
    }

    /// Whether an index is to be saved so that the epoch which has begun is on the disk.
    pub fn is_due(&self, now: Instant) -> bool {
        let state = self.0.lock();
        state.begun > state.saved && state.last.is_none_or(|last| now.saturating_duration_since(last) >= PERIOD)
    }

    /// An index of this epoch was saved, or could not be.
    pub fn was_saved(&self, epoch: u64, is_saved: bool, now: Instant) {
        let mut state = self.0.lock();
        if epoch > state.saved {
            state.last = Some(now);
        }
        if is_saved {
            state.saved = epoch;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_saved_for_an_epoch_once_an_hour() {
        let (epochs, start) = (Epochs::opened(7), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!epochs.is_due(at(0)) && epochs.saved() == 7);
        epochs.begin(8);
        epochs.begin(6);
        assert_eq!((epochs.begun(), epochs.saved()), (8, 7));
        assert!(epochs.is_due(at(0)), "the first one at once");
        epochs.was_saved(8, false, at(1));
        assert!(!epochs.is_due(at(2)) && epochs.saved() == 7, "it could not be");
        assert!(epochs.is_due(at(3601)));
        epochs.was_saved(8, true, at(3602));
        assert!(!epochs.is_due(at(9000)) && epochs.saved() == 8);
        epochs.begin(9);
        assert!(epochs.is_due(at(9000)));
        // One that was saved meanwhile, for its own sake, and knew of the one before: that is none for the sake of an epoch.
        epochs.was_saved(8, true, at(9001));
        assert!(epochs.is_due(at(9002)));
        epochs.was_saved(9, true, at(9003));
        epochs.begin(10);
        assert!(!epochs.is_due(at(9003 + 3599)) && epochs.is_due(at(9003 + 3600)));
    }
}
