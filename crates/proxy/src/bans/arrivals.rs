//! What may still be stored of what was asked for before bans that are forgotten: nothing.
//!
//! A ban is forgotten once nothing older that it fits is left ([`super::Bans::end_walk`]). What comes after that is not compared with it any more, so nothing older
//! may come: each write says under which stamp it was asked for before it begins, and is counted until it has ended. A walk goes no further than
//! the oldest write that is open when it begins, and what is older than that is refused from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::stamp::Stamp;

/// Writes that are open, by the numbers of the bans that had been made when they were asked for. Memory: 16 bytes for each different number among them.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    book: u32,
    /// What has a lower number in this book comes too late.
    floor: u64,
    open: BTreeMap<u64, usize>,
}

impl Inner {
    /// How many bans of the book had certainly been made at a stamp.
    fn number(&self, stamp: Stamp) -> u64 {
        if stamp.book() == self.book { stamp.number() } else { 0 }
    }
}

/// A write that is open, until this is dropped.
#[derive(Debug)]
pub(crate) struct Arriving {
    arrivals: Arc<Arrivals>,
    number: u64,
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let mut inner = self.arrivals.0.lock();
        if let Some(count) = inner.open.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                inner.open.remove(&self.number);
            }
        }
    }
}

impl Arrivals {
    /// From now on stamps of this book are told apart. What came too late before does so still if it is the same one: of what has another book's
    /// stamp nothing is believed anyway.
    pub fn set_book(&self, book: u32) {
        let mut inner = self.0.lock();
        if inner.book != book {
            (inner.book, inner.floor) = (book, 0);
        }
    }

    /// Whether what was asked for then may still be stored.
    pub fn takes(&self, stamp: Stamp) -> bool {
        let inner = self.0.lock();
        inner.number(stamp) >= inner.floor
    }

    /// Begins to store what was asked for then; `None` if it comes too late.
    pub fn enter(self: &Arc<Self>, stamp: Stamp) -> Option<Arriving> {
        let mut inner = self.0.lock();
        let number = inner.number(stamp);
        if number < inner.floor {
            return None;
        }
        *inner.open.entry(number).or_default() += 1;
        Some(Arriving { arrivals: self.clone(), number })
    }

    /// What was asked for before the ban with this number comes too late from now on, or before an older one where something older is open. Up to which.
    pub fn raise(&self, number: u64) -> u64 {
        let mut inner = self.0.lock();
        let oldest = inner.open.keys().next().copied().unwrap_or(u64::MAX);
        let to = number.min(oldest);
        inner.floor = inner.floor.max(to);
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_waited_for_and_what_is_older_comes_too_late() {
        let arrivals = Arc::new(Arrivals::default());
        arrivals.set_book(7);
        let at = |number| Stamp::new(7, number);
        let (old, young) = (arrivals.enter(at(3)).unwrap(), arrivals.enter(at(9)).unwrap());
        assert_eq!(arrivals.raise(8), 3, "one that was asked for after the third ban is open");
        assert!(!arrivals.takes(at(2)) && arrivals.enter(at(2)).is_none() && arrivals.takes(at(3)));
        drop(old);
        assert_eq!(arrivals.raise(8), 8);
        assert!(arrivals.enter(at(7)).is_none() && arrivals.takes(at(8)));
        for foreign in [Stamp::default(), Stamp::new(8, 100)] {
            assert!(!arrivals.takes(foreign), "nobody knows when that was");
        }
        drop(young);
        arrivals.set_book(7);
        assert!(!arrivals.takes(at(7)), "the same book, taken up again");
        arrivals.set_book(8);
        assert!(arrivals.takes(at(1)) && arrivals.takes(Stamp::new(8, 0)), "another book counts anew");
        assert!(arrivals.0.lock().open.is_empty());
        let foreign = arrivals.enter(at(5)).unwrap();
        assert_eq!(arrivals.raise(5), 0, "it counts as older than all");
        drop(foreign);
    }
}
