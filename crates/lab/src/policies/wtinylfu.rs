//! W-TinyLFU (Einziger and others, 2017): a window of what is new, and a main part in two, into which only comes what was asked for
//! more often than what would leave for it. How often is counted in a sketch that is halved now and then.

use super::ordered::Ordered;
use super::{Asked, Policy};
use crate::random::mix;

/// The window has so much of the bytes; the protected part has so much of the rest.
const WINDOW: f64 = 0.01;
const PROTECTED: f64 = 0.8;
/// The sketch has four rows of so many counters to fifteen; it is halved after ten times as many requests as there are objects.
const ROWS: u64 = 4;
const COUNTERS: usize = 1 << 18;
const SAMPLE: u64 = 10;

/// See the module.
pub struct WTinyLfu {
    capacity_bytes: u64,
    window_bytes: u64,
    protected_bytes: u64,
    window: Ordered,
    probation: Ordered,
    protected: Ordered,
    counters: Vec<u8>,
    counted: u64,
}

impl WTinyLfu {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64) -> WTinyLfu {
        let window_bytes = (capacity_bytes as f64 * WINDOW) as u64;
        let protected_bytes = ((capacity_bytes - window_bytes) as f64 * PROTECTED) as u64;
        let [window, probation, protected] = [(); 3].map(|()| Ordered::default());
        let counters = vec![0; COUNTERS * ROWS as usize];
        WTinyLfu { capacity_bytes, window_bytes, protected_bytes, window, probation, protected, counters, counted: 0 }
    }

    fn places(object: u32) -> impl Iterator<Item = usize> {
        (0..ROWS)
            .map(move |row| row as usize * COUNTERS + mix(u64::from(object) | row << 40 | 1 << 50) as usize % COUNTERS)
    }

    fn frequency(&self, object: u32) -> u8 {
        Self::places(object).filter_map(|place| self.counters.get(place).copied()).min().unwrap_or(0)
    }

    fn count(&mut self, object: u32) {
        for place in Self::places(object) {
            if let Some(counter) = self.counters.get_mut(place) {
                *counter = (*counter + 1).min(15);
            }
        }
        self.counted += 1;
        let objects = self.window.len() + self.probation.len() + self.protected.len();
        if self.counted >= SAMPLE * (objects as u64).max(100) {
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
            self.counted /= 2;
        }
    }

    fn main_bytes(&self) -> u64 {
        self.probation.bytes() + self.protected.bytes()
    }

    /// What leaves the window comes into the main part, if it was asked for more often than all that must leave for it.
    fn admit(&mut self, object: u32, bytes: u64) {
        let room = self.capacity_bytes - self.window_bytes;
        if bytes > room {
            return;
        }
        let frequency = self.frequency(object);
        while self.main_bytes() + bytes > room {
            let Some(victim) = self.probation.oldest().or(self.protected.oldest()) else { return };
            if self.frequency(victim) >= frequency {
                return;
            }
            if self.probation.take(victim).is_none() {
                self.protected.take(victim);
            }
        }
        self.probation.push(object, bytes);
    }
}

impl Policy for WTinyLfu {
    fn ask(&mut self, asked: &Asked) -> bool {
        let (object, bytes) = (asked.object, asked.bytes);
        self.count(object);
        if self.window.has(object) {
            self.window.renew(object);
            return true;
        }
        if self.protected.has(object) {
            self.protected.renew(object);
            return true;
        }
        if self.probation.take(object).is_some() {
            self.protected.push(object, bytes);
            while self.protected.bytes() > self.protected_bytes
                && let Some((object, bytes)) = self.protected.pop()
            {
                self.probation.push(object, bytes);
            }
            return true;
        }
        self.window.push(object, bytes);
        while self.window.bytes() > self.window_bytes
            && let Some((object, bytes)) = self.window.pop()
        {
            self.admit(object, bytes);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sequence;
    use super::*;

    #[test]
    fn what_is_asked_for_once_does_not_push_out_what_is_popular() {
        let popular: Vec<_> = (0..5).flat_map(|_| (0..8).map(|object| (object, 10))).collect();
        let scan: Vec<_> = (100..300).map(|object| (object, 10)).collect();
        let asked = Sequence::of(&[&popular[..], &scan, &popular[..8]].concat());
        let found = asked.found(&mut WTinyLfu::new(100));
        assert!(found[found.len() - 8..].iter().filter(|found| **found).count() >= 7, "{found:?}");
    }
}
