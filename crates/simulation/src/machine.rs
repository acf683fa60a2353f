//! The machine's own clock, which somebody sets: forward and back, while it runs and while it is off.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use tinaja_clock::{Clock, Source};

use crate::house::House;
use crate::random::Random;

/// How far a clock is off once it was set, in seconds: a step of the network's, a wrong hour, another zone.
const OFF: [i64; 10] = [0, 0, -15, -40, -120, -600, -10_800, 30, 420, 19_800];

/// How often the machine's clock is set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Before a visit, per mille.
    pub set: u64,
    /// While the machine is off, per mille.
    pub set_while_off: u64,
}

/// A clock whose time of day is off by what it was set to.
pub struct Machine {
    house: Arc<House>,
    off_ms: AtomicI64,
}

impl Machine {
    pub fn new(house: &Arc<House>) -> Arc<Machine> {
        Arc::new(Machine { house: house.clone(), off_ms: AtomicI64::new(0) })
    }

    pub fn clock(self: &Arc<Self>) -> Clock {
        Clock::of(self.clone())
    }

    /// Sets it to one of many wrong times, or right.
    pub fn set(&self, random: &mut Random) {
        self.off_ms.store(random.one(&OFF) * 1000, SeqCst);
    }

    pub fn set_right(&self) {
        self.off_ms.store(0, SeqCst);
    }

    /// By how many milliseconds a time of day is ahead of the right one.
    pub fn ahead_ms(&self, wall: SystemTime) -> i64 {
        let right = self.house.wall();
        let ms = |duration: Duration| duration.as_millis() as i64;
        wall.duration_since(right).map_or_else(|behind| -ms(behind.duration()), ms)
    }
}

impl Source for Machine {
    fn beneath(&self) -> Option<&dyn Source> {
        Some(&*self.house)
    }

    fn wall(&self) -> SystemTime {
        let (right, off) = (self.house.wall(), self.off_ms.load(SeqCst));
        let by = Duration::from_millis(off.unsigned_abs());
        if off < 0 { right - by } else { right + by }
    }
}
