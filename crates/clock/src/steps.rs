//! How much more has gone by than the time of day says, where that was put back.
//!
//! What is stored says at what time of day it came, and its age is the time of day since. Where somebody puts the clock back meanwhile, that is too
//! little, and what is stale would be fresh again. The monotonic time knows better. Between two steps the time of day goes by with it; how far the two are
//! apart is noted for each such part of a process's life. So of a time of day that came in an earlier part it is known how long ago that was.
//!
//! A time of day that was put back comes twice. Then it counts as the first of the two: what came since the step is taken to be older than it is, until the
//! clock has caught up. What is validated once too often costs a request, and what is stale serves nobody.
//!
//! Where the clock was put forward, what the time of day says counts: the machine may have been suspended, during which the monotonic time stands still.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::source::Source;

/// A step of less is none: clocks are steered, which adds up.
const LEAST_NANOS: u64 = 1_000_000_000;
/// So often both clocks are read until nobody else has run for long between the two.
const LOOKS: usize = 8;
/// Parts that are told apart. Of more, the two oldest count as one, in which all is as old as in the older of the two, or more.
const MOST_PARTS: usize = 16;

/// The parts of a process's life. Memory: 24 bytes each, of [`MOST_PARTS`] at the most.
pub(crate) struct Steps {
    began: Instant,
    /// How far the time of day was ahead at the last step.
    ahead: AtomicI64,
    has_stepped: AtomicBool,
    past: Mutex<Past>,
}

/// A part that is over. All in nanoseconds since 1970, or of the difference.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: i64,
    until: i64,
    ahead: i64,
}

#[derive(Debug)]
struct Past {
    parts: Vec<Part>,
    /// How far the time of day was ahead when all of it began, and when the present part did.
    first: i64,
    present: i64,
    /// When the present part began, by the time of day.
    from: i64,
    /// What came earlier came before the first part did: no later part has had such a time.
    lowest: i64,
    /// What others stored before came no later than this.
    before: i64,
    /// By how much it was put back in all.
    put_back: i64,
}

fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn is_step(now: i64, before: i64) -> bool {
    now.abs_diff(before) >= LEAST_NANOS
}

fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
}

impl Steps {
    /// Nothing was set since this moment. What others stored before came no later than `before`.
    pub fn new(now: Instant, wall: SystemTime, before: SystemTime) -> Steps {
        let (wall, before) = (nanos(wall), nanos(before));
        let past = Past {
            parts: Vec::new(),
            first: wall,
            present: wall,
            from: wall,
            lowest: i64::MIN,
            before: before.min(wall),
            put_back: 0,
        };
        let (ahead, has_stepped) = (AtomicI64::new(wall), AtomicBool::new(false));
        Steps { began: now, ahead, has_stepped, past: Mutex::new(past) }
    }

    fn gone_by(&self, now: Instant) -> i64 {
        i64::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(i64::MAX)
    }

    fn ahead_by(&self, clock: &dyn Source) -> i64 {
        let gone_by = self.gone_by(clock.now());
        nanos(clock.wall()).saturating_sub(gone_by)
    }

    /// How far the time of day is ahead now. Two readings of the clock and two loads, if nobody has set it.
    fn note(&self, clock: &dyn Source) -> i64 {
        let ahead = self.ahead_by(clock);
        if !is_step(ahead, self.ahead.load(Ordering::Relaxed)) {
            return ahead;
        }
        // Between the two readings others may have run, which is no step. One that seems so till the end is looked at again next time.
        let mut past = self.past.lock();
        for _ in 0..LOOKS {
            let before = self.gone_by(clock.now());
            let ahead = self.ahead_by(clock);
            let gone_by = self.gone_by(clock.now());
            if is_step(gone_by, before) {
                continue;
            }
            if is_step(ahead, past.present) {
                past.step(ahead, gone_by);
                self.ahead.store(ahead, Ordering::Relaxed);
                self.has_stepped.store(true, Ordering::Release);
            }
            return ahead;
        }
        ahead
    }

    /// By how much longer ago this time of day was than the present one says.
    pub fn put_back_since(&self, then: SystemTime, clock: &dyn Source) -> Duration {
        let ahead = self.note(clock);
        if !self.has_stepped.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        let then_ahead = self.past.lock().ahead_at(nanos(then));
        duration(then_ahead.map_or(0, |then| then.saturating_sub(ahead)))
    }

    /// By how much it was put back in all.
    pub fn put_back(&self, clock: &dyn Source) -> Duration {
        self.note(clock);
        duration(self.past.lock().put_back)
    }
}

impl Past {
    fn step(&mut self, ahead: i64, gone_by: i64) {
        let before = self.present;
        // When it was set nobody knows: at the latest now.
        self.parts.push(Part { from: self.from, until: gone_by.saturating_add(before), ahead: before });
        if self.parts.len() > MOST_PARTS {
            let oldest = self.parts.remove(0);
            if let Some(next) = self.parts.first_mut() {
                let (from, until) = (oldest.from.min(next.from), oldest.until.max(next.until));
                *next = Part { from, until, ahead: oldest.ahead.max(next.ahead) };
            }
        }
        self.from = gone_by.saturating_add(ahead);
        self.lowest = if self.lowest == i64::MIN { self.from } else { self.lowest.min(self.from) };
        self.put_back = self.put_back.saturating_add(before.saturating_sub(ahead).max(0));
        self.present = ahead;
    }

    /// How far the time of day was ahead when it said this, at the most; `None` if it has not, as far as is known.
    fn ahead_at(&self, then: i64) -> Option<i64> {
        let is_before = then <= self.before || then < self.lowest;
        let parts = self.parts.iter().filter(|part| (part.from..=part.until).contains(&then)).map(|part| part.ahead);
        parts.chain(is_before.then_some(self.first)).max()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manual::ManualClock;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn what_came_before_a_step_back_is_as_old_as_it_is() {
        let hand = ManualClock::new();
        let began = hand.clock().wall();
        let clock = hand.clock().noting(began);
        hand.advance(60 * MINUTE);
        let then = clock.wall();
        hand.advance(MINUTE);
        assert_eq!((clock.put_back_since(then), clock.put_back()), (Duration::ZERO, Duration::ZERO));
        hand.set_wall(then + MINUTE - 40 * MINUTE);
        assert_eq!([then, began - 60 * MINUTE].map(|then| clock.put_back_since(then)), [40 * MINUTE; 2]);
        assert_eq!(clock.put_back(), 40 * MINUTE);
        // What comes now may have come before, until the clock has caught up.
        assert_eq!(clock.put_back_since(clock.wall()), 40 * MINUTE);
        hand.advance(41 * MINUTE);
        assert_eq!(clock.put_back_since(clock.wall()), Duration::ZERO);
        assert_eq!(clock.put_back_since(then), 40 * MINUTE);
        // Right again.
        hand.set_wall(clock.wall() + 40 * MINUTE);
        assert_eq!([then, began].map(|then| clock.put_back_since(then)), [Duration::ZERO; 2]);
        assert_eq!(clock.put_back(), 40 * MINUTE);
    }

    /// A board whose clock starts ahead, and is put right: what is stored from then on is no older than it is.
    #[test]
    fn a_clock_that_starts_ahead_makes_nothing_old_that_comes_later() {
        let hand = ManualClock::new();
        let right = hand.clock().wall();
        hand.set_wall(right + 300 * MINUTE);
        let clock = hand.clock().noting(right - MINUTE);
        hand.advance(MINUTE);
        let ahead = clock.wall();
        hand.set_wall(right + MINUTE);
        assert_eq!(clock.put_back_since(clock.wall()), Duration::ZERO);
        // Nobody knows how old that is: not by which clock it came.
        assert_eq!(clock.put_back_since(right - 2 * MINUTE), 300 * MINUTE);
        assert_eq!(clock.put_back_since(ahead), 300 * MINUTE);
    }

    #[test]
    fn a_clock_that_is_steered_or_was_suspended_was_not_put_back() {
        let hand = ManualClock::new();
        let began = hand.clock().wall();
        let clock = hand.clock().noting(began);
        hand.set_wall(began - Duration::from_millis(900));
        assert_eq!(clock.put_back_since(began), Duration::ZERO);
        hand.set_wall(began + 600 * MINUTE);
        assert_eq!((clock.put_back_since(began), clock.put_back()), (Duration::ZERO, Duration::ZERO));
        assert_eq!(hand.clock().put_back_since(began + 900 * MINUTE), Duration::ZERO, "one that notes nothing");
    }

    proptest! {
        /// Whatever is set how often: nothing that came since it began is taken to be younger than it is.
        #[test]
        fn nothing_is_younger_than_it_is(steps in proptest::collection::vec((0..4_u8, -10_000_i64..10_000), 0..80)) {
            let hand = ManualClock::new();
            let clock = hand.clock().noting(hand.clock().wall());
            let mut came = Vec::new();
            for (what, seconds) in steps {
                let by = Duration::from_secs(seconds.unsigned_abs());
                match what {
                    0 => hand.advance(by),
                    1 if seconds < 0 => hand.set_wall(clock.wall() - by),
                    1 => hand.set_wall(clock.wall() + by),
                    _ => came.push((clock.wall(), clock.now())),
                }
                for (wall, at) in &came {
                    let said = clock.wall().duration_since(*wall).unwrap_or_default() + clock.put_back_since(*wall);
                    // As what comes from the future it is stale else.
                    let is_ahead = *wall > clock.wall();
                    prop_assert!(is_ahead || said + Duration::from_secs(1) >= clock.since(*at), "{said:?} of {:?}", clock.since(*at));
                }
            }
        }
    }
}
