//! Opening a log: what it holds is read, and it goes on in a fresh region.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use super::scan::{Recovered, Scan};
use super::{Frontier, LogLayout, Segments, Stamp};
use crate::device::{Device, blocking};
use crate::terms::Place;

/// A log ready to be written to.
pub struct OpenedLog {
    /// Where it grows.
    pub frontier: Arc<Frontier>,
    /// What it held.
    pub found: Recovered,
    /// Parts of it that did not verify.
    pub damaged: u64,
}

/// Open the log from `covered` on; see [`Scan::recover`]. With a number of `entries` its regions are segments with so many
/// at the most, which are to be cleaned before they are written anew; without, the log overwrites itself round and round.
/// Errors: the device's, as text.
pub fn open_log(
    device: &Arc<dyn Device>,
    layout: LogLayout,
    stamp: Stamp,
    read_only: bool,
    flush_every: Option<Duration>,
    covered: Place,
    entries: Option<usize>,
) -> Result<OpenedLog, String> {
    let scan = Scan { device: &**device, layout, stamp, damaged: RefCell::default() };
    let found = scan.recover(covered);
    if !read_only {
        // A process that was killed may have left records unsynced that are found from now on, and that summaries are to
        // vouch for.
        blocking::sync(&**device).map_err(|error| error.to_string())?;
        scan.seal(&found.unsealed);
    }
    let segments = entries.map(|entries| {
        let closed = (found.floor.0..found.next.0).step_by(layout.region_bytes as usize).map(Place);
        Arc::new(Segments::new(device.clock().clone(), layout, entries, closed, Some(found.next)).in_turn())
    });
    let frontier = Frontier::start(device.clone(), layout, stamp, found.next, flush_every, segments);
    let damaged = scan.damaged.borrow().len() as u64;
    Ok(OpenedLog { frontier: frontier.map_err(|error| error.to_string())?, found, damaged })
}
