//! What a device has done: requests, bytes, and how long they took, counted in classes.

/// Upper ends of the classes of times, in microseconds; the last class has all that took longer. From a fast SSD's read
/// to a disk that is about to be given up.
pub const TIME_BOUNDS_US: [u64; 13] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000, 5_000_000];

/// How long requests took, from when they were handed in to when they ended, well or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many took up to each of [`TIME_BOUNDS_US`] and longer than the one before; the last took longer than any.
    pub counts: [u64; TIME_BOUNDS_US.len() + 1],
    /// What all of them took together, in microseconds.
    pub total_us: u64,
}

impl Times {
    /// Both together.
    pub fn with(mut self, other: Times) -> Times {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.total_us += other.total_us;
        self
    }
}

/// Requests, bytes and seeks since the device was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read requests that succeeded.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Write requests that succeeded.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Requests that did not begin where the one before, in order of submission, ended.
    pub seeks: u64,
    /// Requests that were accepted and have not ended: those in the queue and those under way. The one number that falls.
    pub waiting: u64,
    /// How long reads took, the time in the queue included.
    pub read_times: Times,
    /// How long writes took.
    pub write_times: Times,
    /// How long syncs took.
    pub sync_times: Times,
}
