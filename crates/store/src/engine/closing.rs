//! The end of an engine.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use parking_lot::Mutex;
use tinaja_clock::Clock;

use crate::device::{Device, worker};
use crate::engine::SyncDone;

/// Close in order: `begin` writes everything out and tells; then `last` writes what opening is quicker with, unless
/// something failed; then the devices are released, the first one last, and `done` is told. What is still being read may be read to its end,
/// even where another process opens the cache meanwhile. On a thread of its own, since the device's are needed.
pub(super) fn close(
    device: Arc<dyn Device>,
    beside: Option<Arc<dyn Device>>,
    begin: impl FnOnce(SyncDone),
    last: impl FnOnce() + Send + 'static,
    done: SyncDone,
) {
    let (tell, told) = sync_channel(1);
    begin(Box::new(move |result| drop(tell.send(result))));
    let done = Arc::new(Mutex::new(Some(done)));
    let (end, owner) = (done.clone(), device.clone());
    let finish = move |clock: &Clock| {
        let result = clock.receive(&told).unwrap_or_else(|error| Err(error.to_string()));
        if result.is_ok() {
            last();
        }
        beside.iter().chain([&device]).for_each(|device| device.release());
        end.lock().take().into_iter().for_each(|done| done(result.clone()));
    };
    if worker::spawn("tinaja-close", &owner, finish).is_err() {
        let error = "the system has no thread to close the cache with; it ends as if it had been killed";
        done.lock().take().into_iter().for_each(|done| done(Err(error.into())));
    }
}
