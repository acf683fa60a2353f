//! The program's heap: which allocator it uses, and how freed memory goes back to the system.

use tinaja_store::Clock;

/// A miss allocates some dozens of times, and nine of these, tasks and pieces, are too long for what malloc of the C library does fast: it takes
/// less of the processor with this one (docs/bench/hit-cost.md). Not on other processors: it has the size of a page built in, in which their kernels
/// differ.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Starts a thread that returns memory to the system a second or two after it was freed (`.cargo/config.toml`). Without it that would wait until somebody
/// allocates.
///
/// Call it after everything that must be done before there are threads.
pub fn give_back(clock: &Clock) {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    given_back::begin(clock);
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    let _ = clock;
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod given_back {
    use std::time::Duration;

    use tikv_jemalloc_ctl::background_thread;
    use tinaja_store::Clock;

    /// How often it is looked whether the clock was put back.
    const LOOK: Duration = Duration::from_secs(10);

    pub fn begin(clock: &Clock) {
        let keeper = clock.clone();
        if let Err(error) = clock.spawn("heap", move || keep(&keeper)) {
            tracing::warn!(%error, "what was freed may go back to the system late: there is no thread for that");
        }
    }

    /// jemalloc's thread sleeps by the time of day: were that put back by a day, it would sleep for a day. So it begins anew then.
    fn keep(clock: &Clock) {
        let mut before = None;
        loop {
            let put_back = clock.put_back();
            if before.replace(put_back) != Some(put_back)
                && let Err(error) = background_thread::write(false).and_then(|()| background_thread::write(true))
            {
                tracing::warn!(%error, "what was freed may go back to the system late: the heap has no thread for that");
                return;
            }
            clock.sleep(LOOK);
        }
    }
}
