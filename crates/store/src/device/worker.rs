//! The threads of those who use a device.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tinaja_clock::Clock;

use super::Device;
use crate::fuse::text_of;

/// Start a thread of an engine's, with the device's clock. Should its work panic, the device is told that its user is broken, for nobody else
/// would notice: what the thread was to do would be waited for in vain. The thread does not keep the device open. Errors:
/// the system has no more threads.
pub(crate) fn spawn(
    name: &str,
    device: &Arc<dyn Device>,
    work: impl FnOnce(&Clock) + Send + 'static,
) -> io::Result<()> {
    let clock = device.clock().clone();
    let of_thread = clock.clone();
    let device = Arc::downgrade(device);
    let watched = move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&of_thread)))
            && let Some(device) = device.upgrade()
        {
            device.give_up(&text_of(&*panic));
        }
    };
    clock.spawn(name, watched).map(drop)
}
