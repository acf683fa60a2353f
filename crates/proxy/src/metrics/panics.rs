//! Counting panics: faults of the program's own.
//!
//! A panic ends the connection or the stream it happened on, or stops one engine; the rest goes on. So that nobody has to
//! notice by luck, each is logged and counted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::proto::MetricFamily;

use super::family::counter;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// From now on every panic of this process, on whatever thread, is logged as an error and counted: see [`panics`]. It takes
/// the place of the hook that prints to stderr, unless there is no log yet, so it is for programs to call, at their start; a second call does nothing.
/// With `RUST_BACKTRACE=1` the log has a backtrace too.
pub fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            // Without a log it must be seen all the same.
            if tracing::dispatcher::has_been_set() { log(panic) } else { before(panic) }
        }));
    });
}

/// How many panics there have been since [`count_panics`]; `tinaja_panics_total` of the metrics.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// The count, for Prometheus.
pub(super) fn family() -> MetricFamily {
    let help = "Panics: faults of Tinaja's own. Each ended a connection or a stream, or stopped an engine.";
    counter("tinaja_panics_total", help, panics())
}

fn log(panic: &PanicHookInfo<'_>) {
    let said = panic.payload_as_str().unwrap_or("no more is known");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let backtrace = Backtrace::capture();
    let trace = match backtrace.status() {
        BacktraceStatus::Captured => format!("\n{backtrace}"),
        _ => String::new(),
    };
    tracing::error!(
        "a panic{place}, on the thread {thread}, which is a fault of Tinaja's, please report it: {said}{trace}"
    );
}
