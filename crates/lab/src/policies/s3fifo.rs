//! S3-FIFO (Yang and others, SOSP 2023): a small queue for what is new, a main queue for what was used there or returns, and the
//! names of what left the small one.

use super::ordered::{Counts, Ordered};
use super::{Asked, Policy};

/// The small queue has a tenth of the bytes; the names are of as many bytes as the main queue has.
const SMALL: f64 = 0.1;
/// What was used so often in the small queue goes to the main one.
const MOVES: u8 = 2;
/// Uses are counted so far.
const MOST: u8 = 3;

/// See the module.
pub struct S3Fifo {
    capacity_bytes: u64,
    small_bytes: u64,
    small: Ordered,
    main: Ordered,
    gone: Ordered,
    used: Counts,
    /// Whether anything has left yet: until then what finds no room in the small queue goes to the main one, as in the authors' program.
    has_evicted: bool,
}

impl S3Fifo {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64) -> S3Fifo {
        let [small, main, gone] = [(); 3].map(|()| Ordered::default());
        let small_bytes = (capacity_bytes as f64 * SMALL) as u64;
        S3Fifo { capacity_bytes, small_bytes, small, main, gone, used: Counts::default(), has_evicted: false }
    }

    fn bytes(&self) -> u64 {
        self.small.bytes() + self.main.bytes()
    }

    fn evict(&mut self) {
        self.has_evicted = true;
        if self.main.bytes() > self.capacity_bytes - self.small_bytes || self.small.bytes() == 0 {
            self.evict_main();
        } else {
            self.evict_small();
        }
    }

    fn evict_small(&mut self) {
        while let Some((object, bytes)) = self.small.pop() {
            if self.used.of(object) >= MOVES {
                self.used.set(object, 0);
                self.main.push(object, bytes);
                continue;
            }
            self.gone.push(object, bytes);
            while self.gone.bytes() > self.capacity_bytes - self.small_bytes && self.gone.pop().is_some() {}
            return;
        }
    }

    fn evict_main(&mut self) {
        while let Some((object, bytes)) = self.main.pop() {
            match self.used.of(object).checked_sub(1) {
                Some(left) => {
                    self.used.set(object, left);
                    self.main.push(object, bytes);
                }
                None => return,
            }
        }
    }
}

impl Policy for S3Fifo {
    fn ask(&mut self, asked: &Asked) -> bool {
        let (object, bytes) = (asked.object, asked.bytes);
        if self.small.has(object) || self.main.has(object) {
            self.used.set(object, (self.used.of(object) + 1).min(MOST));
            return true;
        }
        let returns = self.gone.take(object).is_some();
        if bytes > self.capacity_bytes || (!returns && bytes >= self.small_bytes) {
            return false;
        }
        while self.bytes() + bytes > self.capacity_bytes && self.bytes() > 0 {
            self.evict();
        }
        self.used.set(object, 0);
        let fills_main = !self.has_evicted && self.small.bytes() >= self.small_bytes;
        if returns || fills_main {
            self.main.push(object, bytes);
        } else {
            self.small.push(object, bytes);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sequence;
    use super::*;

    #[test]
    fn what_is_asked_for_once_passes_through_the_small_queue() {
        let popular: Vec<_> = (0..5).flat_map(|_| (0..8).map(|object| (object, 10))).collect();
        let scan: Vec<_> = (100..200).map(|object| (object, 10)).collect();
        let asked = Sequence::of(&[&popular[..], &scan, &popular[..8]].concat());
        let found = asked.found(&mut S3Fifo::new(150));
        assert!(found[found.len() - 8..].iter().all(|found| *found), "{found:?}");
    }

    #[test]
    fn what_returns_goes_to_the_main_queue() {
        let mut cache = S3Fifo::new(200);
        let asked: Vec<_> = (0..23).map(|object| (object, 10)).chain([(1, 10)]).collect();
        Sequence::of(&asked).found(&mut cache);
        assert!(cache.main.has(1) && !cache.gone.has(1));
    }
}
