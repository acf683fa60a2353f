//! A clock that is known to be behind: the time of day is later than it says, by what was written down before.
//!
//! Boards without a battery start at a time that is past. Nothing can tell how late it really is, but it is no earlier than when something
//! was last written down, and time goes by from there. As soon as the clock itself says more, or somebody has set it, as the network does, it
//! counts, whatever was written down: that may have been a wrong clock's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::clock::Clock;
use crate::source::Source;

/// 2026-01-01, in seconds since 1970: this program is younger, so that a clock that says less is wrong, whoever has set it.
const LEAST_SECONDS: u64 = 1_767_225_600;
/// A clock that has moved by so much more or less than the monotonic time was set. Where it is steered, that is steered with it.
const SET: Duration = Duration::from_secs(5);

struct Behind {
    clock: Clock,
    /// It was at least this...
    from: SystemTime,
    /// ...then...
    since: Instant,
    /// ...when the clock itself said this.
    own: SystemTime,
    /// Somebody has set the clock since: for good.
    is_set: AtomicBool,
}

impl Behind {
    fn at_least(&self) -> SystemTime {
        self.from.checked_add(self.clock.since(self.since)).unwrap_or(self.from)
    }

    /// Whether somebody has set the clock, which says `wall` now, to what may be right.
    fn is_set(&self, wall: SystemTime) -> bool {
        if self.is_set.load(Ordering::Relaxed) {
            return true;
        }
        let expected = self.own.checked_add(self.clock.since(self.since)).unwrap_or(self.own);
        let apart = wall.duration_since(expected).unwrap_or_else(|earlier| earlier.duration());
        let is_set = apart > SET && Clock::may_be(wall);
        if is_set {
            self.is_set.store(true, Ordering::Relaxed);
        }
        is_set
    }
}

impl Clock {
    /// Whether it may be this time of day: a program that runs was not written later.
    pub fn may_be(time: SystemTime) -> bool {
        time >= UNIX_EPOCH + Duration::from_secs(LEAST_SECONDS)
    }

    /// This clock, whose time of day is never earlier than `from` and what has gone by since this call, until somebody sets it. Where it says
    /// more already, it is the same clock and costs nothing. A machine that was suspended counts as one whose clock was set.
    #[must_use]
    pub fn no_earlier_than(self, from: SystemTime) -> Clock {
        if self.wall() >= from {
            return self;
        }
        let (since, own) = (self.now(), self.wall());
        Clock::of(Arc::new(Behind { clock: self, from, since, own, is_set: AtomicBool::new(false) }))
    }

    /// By how much the clock itself is behind the time of day that this one says; zero where it says its own.
    pub fn behind(&self) -> Duration {
        self.source.as_ref().map_or(Duration::ZERO, |source| source.behind())
    }
}

impl Source for Behind {
    fn beneath(&self) -> Option<&dyn Source> {
        Some(self.clock.source())
    }

    fn wall(&self) -> SystemTime {
        let wall = self.clock.wall();
        if self.is_set(wall) { wall } else { wall.max(self.at_least()) }
    }

    fn behind(&self) -> Duration {
        let wall = self.clock.wall();
        if self.is_set(wall) { Duration::ZERO } else { self.at_least().duration_since(wall).unwrap_or_default() }
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

    /// A wrong clock has written down a time far ahead. Whoever sets the clock knows better, even where it is less.
    #[test]
    fn a_clock_that_was_set_counts_whatever_was_written_down() {
        let hand = ManualClock::new();
        let began = hand.clock().wall();
        let clock = hand.clock().no_earlier_than(began + 40_000 * HOUR);
        // Steered a little, and lost altogether: nobody has set it.
        hand.set_wall(began + SET);
        assert_eq!(clock.wall(), began + 40_000 * HOUR);
        hand.set_wall(UNIX_EPOCH);
        assert_eq!(clock.wall(), began + 40_000 * HOUR);
        hand.set_wall(began - HOUR);
        assert_eq!((clock.wall(), clock.behind()), (began - HOUR, Duration::ZERO));
        hand.set_wall(began);
        assert_eq!((clock.wall(), clock.behind()), (began, Duration::ZERO), "it was set once");
        let clock = hand.clock().no_earlier_than(began + 40_000 * HOUR);
        hand.advance(HOUR);
        assert_eq!(clock.wall(), began + 40_001 * HOUR, "as much as has gone by, and no more");
        hand.set_wall(began + 2 * HOUR);
        assert_eq!((clock.wall(), clock.behind()), (began + 2 * HOUR, Duration::ZERO));
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
