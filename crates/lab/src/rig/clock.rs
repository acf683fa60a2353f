//! A clock that whoever runs an experiment sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// The time by which modelled devices and caches work; copies are the same clock. It never goes backwards.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// The time since it was made.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(SeqCst))
    }

    /// Let it reach a time; one that is past already changes nothing. Returns the time that it is now.
    pub fn reach(&self, time: Duration) -> Duration {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.0.fetch_max(nanos, SeqCst).max(nanos))
    }
}
