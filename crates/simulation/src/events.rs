//! All that happens, in one number.
//!
//! What happens at one and the same time counts in whatever order: the runtime wakes those that wait for one signal, as for the end of the
//! proxy, in an order that it draws by itself. Should that order ever change what follows, the number shows it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::random::mixed;

/// What goes on though nobody asks for anything.
const BEHIND: [&str; 3] = ["turn", "disk", "disk done"];

/// What has happened so far. A clone is the same record.
#[derive(Clone, Debug)]
pub struct Events(Arc<Mutex<Record>>);

#[derive(Debug)]
struct Record {
    began: Instant,
    /// Of all times before the present one.
    hash: u64,
    /// The present one, and what has happened at it.
    present: (u64, u64),
    count: u64,
    /// When the last was that is neither a thread's turn nor the disk's.
    busy: Instant,
    /// Whether each is also printed, so that two runs can be compared line by line.
    aloud: bool,
}

impl Events {
    /// Nothing yet, at the present time.
    pub fn new(aloud: bool) -> Events {
        let now = Instant::now();
        Events(Arc::new(Mutex::new(Record { began: now, hash: 0, present: (0, 0), count: 0, busy: now, aloud })))
    }

    /// How long nothing has happened but turns of threads, and what these ask of the disk.
    pub fn quiet(&self) -> Duration {
        self.0.lock().busy.elapsed()
    }

    /// Something has happened now, which these numbers tell from all else.
    pub fn note(&self, what: &str, numbers: &[u64]) {
        let mut record = self.0.lock();
        let at = record.began.elapsed().as_micros() as u64;
        let name = what.bytes().fold(0, |hash, byte| mixed(hash ^ u64::from(byte)));
        let event = numbers.iter().fold(name, |hash, number| mixed(hash ^ number));
        if record.present.0 != at {
            (record.hash, record.present) = (record.now(), (at, 0));
        }
        record.present.1 = record.present.1.wrapping_add(mixed(event));
        record.count += 1;
        if !BEHIND.contains(&what) {
            record.busy = Instant::now();
        }
        if record.aloud {
            println!("{:>12.3} {what} {numbers:?}", at as f64 / 1e6);
        }
    }

    /// What all of it comes to, and how much it was.
    pub fn hash(&self) -> (u64, u64) {
        let record = self.0.lock();
        (record.now(), record.count)
    }
}

impl Record {
    /// All that has happened up to now.
    fn now(&self) -> u64 {
        let (at, events) = self.present;
        mixed(mixed(self.hash ^ at) ^ events)
    }
}
