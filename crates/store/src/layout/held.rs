//! A disk whose requests are done one by one, by hand: for tests of what happens between two of them.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tinaja_clock::Clock;

use crate::device::{Counters, Device, Geometry, Medium, Memory, Op, Outcome, Request};

/// A disk that does nothing until it is told to, and then one request.
pub struct Held {
    below: Memory,
    waiting: Mutex<Vec<Op>>,
}

impl Held {
    pub fn of(clock: &Clock, bytes: usize) -> Arc<Held> {
        Arc::new(Held { below: Memory::by(clock.clone(), &Medium::zeroed(bytes)), waiting: Mutex::default() })
    }

    /// The requests that wait: `w` for a write, `s` for a sync.
    pub fn waits(&self) -> String {
        self.waiting.lock().iter().map(|op| if matches!(op.request, Request::Sync) { 's' } else { 'w' }).collect()
    }

    pub fn fail_next(&self) {
        self.fail_nth(0);
    }

    pub fn fail_second(&self) {
        self.fail_nth(1);
    }

    fn fail_nth(&self, nth: usize) {
        let op = self.waiting.lock().remove(nth);
        (op.done)(Outcome { result: Err(io::Error::other("a fault made on purpose")), buffer: None });
    }

    pub fn do_next(&self) {
        self.do_nth(0);
    }

    pub fn do_second(&self) {
        self.do_nth(1);
    }

    fn do_nth(&self, nth: usize) {
        let op = self.waiting.lock().remove(nth);
        self.below.submit(op);
    }
}

impl Device for Held {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        self.waiting.lock().push(op);
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.below.stop();
    }
}
