//! How much more has gone by than the time of day says, where that was put back.
//!
//! What is stored says at what time of day it came, and its age is the time of day since. Where somebody puts the clock back meanwhile, that is too
//! little, and what is stale would be fresh again. The monotonic time knows better. Between two steps the time of day goes by with it; such a part of a
//! process's life is noted with all times of day that it had. So of a time of day it is known by how much the clock was put back since.
//!
//! # Decisions
//!
//! - A time of day that was put back comes twice. Then it counts as the first of the two: what came since the step is taken to be older than it is, until
//!   the clock has caught up. What is validated once too often costs a request, and what is stale serves nobody.
//! - Where the clock was put forward, what the time of day says counts: the machine may have been suspended, during which the monotonic time stands still.
//! - A step is found when somebody asks. Whoever reads the time of day to write it down has it noted before, so that it is of a part that is known.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::source::Source;

/// A step of less is none: clocks are steered, which adds up.
const LEAST_NANOS: i64 = 1_000_000_000;
/// So often both clocks are read until nobody else has run for long between the two.
const LOOKS: usize = 8;
/// Parts that are told apart. Of more, the two that are nearest to each other count as one, and what came between them with it.
const MOST_PARTS: usize = 16;

/// The parts of a process's life. Memory: 24 bytes each, of [`MOST_PARTS`] at the most.
pub(crate) struct Steps {
    began: Instant,
    /// How far the time of day was ahead of the monotonic time at the last step.
    ahead: AtomicI64,
    has_stepped: AtomicBool,
    past: Mutex<Past>,
}

/// A part that is over: what times of day it had, in nanoseconds since 1970, and by how much the clock had been put back by then, in all.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: i64,
    until: i64,
    put_back: i64,
}

impl Part {
    /// What lies between the two.
    fn gap(&self, next: &Part) -> i64 {
        self.from.max(next.from).saturating_sub(self.until.min(next.until)).max(0)
    }

    /// Both, as if all of it had come in the earlier one.
    fn with(&self, next: &Part) -> Part {
        let (from, until) = (self.from.min(next.from), self.until.max(next.until));
        Part { from, until, put_back: self.put_back.min(next.put_back) }
    }
}

#[derive(Debug)]
struct Past {
    parts: Vec<Part>,
    /// Of the present part: how far the time of day is ahead in it, and its first one.
    ahead: i64,
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
    now.abs_diff(before) >= LEAST_NANOS.unsigned_abs()
}

fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
}

impl Steps {
    /// Nothing was set since this moment. What others stored before came no later than `before`, if that is known.
    pub fn new(now: Instant, wall: SystemTime, before: Option<SystemTime>) -> Steps {
        let wall = nanos(wall);
        let past = Past {
            parts: Vec::new(),
            ahead: wall,
            from: wall,
            lowest: i64::MIN,
            before: before.map_or(i64::MIN, |before| nanos(before).min(wall)),
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

    /// Notes it if somebody has set the clock. Two readings of the clock and a load, if nobody has.
    pub fn note(&self, clock: &dyn Source) {
        if !is_step(self.ahead_by(clock), self.ahead.load(Ordering::Acquire)) {
            return;
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
            if is_step(ahead, past.ahead) {
                past.step(ahead, gone_by);
                self.has_stepped.store(true, Ordering::Release);
                self.ahead.store(ahead, Ordering::Release);
            }
            return;
        }
    }

    /// By how much longer ago this time of day was than the present one says.
    pub fn put_back_since(&self, then: SystemTime, clock: &dyn Source) -> Duration {
        self.note(clock);
        if !self.has_stepped.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        duration(self.past.lock().put_back_since(nanos(then)))
    }

    /// By how much it was put back in all.
    pub fn put_back(&self, clock: &dyn Source) -> Duration {
        self.note(clock);
        self.put_back_so_far()
    }

    /// The same, as far as it was noted.
    pub fn put_back_so_far(&self) -> Duration {
        if !self.has_stepped.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        duration(self.past.lock().put_back)
    }
}

impl Past {
    fn step(&mut self, ahead: i64, gone_by: i64) {
        // It was steered by less than a step, and set now at the latest.
        let from = self.from.saturating_sub(LEAST_NANOS);
        let until = gone_by.saturating_add(self.ahead).saturating_add(LEAST_NANOS);
        self.parts.push(Part { from, until, put_back: self.put_back });
        if self.parts.len() > MOST_PARTS {
            self.merge();
        }
        self.put_back = self.put_back.saturating_add(self.ahead.saturating_sub(ahead).max(0));
        self.from = gone_by.saturating_add(ahead);
        self.lowest = if self.lowest == i64::MIN { self.from } else { self.lowest.min(self.from) };
        self.ahead = ahead;
    }

    /// One part less: what lies far ahead, where a clock was wrong once, stays apart.
    fn merge(&mut self) {
        let gaps = self.parts.windows(2).filter_map(|two| Some(two.first()?.gap(two.last()?)));
        let Some((at, _)) = gaps.enumerate().min_by_key(|(_, gap)| *gap) else { return };
        let next = self.parts.remove(at + 1);
        if let Some(part) = self.parts.get_mut(at) {
            *part = part.with(&next);
        }
    }

    /// At the most, if that time of day came more than once.
    fn put_back_since(&self, then: i64) -> i64 {
        let is_before = then <= self.before || then < self.lowest;
        let parts = self.parts.iter().filter(|part| (part.from..=part.until).contains(&then));
        let by_then = parts.map(|part| part.put_back).chain(is_before.then_some(0)).min();
        by_then.map_or(0, |by_then| self.put_back.saturating_sub(by_then))
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
        let clock = hand.clock().noting(Some(began));
        hand.advance(60 * MINUTE);
        let then = clock.wall();
        hand.advance(MINUTE);
        assert_eq!((clock.put_back_since(then), clock.put_back()), (Duration::ZERO, Duration::ZERO));
        hand.set_wall(then + MINUTE - 40 * MINUTE);
        assert_eq!([then, began - 60 * MINUTE].map(|then| clock.put_back_since(then)), [40 * MINUTE; 2]);
        assert_eq!(clock.put_back(), 40 * MINUTE);
        // What comes now may have come before, until the clock has caught up.
        assert_eq!(clock.put_back_since(clock.wall()), 40 * MINUTE);
        hand.advance(40 * MINUTE + 2 * Duration::from_secs(1));
        assert_eq!(clock.put_back_since(clock.wall()), Duration::ZERO);
        assert_eq!(clock.put_back_since(then), 40 * MINUTE);
        // Right again, or suspended: what the time of day says has gone by counts, and so does what it once did not say.
        hand.set_wall(clock.wall() + 40 * MINUTE);
        assert_eq!([then, began].map(|then| clock.put_back_since(then)), [40 * MINUTE; 2]);
        assert_eq!((clock.put_back_since(clock.wall()), clock.put_back()), (Duration::ZERO, 40 * MINUTE));
    }

    /// A board whose clock starts ahead, and is put right: what is stored from then on is no older than it is.
    #[test]
    fn a_clock_that_starts_ahead_makes_nothing_old_that_comes_later() {
        let hand = ManualClock::new();
        let right = hand.clock().wall();
        hand.set_wall(right + 300 * MINUTE);
        let clock = hand.clock().noting(Some(right - MINUTE));
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
        let clock = hand.clock().noting(Some(began));
        hand.set_wall(began - Duration::from_millis(900));
        assert_eq!(clock.put_back_since(began), Duration::ZERO);
        hand.set_wall(began + 600 * MINUTE);
        assert_eq!((clock.put_back_since(began), clock.put_back()), (Duration::ZERO, Duration::ZERO));
        assert_eq!(hand.clock().put_back_since(began + 900 * MINUTE), Duration::ZERO, "one that notes nothing");
    }

    /// One wrong reading far ahead, and then many small steps: what comes now is not taken for what came then.
    #[test]
    fn what_lies_far_ahead_stays_apart_from_the_rest() {
        let hand = ManualClock::new();
        let clock = hand.clock().noting(None);
        hand.advance(MINUTE);
        let right = clock.wall();
        hand.set_wall(right + 1_000_000 * MINUTE);
        let far = clock.wall();
        clock.note();
        hand.advance(MINUTE);
        hand.set_wall(right + MINUTE);
        assert_eq!(clock.put_back_since(far), 1_000_000 * MINUTE);
        for _ in 0..100 {
            hand.advance(60 * MINUTE);
            hand.set_wall(clock.wall() - MINUTE);
            clock.note();
        }
        hand.advance(2 * MINUTE);
        assert_eq!(clock.put_back_since(clock.wall()), Duration::ZERO);
        assert_eq!((clock.put_back_since(right), clock.put_back()), (1_000_100 * MINUTE, 1_000_100 * MINUTE));
    }

    /// Both steps were found late: the first when somebody asked, long after something had come.
    #[test]
    fn what_comes_before_a_step_is_found_is_of_the_part_behind_it() {
        let hand = ManualClock::new();
        let clock = hand.clock().noting(None);
        hand.set_wall(clock.wall() + 100 * MINUTE);
        hand.advance(MINUTE);
        clock.note();
        let then = clock.wall();
        hand.advance(40 * MINUTE);
        assert_eq!(clock.put_back_since(then), Duration::ZERO);
        hand.set_wall(clock.wall() - 30 * MINUTE);
        hand.advance(MINUTE);
        assert_eq!(clock.put_back_since(then), 30 * MINUTE);
    }

    proptest! {
        /// Whatever is set how often: nothing that came since it began is taken to be younger than it is.
        #[test]
        fn nothing_is_younger_than_it_is(steps in proptest::collection::vec((0..4_u8, -10_000_i64..10_000), 0..80)) {
            let hand = ManualClock::new();
            let clock = hand.clock().noting(None);
            let mut came = Vec::new();
            for (what, seconds) in steps {
                let by = Duration::from_secs(seconds.unsigned_abs());
                match what {
                    0 => hand.advance(by),
                    1 if seconds < 0 => hand.set_wall(clock.wall() - by),
                    1 => hand.set_wall(clock.wall() + by),
                    _ => {
                        clock.note();
                        came.push((clock.wall(), clock.now()));
                    }
                }
                if seconds % 3 != 0 {
                    // Nobody asks.
                    continue;
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
