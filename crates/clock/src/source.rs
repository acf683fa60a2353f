//! Where time and threads come from: the system, if nothing else is said.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// What a thread is to do.
pub type Work = Box<dyn FnOnce() + Send>;

/// Time and threads. Everything is as [`Source::beneath`] has it unless an implementation says otherwise.
pub trait Source: Send + Sync {
    /// The source that this one changes something of; the system where there is none.
    fn beneath(&self) -> Option<&dyn Source> {
        None
    }

    /// The monotonic time. It never goes back.
    fn now(&self) -> Instant {
        self.beneath().map_or_else(Instant::now, |beneath| beneath.now())
    }

    /// The time of day. It may go back.
    fn wall(&self) -> SystemTime {
        self.beneath().map_or_else(SystemTime::now, |beneath| beneath.wall())
    }

    /// By how much a clock that this one goes by is behind what this one says.
    fn behind(&self) -> Duration {
        self.beneath().map_or(Duration::ZERO, |beneath| beneath.behind())
    }

    /// Whether its monotonic time is the system's, so that whoever waits by it may wait by the system's timers.
    fn is_steady(&self) -> bool {
        self.beneath().is_some_and(|beneath| beneath.is_steady())
    }

    /// Return after `time`, or somewhat later.
    fn sleep(&self, time: Duration) {
        self.beneath().map_or_else(|| thread::sleep(time), |beneath| beneath.sleep(time));
    }

    /// For how long, by the system's clock, a thread may wait on a condition before it looks again whether it is `until`.
    fn patience(&self, until: Instant) -> Duration {
        self.beneath().map_or_else(|| until.saturating_duration_since(self.now()), |beneath| beneath.patience(until))
    }

    /// Whether the calling thread runs by itself until it gives way, as in a simulation, where one thread runs at a time. Such a
    /// thread must not wait by the system's means: nobody else runs meanwhile.
    fn takes_turns(&self) -> bool {
        self.beneath().is_some_and(|beneath| beneath.takes_turns())
    }

    /// Whether what blocks is a task like others ([`crate::Clock::block`]). A simulation needs that: when a thread of the runtime's comes and goes is
    /// up to the system.
    fn blocks_at_once(&self) -> bool {
        self.beneath().is_some_and(|beneath| beneath.blocks_at_once())
    }

    /// Let other threads have their turns. It returns at `until`, or earlier, for no reason. Only for threads that
    /// [`Source::takes_turns`] says yes to.
    fn give_way(&self, until: Instant) {
        self.beneath().map_or_else(thread::yield_now, |beneath| beneath.give_way(until));
    }

    /// Start a thread. Errors: the system has no more.
    fn spawn(&self, name: &str, work: Work) -> io::Result<JoinHandle<()>> {
        match self.beneath() {
            Some(beneath) => beneath.spawn(name, work),
            None => thread::Builder::new().name(name.into()).spawn(work),
        }
    }
}

/// The system's.
pub(crate) struct System;

impl Source for System {
    fn is_steady(&self) -> bool {
        true
    }
}
