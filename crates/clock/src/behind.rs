//! A clock that is known to be behind: the time of day is later than it says, by what was written down before.
//!
//! Boards without a battery start at a time that is past. Nothing can tell how late it really is, but it is no earlier than when something
//! was last written down, and time goes by from there. As soon as the clock itself says more, as when it has been set by the network, that
//! counts.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::clock::Clock;
use crate::source::{Source, Work};

struct Behind {
    clock: Clock,
    /// It was at least this...
    from: SystemTime,
    /// ...then.
    since: Instant,
}

impl Behind {
    fn at_least(&self) -> SystemTime {
        self.from.checked_add(self.clock.since(self.since)).unwrap_or(self.from)
    }
}

impl Clock {
    /// This clock, whose time of day is never earlier than `from` and what has gone by since this call. Where it says more already, it is the
    /// same clock and costs nothing.
    #[must_use]
    pub fn no_earlier_than(self, from: SystemTime) -> Clock {
        if self.wall() >= from {
            return self;
        }
        let since = self.now();
        Clock::of(Arc::new(Behind { clock: self, from, since }))
    }

    /// By how much the clock itself is behind the time of day that this one says; zero where it says its own.
    pub fn behind(&self) -> Duration {
        self.source.as_ref().map_or(Duration::ZERO, |source| source.behind())
    }
}

impl Source for Behind {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall().max(self.at_least())
    }

    fn behind(&self) -> Duration {
        self.at_least().duration_since(self.clock.wall()).unwrap_or_default()
    }

    fn is_steady(&self) -> bool {
        self.clock.source.as_ref().is_none_or(|source| source.is_steady())
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }

    fn patience(&self, until: Instant) -> Duration {
        self.clock.patience(until)
    }

    fn spawn(&self, name: &str, work: Work) -> io::Result<JoinHandle<()>> {
        self.clock.spawn(name, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manual::ManualClock;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn time_goes_by_from_what_is_known_until_the_clock_says_more() {
        let hand = ManualClock::new();
        let began = hand.clock().wall();
        let clock = hand.clock().no_earlier_than(began + 2 * HOUR);
        assert_eq!((clock.wall(), clock.behind()), (began + 2 * HOUR, 2 * HOUR));
        hand.advance(HOUR);
        assert_eq!((clock.wall(), clock.behind()), (began + 3 * HOUR, 2 * HOUR));
        // The network sets it: a little too late first, and then right.
        hand.set_wall(began + 3 * HOUR + HOUR / 2);
        assert_eq!((clock.wall(), clock.behind()), (began + 3 * HOUR + HOUR / 2, Duration::ZERO));
        hand.set_wall(began + 1000 * HOUR);
        hand.advance(HOUR);
        assert_eq!((clock.wall(), clock.behind()), (began + 1001 * HOUR, Duration::ZERO));
    }

    #[test]
    fn a_clock_that_says_more_is_left_alone() {
        let clock = Clock::system().no_earlier_than(SystemTime::now() - HOUR);
        assert!(clock.source.is_none() && clock.behind() == Duration::ZERO);
        let far = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64)).unwrap();
        let hand = ManualClock::new();
        let clock = hand.clock().no_earlier_than(far);
        hand.advance(HOUR);
        assert_eq!(clock.wall(), far, "as late as can be said");
    }
}
