//! A clock for tests, which stands still until it is told to move.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};

use crate::clock::Clock;
use crate::source::Source;

/// How soon a thread that waits on a condition sees that the clock has moved.
const LOOK: Duration = Duration::from_millis(1);

/// Moves a clock. Threads that sleep or wait by it go on when it has moved so far. Dropped, the clock goes on by itself from
/// where it stands, so that whatever still runs by it comes to its end.
pub struct ManualClock {
    hands: Arc<Hands>,
}

struct Hands {
    began: Instant,
    moved: Mutex<Moved>,
    changed: Condvar,
}

struct Moved {
    by: Duration,
    /// The time of day before all of that.
    wall: SystemTime,
    /// When it was let go of.
    runs_since: Option<Instant>,
}

impl Moved {
    fn by(&self) -> Duration {
        self.by + self.runs_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl ManualClock {
    /// A clock that stands at the present time.
    pub fn new() -> Self {
        let moved = Mutex::new(Moved { by: Duration::ZERO, wall: SystemTime::now(), runs_since: None });
        let (began, changed) = (Instant::now(), Condvar::new());
        ManualClock { hands: Arc::new(Hands { began, moved, changed }) }
    }

    /// The clock to hand about.
    pub fn clock(&self) -> Clock {
        Clock::of(self.hands.clone())
    }

    /// Move it forward.
    pub fn advance(&self, by: Duration) {
        self.hands.moved.lock().by += by;
        self.hands.changed.notify_all();
    }

    /// Set its time of day, as the network does, or somebody by mistake: forward or back. A time before 1970 is 1970.
    pub fn set_wall(&self, wall: SystemTime) {
        let mut moved = self.hands.moved.lock();
        moved.wall = wall.checked_sub(moved.by()).unwrap_or(SystemTime::UNIX_EPOCH);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

impl Drop for ManualClock {
    fn drop(&mut self) {
        self.hands.moved.lock().runs_since = Some(Instant::now());
        self.hands.changed.notify_all();
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a clock moved by {:?}", self.hands.moved.lock().by())
    }
}

impl Source for Hands {
    fn now(&self) -> Instant {
        self.began + self.moved.lock().by()
    }

    fn wall(&self) -> SystemTime {
        let moved = self.moved.lock();
        moved.wall + moved.by()
    }

    fn sleep(&self, time: Duration) {
        let mut moved = self.moved.lock();
        let until = moved.by() + time;
        while moved.by() < until {
            let left = until.saturating_sub(moved.by());
            match moved.runs_since {
                None => self.changed.wait(&mut moved),
                Some(_) => drop(self.changed.wait_for(&mut moved, left)),
            }
        }
    }

    fn patience(&self, _until: Instant) -> Duration {
        LOOK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn sleepers_wake_when_the_clock_has_moved_so_far() {
        let hand = ManualClock::new();
        let (tell, told) = std::sync::mpsc::channel();
        let clock = hand.clock();
        let began = (clock.now(), clock.wall());
        let sleeper = clock.clone();
        let thread = clock.spawn("sleeper", move || {
            for _ in 0..2 {
                sleeper.sleep(HOUR);
                tell.send(sleeper.since(began.0)).unwrap_or_default();
            }
        });
        // It sleeps from when it gets to it: an hour may pass before.
        while told.try_recv().is_err() {
            hand.advance(HOUR / 4);
            std::thread::yield_now();
        }
        assert!(clock.since(began.0) >= HOUR);
        assert_eq!(clock.wall().duration_since(began.1).ok(), Some(clock.since(began.0)));
        assert!(told.try_recv().is_err(), "it sleeps still");
        let thread = thread.unwrap();
        while !thread.is_finished() {
            hand.advance(HOUR / 4);
            std::thread::yield_now();
        }
    }

    #[test]
    fn waits_end_by_the_clock_that_was_moved() {
        let hand = ManualClock::new();
        let clock = hand.clock();
        let (state, changed) = (Mutex::new(()), Condvar::new());
        let until = clock.now() + HOUR;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut guard = state.lock();
                while clock.now() < until {
                    clock.wait_until(&changed, &mut guard, until);
                }
            });
            hand.advance(HOUR);
        });
    }

    #[test]
    fn a_clock_that_was_let_go_of_runs() {
        let hand = ManualClock::new();
        let clock = hand.clock();
        let began = clock.now();
        let sleeper = clock.clone();
        let thread = clock.spawn("sleeper", move || sleeper.sleep(Duration::from_millis(3))).unwrap();
        assert_eq!(clock.now(), began);
        drop(hand);
        thread.join().unwrap();
        assert!(clock.since(began) >= Duration::from_millis(3));
    }
}
