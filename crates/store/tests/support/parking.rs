//! A disk whose writes and syncs a test holds back, and then carries out or fails one by one.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use tinaja_store::Clock;
use tinaja_store::device::{Counters, Device, Geometry, Memory, Op, Request};

use super::is_write;

/// Over a sound disk.
pub struct Parking {
    below: Arc<Memory>,
    hold: AtomicBool,
    held: Mutex<Option<Op>>,
    hold_writes: AtomicBool,
    writes: Mutex<Vec<Op>>,
}
impl Parking {
    pub fn new(below: Arc<Memory>) -> Self {
        Parking {
            below,
            hold: AtomicBool::new(false),
            held: Default::default(),
            hold_writes: AtomicBool::new(false),
            writes: Default::default(),
        }
    }
    pub fn hold_writes(&self, hold: bool) {
        self.hold_writes.store(hold, SeqCst);
    }
    pub fn writes(&self) -> Vec<Op> {
        mem::take(&mut self.writes.lock())
    }
    pub fn hold_next_sync(&self) {
        self.hold.store(true, SeqCst);
    }
    pub fn fail_held(&self) {
        let op = self.held.lock().take().unwrap();
        op.fail(io::Error::other("lost"));
    }
}
impl Device for Parking {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }
    fn submit(&self, op: Op) {
        if matches!(op.request, Request::Sync) && self.hold.swap(false, SeqCst) {
            *self.held.lock() = Some(op);
            return;
        }
        if is_write(&op.request) && self.hold_writes.load(SeqCst) {
            self.writes.lock().push(op);
            return;
        }
        self.below.submit(op);
    }
    fn counters(&self) -> Counters {
        self.below.counters()
    }
    fn stop(&self) {
        self.below.stop()
    }
}
