//! Waiting for what happens on another thread, or in another process.

use std::thread;
use std::time::{Duration, Instant};

/// Waits until `done`, at most a minute; panics with what was waited for.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    wait_for(what, Duration::from_secs(60), || done().then_some(()));
}

/// Waits until `ready` gives something, or panics with what was waited for.
pub fn wait_for<T>(what: &str, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(began.elapsed() < limit, "waited {limit:?} in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
