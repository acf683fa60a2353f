//! Whether a node goes on: a process that was stopped has missed what the others told meanwhile, and is to notice that before it serves anything.
//!
//! A machine that was suspended is not noticed so: its monotonic clock stands still too.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::time::{Duration, Instant};

use tinaja_clock::Clock;

/// A node whose thread has done nothing for so long stands still. The thread turns once a second at least, and a busy machine may keep it from that for a while.
/// Whoever purges waits for longer than this before it relies on a node that has just gone: by then that one notices.
pub const LONGEST: Duration = Duration::from_secs(3);

/// When a node's thread was last seen to go on.
pub struct Pulse {
    clock: Clock,
    began: Instant,
    /// Milliseconds since then.
    last: AtomicU64,
}

impl Pulse {
    /// It goes on now.
    pub fn new(clock: Clock) -> Pulse {
        Pulse { began: clock.now(), clock, last: AtomicU64::new(0) }
    }

    /// It goes on. Whether it stood still is asked before.
    pub fn beat(&self) {
        self.last.store(self.now(), Release);
    }

    /// Whether it stands still.
    pub fn stands_still(&self) -> bool {
        self.now().saturating_sub(self.last.load(Acquire)) > LONGEST.as_millis() as u64
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tinaja_clock::ManualClock;

    use super::*;

    #[test]
    fn who_stands_still_is_noticed_until_it_goes_on() {
        let manual = ManualClock::new();
        let pulse = Pulse::new(manual.clock());
        manual.advance(LONGEST);
        assert!(!pulse.stands_still());
        manual.advance(Duration::from_millis(1));
        assert!(pulse.stands_still());
        pulse.beat();
        assert!(!pulse.stands_still(), "it goes on");
    }
}
