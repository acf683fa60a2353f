//! Lines of the program's log that anybody can cause: some in each second, and then how many more there were.
//!
//! A log fills a disk, and whoever writes to a terminal or to the system's journal waits for it. So what clients can have said
//! as often as they like has a ceiling.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines in a second.
const MOST: u64 = 20;
/// The time that they are counted in.
const SPAN: Duration = Duration::from_secs(1);

/// Who decides whether one more is written.
#[derive(Debug)]
pub(crate) struct Sparing {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    since: Instant,
    written: u64,
    left_out: u64,
}

impl Sparing {
    /// Nothing has been written yet.
    pub fn new(now: Instant) -> Sparing {
        Sparing { state: Mutex::new(State { since: now, written: 0, left_out: 0 }) }
    }

    /// Whether one more may be written: how many were left out since the last one. `None` if not.
    pub fn one_more(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        if now.saturating_duration_since(state.since) >= SPAN {
            (state.since, state.written) = (now, 0);
        }
        if state.written == MOST {
            state.left_out += 1;
            return None;
        }
        state.written += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_in_each_second_and_how_many_more_there_were() {
        let began = Instant::now();
        let sparing = Sparing::new(began);
        let many = |at: Duration, count: u64| -> Vec<u64> {
            (0..count).filter_map(|_| sparing.one_more(began + at)).collect()
        };
        assert_eq!(many(Duration::from_millis(10), 1000), vec![0; 20]);
        assert_eq!(many(Duration::from_millis(999), 5), Vec::<u64>::new());
        let next = many(Duration::from_millis(1000), 30);
        assert_eq!((next.len(), next[0], next[1]), (20, 985, 0));
        assert_eq!(many(Duration::from_secs(9), 1), vec![10]);
        // A clock that stands still, or an earlier time, begins no new second.
        assert_eq!(many(Duration::from_secs(8), 100).len(), 19);
    }
}
