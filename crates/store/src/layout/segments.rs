//! Which segments of a log are free, and which is to be cleaned next (Log-structured cache, sections 3.2.6 and 3.2.7).
//!
//! A segment is a region of the log. It is *free*, then *current* while records are appended to it, then *closed* until it
//! is cleaned, which in a cache is eviction: what the index still finds in it is dropped, and it is free again. Each belongs
//! to one log, and where several logs share the segments each has a current one. The segments of a log
//! are cleaned oldest first, but those that somebody has open are passed over. So the log grows into the next segment that
//! is free, and not always into the one behind it; a segment that was passed over keeps the place at which it was written.
//!
//! After a crash a single log is read as one that was written round and round, in which what was passed over is overdue: it is
//! given up. So nothing that a later segment had replaced or removed comes to light when that segment was overwritten
//! first. It passes over what is open and nothing else ([`Segments::in_turn`]), and not over more than is looked behind then: what
//! waits to be cleaned is waited for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tinaja_clock::Clock;

use super::region::LogLayout;
use crate::terms::Place;
use crate::terms::limits::{LEASE, WRITE_PATIENCE};

/// Segments that somebody has open and that a log in turn passes over, in a row: fewer than are looked behind when it is opened after a
/// crash.
pub const MOST_PASSED: usize = 15;

/// The segments of a disk. Memory: 40 bytes each.
pub struct Segments {
    clock: Clock,
    layout: LogLayout,
    /// For each segment one more than the place at which it begins, and 0 while it is free.
    homes: Box<[AtomicU64]>,
    /// Records that an index needs, at the most, of each.
    entries: usize,
    /// Free segments that the log does not grow into now.
    reserve: AtomicUsize,
    /// See [`Segments::in_turn`].
    in_turn: bool,
    state: Mutex<SegmentsState>,
    /// Something is to be cleaned, or nothing ever again.
    work: Condvar,
}

struct SegmentsState {
    holds: Box<[Holds]>,
    free: usize,
    /// The one that was begun last.
    newest: Option<Place>,
    /// Since when nothing is free though something is asked for.
    starved_since: Option<Instant>,
    passed_over: u64,
    /// Whether the cleaner is to look round at once.
    is_called: bool,
}

/// To whom a segment belongs, and who has it open.
#[derive(Clone, Copy, Default)]
struct Holds {
    /// The number of its log.
    log: u8,
    /// Whether records are appended to it.
    is_current: bool,
    count: u32,
    /// When the lease of the last one ends.
    until: Option<Instant>,
}

impl Holds {
    fn is_open(&self, now: Instant) -> bool {
        self.count > 0 && self.until.is_some_and(|until| now < until)
    }
}

impl Segments {
    /// Segments of such a log, all free but those that begin at `closed` and the one at `current`, if there is one. At most
    /// `entries` of the records in each are such as an index needs.
    pub fn new(
        clock: Clock,
        layout: LogLayout,
        entries: usize,
        closed: impl Iterator<Item = Place>,
        current: Option<Place>,
    ) -> Self {
        let homes: Box<[AtomicU64]> = (0..layout.regions).map(|_| AtomicU64::new(0)).collect();
        for place in closed.chain(current) {
            if let Some(home) = homes.get(layout.region_number(place)) {
                home.store(place.0 + 1, Ordering::Release);
            }
        }
        let free = homes.iter().filter(|home| home.load(Ordering::Relaxed) == 0).count();
        let mut holds = vec![Holds::default(); homes.len()].into_boxed_slice();
        if let Some(holds) = current.and_then(|place| holds.get_mut(layout.region_number(place))) {
            holds.is_current = true;
        }
        let state = Mutex::new(SegmentsState {
            holds,
            free,
            newest: current,
            starved_since: None,
            passed_over: 0,
            is_called: false,
        });
        let (entries, reserve, work) = (entries.max(1), AtomicUsize::new(0), Condvar::new());
        Segments { clock, layout, homes, entries, reserve, in_turn: false, state, work }
    }

    /// The same, of a single log without numbers: it grows into one after the other, past those that somebody has open, of which there
    /// may be up to [`MOST_PASSED`] in a row.
    pub fn in_turn(self) -> Self {
        Segments { in_turn: true, ..self }
    }

    /// The segments that a log in turn may grow into next, in their order: free ones, with those that somebody has open between them.
    fn reach(&self, state: &SegmentsState) -> Vec<Place> {
        let (Some(newest), now) = (state.newest, self.clock.now()) else { return Vec::new() };
        let (mut reach, mut passed) = (Vec::new(), 0);
        for step in 1..self.layout.regions {
            let place = Place(newest.0 + step * self.layout.region_bytes);
            let number = self.layout.region_number(place);
            if self.home(number).is_none() {
                passed = 0;
                reach.push(place);
            } else if passed < MOST_PASSED && state.holds.get(number).is_some_and(|holds| holds.is_open(now)) {
                passed += 1;
            } else {
                break;
            }
            if reach.len() >= self.high() {
                break;
            }
        }
        reach
    }

    /// Free segments that the log may grow into.
    fn ready(&self, state: &SegmentsState) -> usize {
        if self.in_turn { self.reach(state).len() } else { state.free }
    }

    /// Records of a segment that an index needs, at the most: it is closed when it has so many.
    pub fn most_entries(&self) -> usize {
        self.entries
    }

    /// Fewer free segments than this, and cleaning begins: two, so that one may be begun while the next is cleaned.
    fn low(&self) -> usize {
        2
    }

    /// So many free segments, and cleaning ends: a 64th of all, so that little of the disk lies idle.
    fn high(&self) -> usize {
        (self.homes.len() / 64).clamp(3, 32).min(self.homes.len() / 2)
    }

    /// Where the segment of this number begins, unless it is free.
    pub fn home(&self, number: usize) -> Option<Place> {
        self.homes.get(number)?.load(Ordering::Acquire).checked_sub(1).map(Place)
    }

    /// Where every segment begins that is not free, oldest first.
    pub fn homes(&self) -> Vec<Place> {
        let mut homes: Vec<_> = (0..self.homes.len()).filter_map(|number| self.home(number)).collect();
        homes.sort_unstable();
        homes
    }

    /// Whether the segment that was begun at this place is there still.
    pub fn is_there(&self, region: Place) -> bool {
        self.home(self.layout.region_number(region)) == Some(region)
    }

    /// Leave so many free segments to whoever cleans, which then need not wait for itself to write something once more.
    pub fn reserve(&self, segments: usize) {
        self.reserve.store(segments, Ordering::Release);
    }

    /// The segment that the log grows into behind `region`, the newest: the next one round the log that is free, in turn if need be. `None`
    /// while none is.
    pub fn next_after(&self, region: Place) -> Option<Place> {
        let mut state = self.state.lock();
        let is_left = self.ready(&state) > self.reserve.load(Ordering::Acquire);
        let free = if self.in_turn {
            self.reach(&state).first().copied()
        } else {
            let steps = 1..=self.layout.regions;
            let mut next = steps.map(|step| Place(region.0 + step * self.layout.region_bytes));
            next.find(|place| self.home(self.layout.region_number(*place)).is_none())
        };
        let free = free.filter(|_| is_left);
        if free.is_none() {
            state.starved_since.get_or_insert_with(|| self.clock.now());
            self.work.notify_all();
        }
        free
    }

    /// A segment is full, and closed.
    pub fn end(&self, region: Place) {
        if let Some(holds) = self.state.lock().holds.get_mut(self.layout.region_number(region)) {
            holds.is_current = false;
        }
        self.work.notify_all();
    }

    /// A log grows into this segment.
    pub fn begin(&self, log: usize, region: Place) {
        let mut state = self.state.lock();
        let number = self.layout.region_number(region);
        if let Some(home) = self.homes.get(number) {
            home.store(region.0 + 1, Ordering::Release);
            state.free = state.free.saturating_sub(1);
        }
        if let Some(holds) = state.holds.get_mut(number) {
            *holds = Holds { log: log as u8, is_current: true, ..Holds::default() };
        }
        state.newest = Some(region);
        if self.ready(&state) < self.low() {
            self.work.notify_all();
        }
    }

    /// Whether nothing has been free for so long that nobody should wait for it.
    pub fn is_starved(&self) -> bool {
        self.state.lock().starved_since.is_some_and(|since| self.clock.since(since) >= WRITE_PATIENCE)
    }

    /// Wait until fewer are free than there should be, but no longer than `most`; whether that is so.
    pub fn wait_for_work(&self, most: Duration) -> bool {
        let mut state = self.state.lock();
        if self.ready(&state) >= self.low() && !state.is_called {
            self.clock.wait_for(&self.work, &mut state, most);
        }
        state.is_called = false;
        self.ready(&state) < self.low()
    }

    /// Whoever waits for work is to look round at once: something else than a free segment is missing, since now at the latest.
    pub fn call(&self) {
        let mut state = self.state.lock();
        state.is_called = true;
        state.starved_since.get_or_insert_with(|| self.clock.now());
        self.work.notify_all();
    }

    /// Nothing but segments may be missing from now on.
    pub fn answered(&self) {
        self.state.lock().starved_since = None;
    }

    /// Whether enough are free.
    pub fn is_enough(&self) -> bool {
        self.ready(&self.state.lock()) >= self.high()
    }

    /// How many are free that the log may grow into.
    pub fn free(&self) -> usize {
        self.ready(&self.state.lock())
    }

    /// How often a segment was passed over since somebody had it open.
    pub fn passed_over(&self) -> u64 {
        self.state.lock().passed_over
    }

    /// The segment to be cleaned next: the oldest that is closed and that nobody has open. Where all are open and nothing is
    /// free, the oldest all the same: readers never keep everything else from being stored.
    pub fn next_to_clean(&self) -> Option<Place> {
        self.behind_readers().or_else(|| self.oldest_of_each().into_iter().map(|(_, place)| place).min())
    }

    /// The next one in turn, where as many as may be passed over are open.
    fn behind_readers(&self) -> Option<Place> {
        let state = self.state.lock();
        let (newest, now) = (state.newest.filter(|_| self.in_turn)?, self.clock.now());
        let steps = 1..self.layout.regions.min(MOST_PASSED as u64 + 2);
        let mut numbers =
            steps.map(|step| self.layout.region_number(Place(newest.0 + step * self.layout.region_bytes)));
        let is_open = |number: usize| state.holds.get(number).is_some_and(|holds| holds.is_open(now));
        let next = self.home(numbers.clone().next()?)?;
        numbers.all(|number| self.home(number).is_some() && is_open(number)).then_some(next)
    }

    /// The same of each log that has one, with its number.
    pub fn oldest_of_each(&self) -> Vec<(usize, Place)> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let closed = || {
            let all = (0..self.homes.len()).zip(state.holds.iter()).filter(|(_, holds)| !holds.is_current);
            all.filter_map(|(number, holds)| Some((usize::from(holds.log), self.home(number)?, holds.is_open(now))))
        };
        // By the number of the log.
        let (mut oldest, mut open): (Vec<Option<Place>>, _) = (Vec::new(), Vec::new());
        for (log, place, is_open) in closed() {
            if is_open {
                open.push((log, place));
                continue;
            }
            if log >= oldest.len() {
                oldest.resize(log + 1, None);
            }
            if let Some(oldest) = oldest.get_mut(log) {
                *oldest = Some(oldest.map_or(place, |before| before.min(place)));
            }
        }
        let of = |log: usize| oldest.get(log).copied().flatten();
        let passed_over =
            open.iter().filter(|(log, place)| of(*log).is_none_or(|oldest| *place < oldest)).count() as u64;
        let mut found: Vec<_> = oldest.iter().enumerate().filter_map(|(log, place)| Some((log, (*place)?))).collect();
        if found.is_empty() && state.free == 0 {
            found.extend(open.iter().min_by_key(|(_, place)| *place));
        }
        state.passed_over += passed_over;
        found
    }

    /// A segment belongs to the log of this number: of those that were closed when they were found.
    pub fn belongs(&self, region: Place, log: usize) {
        if let Some(holds) = self.state.lock().holds.get_mut(self.layout.region_number(region)) {
            holds.log = log as u8;
        }
    }

    /// Whether records are appended to the segment of this number.
    pub fn is_current(&self, number: usize) -> bool {
        self.state.lock().holds.get(number).is_some_and(|holds| holds.is_current)
    }

    /// The number of the log that the segment of this number belongs to.
    pub fn log_of(&self, number: usize) -> usize {
        self.state.lock().holds.get(number).map_or(0, |holds| holds.log.into())
    }

    /// A segment was cleaned: no index leads to it.
    pub fn freed(&self, region: Place) {
        let mut state = self.state.lock();
        if self.is_there(region)
            && let Some(home) = self.homes.get(self.layout.region_number(region))
        {
            home.store(0, Ordering::Release);
            state.free += 1;
            state.starved_since = None;
        }
    }

    /// Somebody has what lies at a place open: its segment is passed over until [`Segments::release`], but not beyond the
    /// store's lease. False if it is not there any more.
    pub fn hold(&self, place: Place) -> bool {
        let region = self.layout.region_of(place);
        let mut state = self.state.lock();
        let there = self.is_there(region);
        if let Some(holds) = state.holds.get_mut(self.layout.region_number(region)).filter(|_| there) {
            holds.count = holds.count.saturating_add(1);
            holds.until = Some(self.clock.now() + LEASE);
        }
        there
    }

    /// Whoever had this place open has closed it.
    pub fn release(&self, place: Place) {
        if let Some(holds) = self.state.lock().holds.get_mut(self.layout.region_number(place)) {
            holds.count = holds.count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use tinaja_clock::ManualClock;

    use super::*;

    fn layout() -> LogLayout {
        LogLayout::new(4096, 2 << 20, 4096).unwrap()
    }

    fn region(number: u64) -> Place {
        Place(number * layout().region_bytes)
    }

    /// Eight segments, of which the first six of lap 1 are closed, the seventh is current, and one is free.
    fn segments() -> Segments {
        by(Clock::system())
    }

    fn by(clock: Clock) -> Segments {
        assert_eq!(layout().regions, 8);
        Segments::new(clock, layout(), 64, (8..14).map(region), Some(region(14)))
    }

    #[test]
    fn the_oldest_is_cleaned_and_the_log_goes_on_round() {
        let segments = segments();
        assert_eq!((segments.free(), segments.next_after(region(14))), (1, Some(region(15))));
        assert!(segments.wait_for_work(Duration::ZERO));
        assert_eq!(segments.next_to_clean(), Some(region(8)));
        segments.freed(region(8));
        assert!(!segments.is_there(region(8)) && segments.is_there(region(9)));
        segments.end(region(14));
        segments.begin(0, region(15));
        assert_eq!(segments.next_after(region(15)), Some(region(16)), "the first of the next lap");
    }

    #[test]
    fn one_that_is_open_is_passed_over_and_keeps_its_place() {
        let segments = segments();
        assert!(segments.hold(Place(region(8).0 + 77)) && segments.hold(region(8)));
        assert_eq!(segments.next_to_clean(), Some(region(9)));
        segments.freed(region(9));
        segments.end(region(14));
        segments.begin(0, region(15));
        assert_eq!(segments.next_after(region(15)), Some(region(17)), "not over what is open");
        segments.end(region(15));
        segments.begin(0, region(17));
        assert!(segments.is_there(region(8)) && !segments.is_there(region(9)));
        segments.release(region(8));
        assert_eq!(segments.next_to_clean(), Some(region(10)), "there is another reader");
        segments.release(region(8));
        assert_eq!(segments.next_to_clean(), Some(region(8)), "it is the oldest");
        assert_eq!(segments.passed_over(), 2);
    }

    /// Where the cleaner was late and a segment that had been passed over was free again, the log once grew into that one, nearly a
    /// lap further on: after a crash nobody looked so far for what had been written last, and all that was skipped was given up. A
    /// removal that had been acknowledged was undone, and so was a flush of whole segments (twice in 900 kills on a busy machine).
    #[test]
    fn a_log_in_turn_waits_for_what_is_to_be_cleaned() {
        let segments = segments().in_turn();
        assert!(segments.hold(region(8)));
        assert_eq!((segments.next_to_clean(), segments.free()), (Some(region(9)), 1));
        segments.freed(region(9));
        for (ended, begun) in [(14, 15), (15, 17)] {
            assert_eq!(segments.next_after(region(ended)), Some(region(begun)));
            segments.end(region(ended));
            segments.begin(0, region(begun));
        }
        segments.release(region(8));
        segments.freed(region(8));
        assert_eq!(segments.next_after(region(17)), None, "what lies behind is free, and nearly a lap away");
        assert!(segments.wait_for_work(Duration::ZERO) && !segments.is_enough() && segments.free() == 0);
        assert_eq!(segments.next_to_clean(), Some(region(10)));
        segments.freed(region(10));
        assert_eq!((segments.next_after(region(17)), segments.free()), (Some(region(18)), 1));
    }

    #[test]
    fn a_log_in_turn_passes_over_no_more_than_is_looked_behind() {
        let layout = LogLayout { regions: 40, ..layout() };
        let place = |number: u64| Place(number * layout.region_bytes);
        for open in [MOST_PASSED as u64, MOST_PASSED as u64 + 1] {
            let segments = Segments::new(Clock::system(), layout, 64, (41..80).map(place), Some(place(80))).in_turn();
            // All of lap 1 but the first is closed, and the first of lap 2 is current.
            (41..41 + open).for_each(|number| assert!(segments.hold(place(number))));
            let behind = place(41 + open);
            let is_passed = open <= MOST_PASSED as u64;
            assert_eq!(segments.next_to_clean(), Some(if is_passed { behind } else { place(41) }), "{open}");
            segments.freed(behind);
            let next = is_passed.then_some(Place(behind.0 + layout.log_bytes()));
            assert_eq!(segments.next_after(place(80)), next, "{open}");
        }
    }

    #[test]
    fn one_that_is_open_for_longer_than_a_lease_is_cleaned() {
        let hand = ManualClock::new();
        let segments = by(hand.clock());
        assert!(segments.hold(region(8)));
        hand.advance(LEASE - Duration::from_millis(1));
        assert_eq!(segments.next_to_clean(), Some(region(9)));
        hand.advance(Duration::from_millis(1));
        assert_eq!(segments.next_to_clean(), Some(region(8)));
    }

    #[test]
    fn readers_of_all_segments_do_not_stop_the_cleaning() {
        let hand = ManualClock::new();
        let segments = by(hand.clock());
        for number in 8..14 {
            assert!(segments.hold(region(number)));
        }
        assert_eq!(segments.next_to_clean(), None, "one is free still");
        segments.end(region(14));
        segments.begin(0, region(15));
        assert!(segments.hold(region(14)));
        assert_eq!(segments.next_after(region(15)), None);
        assert_eq!(segments.next_to_clean(), Some(region(8)));
        assert!(!segments.is_starved(), "not for long");
        hand.advance(WRITE_PATIENCE);
        assert!(segments.is_starved());
        assert!(!segments.hold(region(16)) && !segments.hold(region(0)), "nothing of these laps is there");
    }

    #[test]
    fn logs_that_share_the_segments_have_a_current_one_each() {
        let segments = Segments::new(Clock::system(), layout(), 64, (8..12).map(region), None);
        segments.belongs(region(9), 3);
        segments.belongs(region(11), 3);
        assert_eq!(segments.oldest_of_each(), [(0, region(8)), (3, region(9))]);
        segments.begin(1, region(12));
        segments.begin(3, region(13));
        assert_eq!(segments.oldest_of_each(), [(0, region(8)), (3, region(9))], "not those being written");
        assert!(segments.hold(region(9)));
        assert_eq!(segments.oldest_of_each(), [(0, region(8)), (3, region(11))]);
        segments.end(region(12));
        segments.begin(1, region(14));
        assert_eq!(segments.oldest_of_each(), [(0, region(8)), (1, region(12)), (3, region(11))]);
        assert_eq!((segments.log_of(4), segments.log_of(0), segments.free()), (1, 0, 1));
    }
}
