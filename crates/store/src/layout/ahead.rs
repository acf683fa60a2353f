//! Records that were read along with one that was asked for, because they are related to it (HashCache, section 3.5).
//!
//! Related records lie one right behind the other, so one request reads all of them. What was not asked for stays here
//! for a while, by its place. Whoever asks for such a place gets the bytes as they came from the disk and verifies them as
//! if they came now: place, lap, digest and both checksums, and before that whether the place is still live. So nothing
//! here can be older than what the index says, and nothing has to be forgotten when an object changes.
//!
//! A lookup of a record that a request is already bringing waits for that request: browsers ask for six objects at once.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::terms::Place;

/// What an entry takes beside the record's bytes.
const ENTRY_BYTES: usize = 128;

/// What was read ahead. Memory: as many bytes as it was made with, buffers of the requests counted whole.
pub struct Ahead {
    most_bytes: usize,
    state: Mutex<AheadState>,
    read: AtomicU64,
    used: AtomicU64,
    wasted: AtomicU64,
}

#[derive(Default)]
struct AheadState {
    records: HashMap<Place, Kept>,
    /// Whose records are kept, oldest first.
    requests: VecDeque<Request>,
    bytes: usize,
    coming: Vec<Coming>,
    next: u64,
}

struct Kept {
    bytes: Bytes,
    is_used: bool,
}

struct Request {
    places: Vec<Place>,
    bytes: usize,
}

/// A request under way, and who wants something of it.
struct Coming {
    number: u64,
    from: Place,
    to: Place,
    waiting: Vec<Again>,
}

pub(super) type Again = Box<dyn FnOnce() + Send>;

/// Bytes of records that were read ahead; see [`crate::Stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadBytes {
    /// All of them.
    pub read: u64,
    /// Those of records that were asked for then.
    pub used: u64,
    /// Those of records that were let go of and had not been asked for.
    pub wasted: u64,
}

/// What is known of a place.
pub(super) enum Looked {
    Kept(Bytes),
    Waits,
    Nothing,
}

impl Ahead {
    /// Room for so many bytes.
    pub fn of(most_bytes: usize) -> Self {
        let zero = AtomicU64::default;
        Ahead { most_bytes, state: Mutex::default(), read: zero(), used: zero(), wasted: zero() }
    }

    /// Whether the record at a place is here.
    pub fn has(&self, place: Place) -> bool {
        self.state.lock().records.contains_key(&place)
    }

    /// How much was read ahead, and what became of it.
    pub fn bytes(&self) -> AheadBytes {
        AheadBytes { read: self.read.load(Relaxed), used: self.used.load(Relaxed), wasted: self.wasted.load(Relaxed) }
    }

    /// The bytes of the record at a place; or what `again` makes is called once the request that reads it has ended.
    pub(super) fn look(&self, place: Place, again: impl FnOnce() -> Again) -> Looked {
        let mut state = self.state.lock();
        if let Some(kept) = state.records.get_mut(&place) {
            if !kept.is_used {
                kept.is_used = true;
                self.used.fetch_add(kept.bytes.len() as u64, Relaxed);
            }
            return Looked::Kept(kept.bytes.clone());
        }
        match state.coming.iter_mut().find(|coming| (coming.from..coming.to).contains(&place)) {
            Some(coming) => {
                coming.waiting.push(again());
                Looked::Waits
            }
            None => Looked::Nothing,
        }
    }

    /// A request that reads from one place to another begins. Returns its number.
    pub(super) fn begin(&self, from: Place, bytes: usize) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let number = state.next;
        state.coming.push(Coming { number, from, to: Place(from.0 + bytes as u64), waiting: Vec::new() });
        number
    }

    /// A request begins that nobody is to wait for. Returns its number.
    pub(super) fn begin_unseen(&self) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        state.next
    }

    /// It has ended: those who wanted something of it look again.
    pub(super) fn end(&self, number: u64) {
        let mut state = self.state.lock();
        let ended = state.coming.iter().position(|coming| coming.number == number);
        let ended = ended.map(|at| state.coming.swap_remove(at));
        drop(state);
        ended.into_iter().flat_map(|coming| coming.waiting).for_each(|again| again());
    }

    /// Keep what a request of so many bytes read; the first of the records is the one that was asked for.
    pub(super) fn keep(&self, records: Vec<(Place, Bytes)>, request_bytes: usize) {
        if records.len() < 2 {
            return;
        }
        let mut state = self.state.lock();
        let mut request = Request { places: Vec::with_capacity(records.len()), bytes: request_bytes };
        for (number, (place, bytes)) in records.into_iter().enumerate() {
            if state.records.contains_key(&place) {
                continue;
            }
            if number > 0 {
                self.read.fetch_add(bytes.len() as u64, Relaxed);
            }
            request.bytes += ENTRY_BYTES;
            request.places.push(place);
            state.records.insert(place, Kept { bytes, is_used: number == 0 });
        }
        state.bytes += request.bytes;
        state.requests.push_back(request);
        while state.bytes > self.most_bytes {
            let Some(oldest) = state.requests.pop_front() else { break };
            state.bytes -= oldest.bytes;
            for place in oldest.places {
                let gone = state.records.remove(&place).filter(|kept| !kept.is_used);
                self.wasted.fetch_add(gone.map_or(0, |kept| kept.bytes.len() as u64), Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn records(from: u64, count: u64) -> Vec<(Place, Bytes)> {
        (from..from + count).map(|n| (Place(n * 1000), Bytes::from(vec![n as u8; 1000]))).collect()
    }

    fn kept(ahead: &Ahead, n: u64) -> bool {
        matches!(ahead.look(Place(n * 1000), || Box::new(|| ())), Looked::Kept(_))
    }

    #[test]
    fn memory_is_bounded_and_every_byte_is_told_of_once() {
        let ahead = Ahead::of(30_000);
        ahead.keep(records(0, 5), 5000);
        assert!((0..5).all(|n| ahead.has(Place(n * 1000))));
        assert!(kept(&ahead, 0) && kept(&ahead, 1) && kept(&ahead, 1) && !kept(&ahead, 5));
        assert_eq!(ahead.bytes(), AheadBytes { read: 4000, used: 1000, wasted: 0 });
        ahead.keep(records(100, 1), 5000);
        assert!(!kept(&ahead, 100), "nobody keeps what was asked for alone");
        (1..20).for_each(|n| ahead.keep(records(n * 5, 5), 5000));
        let state = ahead.state.lock();
        assert!(state.bytes <= 30_000 && state.records.len() <= 25);
        drop(state);
        assert!(!kept(&ahead, 1) && kept(&ahead, 99));
        let AheadBytes { read, used, wasted } = ahead.bytes();
        assert_eq!((read, used), (80_000, 2000));
        assert_eq!(wasted, 15 * 4000 - 1000, "all but what was used, and the last five runs");
    }

    #[test]
    fn who_wants_what_is_being_read_waits_for_it() {
        let ahead = Ahead::of(30_000);
        let told = Arc::new(AtomicU64::new(0));
        let number = ahead.begin(Place(1000), 5000);
        let ask = |place| {
            let told = told.clone();
            ahead.look(Place(place), || {
                Box::new(move || {
                    told.fetch_add(1, Relaxed);
                })
            })
        };
        assert!(matches!(ask(1000), Looked::Waits) && matches!(ask(5999), Looked::Waits));
        assert!(matches!(ask(999), Looked::Nothing) && matches!(ask(6000), Looked::Nothing));
        ahead.end(number);
        assert_eq!(told.load(Relaxed), 2);
        assert!(matches!(ask(1000), Looked::Nothing));
    }
}
