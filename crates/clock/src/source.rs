//! Where time and threads come from: the system, if nothing else is said.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// What a thread is to do.
pub type Work = Box<dyn FnOnce() + Send>;

/// Time and threads. Everything is the system's unless an implementation says otherwise.
pub trait Source: Send + Sync {
    /// The monotonic time. It never goes back.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// The time of day. It may go back.
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    /// By how much a clock that this one goes by is behind what this one says.
    fn behind(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether its monotonic time is the system's, so that whoever waits by it may wait by the system's timers.
    fn is_steady(&self) -> bool {
        false
    }

    /// Return after `time`, or somewhat later.
    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    /// For how long, by the system's clock, a thread may wait on a condition before it looks again whether it is `until`.
    fn patience(&self, until: Instant) -> Duration {
        until.saturating_duration_since(self.now())
    }

    /// Whether the calling thread runs by itself until it gives way, as in a simulation, where one thread runs at a time. Such a
    /// thread must not wait by the system's means: nobody else runs meanwhile.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Let other threads have their turns. It returns at `until`, or earlier, for no reason. Only for threads that
    /// [`Source::takes_turns`] says yes to.
    fn give_way(&self, _until: Instant) {
        thread::yield_now();
    }

    /// Start a thread. Errors: the system has no more.
    fn spawn(&self, name: &str, work: Work) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name(name.into()).spawn(work)
    }
}

/// The system's.
pub(crate) struct System;

impl Source for System {
    fn is_steady(&self) -> bool {
        true
    }
}
