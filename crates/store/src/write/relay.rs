//! A write that can no longer be stored, and goes on for its followers.
//!
//! Its tail is a window over the last bytes, and moves with the slowest follower in it. Followers that are still reading what
//! was stored before never block those in the window: a client that is a gigabyte behind must not stop everybody else. They
//! may catch up as long as the window has not moved past the end of what was stored. After that they read all that was
//! stored, and then an error tells them so, at a byte from where they can ask the origin.
//!
//! If all followers are behind, the window waits for them. Nobody else wants the bytes, and a task that both writes and reads
//! an object gets to read only while its own write waits.
//!
//! A follower that has not come, or has not read on, when its lease ends is left behind too.

use super::fill::{FillState, Phase};
use super::tail::Tail;
use crate::terms::ReadError;
use crate::write::limits::{RELAY_BYTES, SHORT_RELAY_BYTES, written_bytes};

impl FillState {
    /// Drop what everybody in the window has read. True if there is room in it.
    pub(super) fn make_room(&mut self) -> bool {
        let in_window = self.followers.values().filter(|at| **at >= self.base);
        let slowest = match in_window.min() {
            // What fits is kept for those who may come yet.
            _ if self.is_sought() && self.tail.len() < self.window_bytes() => self.base,
            Some(slowest) => *slowest,
            None if self.is_sought() => self.base,
            None => u64::MAX,
        };
        let read = (slowest - self.base).min(self.tail.len() as u64);
        self.tail.advance(read as usize);
        self.share.set(self.tail.len());
        self.base += read;
        self.tail.len() < self.window_bytes()
    }

    /// How long the window may be: less while all writes hold much.
    pub(super) fn window_bytes(&self) -> usize {
        if self.share.is_beyond(written_bytes() - RELAY_BYTES) { SHORT_RELAY_BYTES } else { RELAY_BYTES }
    }

    /// Whether somebody reads what was stored and may yet reach the window.
    fn is_sought(&self) -> bool {
        self.base == self.stored_to && self.followers.values().any(|at| *at < self.base)
    }

    /// Leave those behind for whom the window has waited.
    pub(super) fn leave_behind_who_stands(&mut self) {
        let base = self.base;
        self.followers.retain(|_, at| *at > base);
    }

    /// Whether a follower can have only what was stored, since the window has gone on without it.
    pub(super) fn left_behind(&self, number: u64) -> bool {
        self.followers.get(&number).is_none_or(|at| !self.is_reached_from(*at))
    }

    /// Whether a follower that has read so far can have the window's bytes.
    fn is_reached_from(&self, at: u64) -> bool {
        at >= self.base || self.base == self.stored_to
    }

    /// Readers that are here now, without those left behind.
    pub(super) fn following(&self) -> usize {
        self.followers.values().filter(|at| self.is_reached_from(**at)).count()
    }

    /// Once the write has ended, keep its last bytes only for those who can have them: a reader left behind may hold
    /// this state for as long as it likes.
    pub(super) fn let_go(&mut self) {
        match self.phase {
            Phase::Whole if self.following() == 0 => {
                self.base = self.arrived();
                self.tail = Tail::default();
            }
            Phase::Aborted => self.tail = Tail::default(),
            _ => {}
        }
        self.share.set(self.tail.len());
    }

    /// What a follower is told when a stored part cannot be read. What never got to the disk of a write that failed is
    /// kept for a while only: whoever comes later was too slow, and nothing was evicted.
    pub(super) fn told(&self, error: ReadError) -> ReadError {
        let is_relay = matches!(self.phase, Phase::Relay(_)) || self.was_relay;
        if is_relay && error == ReadError::Gone { ReadError::Behind } else { error }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use bytes::Bytes;
    use tinaja_clock::ManualClock;

    use super::*;
    use crate::device::{Medium, Memory};
    use crate::engine::Engine;
    use crate::engine::hashcache::HashCacheLog;
    use crate::layout::Stamp;
    use crate::memory::held::Held;
    use crate::store::{FillId, Hint};
    use crate::terms::limits::LEASE;
    use crate::terms::{Digest, Key, WhyNot};
    use crate::write::Fill;

    const EXTENT: usize = 32 << 10;
    const STORED: u64 = 4 * EXTENT as u64;

    /// A write of which four extents and a byte have come, and which is then given up.
    struct Given {
        fill: Fill,
        engine: Arc<dyn Engine>,
        hand: ManualClock,
    }

    impl Given {
        /// A write of which nothing has come, one of all these.
        fn fresh(all: &Held) -> Given {
            let disk = Arc::new(Memory::over(&Medium::zeroed(8 << 20)));
            let options = HashCacheLog::plan(8 << 20, 4096, 4096, 4096, Stamp { seed: 1 }, false).unwrap();
            let engine = Arc::new(HashCacheLog::open(disk, &options).unwrap());
            let (key, digest) = (Key::from_name(b"a"), Digest([7; 16]));
            let fill = Fill::new(FillId(1), key, digest, Bytes::new(), Hint::default(), (EXTENT, 0)).among(all);
            Given { fill, engine, hand: ManualClock::new() }
        }

        /// Followers that have read so far, by their numbers, and the write.
        fn up_with(followers: &[u64]) -> (Given, Vec<u64>) {
            let given = Given::fresh(&Held::default());
            let numbers = followers.iter().map(|_| given.fill.join()).collect::<Vec<_>>();
            assert_eq!(given.write(STORED as usize + 1), 0);
            numbers.iter().zip(followers).for_each(|(number, at)| given.read(*number, *at));
            assert_eq!(given.fill.lock().base, STORED);
            assert_eq!(given.fill.lock().stored_to, STORED);
            given.fill.give_up(WhyNot::Device);
            (given, numbers)
        }

        /// How many of these bytes are not taken at once.
        fn write(&self, bytes: usize) -> usize {
            let (mut data, mut cx) = (Bytes::from(vec![1; bytes]), Context::from_waker(Waker::noop()));
            let taken = self.fill.poll_take(&self.engine, &self.hand.clock(), u64::MAX, &mut cx, &mut data);
            assert_eq!(taken == Poll::Ready(()), data.is_empty());
            data.len()
        }

        fn read(&self, number: u64, at: u64) {
            self.fill.read_to(&mut self.fill.lock(), number, at);
        }

        fn lease_ends(&self) {
            self.hand.advance(LEASE);
        }

        fn left_behind(&self, number: u64) -> bool {
            self.fill.lock().left_behind(number)
        }
    }

    /// Bytes of all unfinished writes are counted, and given back with each.
    #[test]
    fn what_there_is_no_room_for_goes_through_a_short_window_and_is_not_stored() {
        let all = Held::default();
        let stored = Given::fresh(&all);
        assert_eq!(stored.write(3 * EXTENT + 100), 0);
        assert!(all.hold(written_bytes() - 100, written_bytes()).is_some(), "100 bytes are not with the engine");
        assert!(all.hold(written_bytes() - 99, written_bytes()).is_none());
        let rest = all.hold(written_bytes() - 100, written_bytes());

        let relayed = Given::fresh(&all);
        let number = relayed.fill.join();
        assert_eq!(relayed.write(RELAY_BYTES), RELAY_BYTES - SHORT_RELAY_BYTES);
        assert_eq!(relayed.fill.lock().phase, Phase::Relay(WhyNot::Busy));
        relayed.read(number, 1000);
        assert_eq!(relayed.write(RELAY_BYTES), RELAY_BYTES - 1000, "its reader has room made");
        assert_eq!(stored.fill.lock().phase, Phase::Open);
        // There is room again: for a longer window, and for others.
        drop(rest);
        assert_eq!(relayed.write(RELAY_BYTES), SHORT_RELAY_BYTES);
        drop((stored, relayed));
        assert!(all.hold(written_bytes(), written_bytes()).is_some());
    }

    #[test]
    fn the_window_waits_for_those_in_it_and_for_nobody_else() {
        let (given, numbers) = Given::up_with(&[0, STORED - 1, STORED, STORED + 1]);
        // The window is full: it waits for the one that has read all that was stored, and no more.
        assert_eq!(given.write(RELAY_BYTES + 9), 10);
        given.read(numbers[3], STORED + 1000);
        assert_eq!(given.write(10), 10);
        assert!(numbers.iter().all(|number| !given.left_behind(*number)));
        // It reads, and the window goes on without those who are still reading what was stored.
        given.read(numbers[2], STORED + 10);
        assert_eq!(given.write(11), 1);
        assert_eq!(
            numbers.iter().map(|number| given.left_behind(*number)).collect::<Vec<_>>(),
            [true, true, false, false]
        );
        assert_eq!(given.fill.lock().following(), 2);
    }

    #[test]
    fn whoever_catches_up_before_the_window_moves_is_in_it() {
        let (given, numbers) = Given::up_with(&[0, STORED + 1]);
        assert_eq!(given.write(RELAY_BYTES - 1), 0, "kept for the one behind, who may come yet");
        given.read(numbers[1], STORED + RELAY_BYTES as u64);
        given.read(numbers[0], STORED);
        assert_eq!(given.write(1), 1);
        given.read(numbers[0], STORED + 1);
        assert_eq!(given.write(1), 0);
        assert!(!given.left_behind(numbers[0]) && !given.left_behind(numbers[1]));
    }

    #[test]
    fn whoever_stands_still_for_a_lease_is_left_behind() {
        let (given, numbers) = Given::up_with(&[STORED, 0, STORED + 1]);
        assert_eq!(given.write(RELAY_BYTES + 1), 2);
        given.hand.advance(LEASE - Duration::from_millis(1));
        assert_eq!(given.write(2), 2, "a lease is not over");
        given.hand.advance(Duration::from_millis(1));
        assert_eq!(given.write(2), 1, "as much as the next in the window has read");
        assert!(given.left_behind(numbers[0]) && given.left_behind(numbers[1]) && !given.left_behind(numbers[2]));
        // It does not come back by reading, and holds up nobody any more.
        given.read(numbers[0], STORED + 1);
        given.read(numbers[2], STORED + RELAY_BYTES as u64);
        assert!(given.left_behind(numbers[0]));
        assert_eq!(given.write(RELAY_BYTES), 1);
        assert_eq!(given.fill.lock().following(), 1);
    }

    #[test]
    fn those_behind_are_waited_for_only_where_nobody_is_in_the_window() {
        // One task that fetches and reads has no other reader: it reads on when the writer stands.
        let (given, numbers) = Given::up_with(&[0, 5]);
        assert_eq!(given.write(RELAY_BYTES), 1);
        given.read(numbers[0], STORED);
        assert_eq!(given.write(1), 1, "now it is in the window");
        given.read(numbers[0], STORED + 1);
        assert_eq!(given.write(1), 0);
        assert!(given.left_behind(numbers[1]) && !given.left_behind(numbers[0]));
        // For a lease at most; then nothing is kept for anybody.
        let (given, numbers) = Given::up_with(&[0, 5]);
        assert_eq!(given.write(RELAY_BYTES), 1);
        given.lease_ends();
        assert_eq!(given.write(1), 0);
        assert_eq!((given.write(5 * RELAY_BYTES), given.fill.lock().following()), (0, 0));
        assert!(numbers.iter().all(|number| given.left_behind(*number)));
    }

    #[test]
    fn those_left_behind_hold_no_memory() {
        for end in [Phase::Whole, Phase::Aborted] {
            let (given, numbers) = Given::up_with(&[STORED, 0, STORED + 1]);
            given.write(RELAY_BYTES + 1);
            given.lease_ends();
            given.write(2);
            let arrived = given.fill.lock().arrived();
            given.fill.end(end);
            let kept = given.fill.lock().tail.len();
            assert_eq!(kept, if end == Phase::Whole { RELAY_BYTES } else { 0 }, "for the one that keeps up");
            given.fill.leave(numbers[2]);
            let state = given.fill.lock();
            assert_eq!(state.tail.len(), 0);
            assert!(end == Phase::Aborted || state.arrived() == arrived);
            assert!(state.left_behind(numbers[0]) && state.left_behind(numbers[1]));
        }
        // Where the window had not moved, what is in it is kept for those who still read what was stored.
        let (given, numbers) = Given::up_with(&[0]);
        assert_eq!(given.write(1000), 0);
        given.fill.end(Phase::Whole);
        assert_eq!(given.fill.lock().tail.len(), 1001);
        assert!(!given.left_behind(numbers[0]));
    }
}
