//! Opening HashCache-Log: the newest whole snapshot of the index, and what the log holds beyond it.
//!
//! There is one way to open, after a clean stop and after a kill alike; a clean stop only leaves a newer snapshot. From the
//! place that the snapshot covers on, the end of each region is read. A region with a sound summary needs no more than that.
//! One without, because it was open or is damaged, is walked record by record. Then the records that the snapshot does not
//! know enter the index, oldest first, and each tombstone removes what came before it.

use std::sync::Arc;

use super::index::Index;
use super::options::HashCacheLogOptions;
use super::positions::Positions;
use crate::device::Device;
use crate::engine::hashcache::loglru::{LruIndex, OffsetLayout, WAYS};
use crate::engine::{Kind, Place};
use crate::index::Sets;
use crate::layout::opening::{OpenedLog, open_log};
use crate::layout::{Frontier, SnapshotHeader, Snapshots};

/// What was found: an index ready for use, the frontier it goes on at, and the snapshot it came from.
pub struct Opened {
    pub index: Positions,
    pub frontier: Arc<Frontier>,
    pub snapshot: Option<SnapshotHeader>,
    /// Parts of the disk that did not verify.
    pub damaged: u64,
}

/// Open what is on the device, with that of the positions if it is another one. Errors: the devices', as text.
///
/// The order of use becomes that of the snapshot, then that of writing. A slot is a hint, so an entry that does not
/// match its record costs one read.
pub fn open(
    device: &Arc<dyn Device>,
    positions: Option<Arc<dyn Device>>,
    options: &HashCacheLogOptions,
) -> Result<Opened, String> {
    let HashCacheLogOptions { layout, stamp, read_only, flush_every, .. } = *options;
    if let Some((file, kept)) = options.offsets.filter(|_| !read_only) {
        let beside = if file.is_apart { positions } else { Some(device.clone()) }.filter(|_| kept < WAYS);
        return open_lru(device, beside, options, (file, kept));
    }
    let (sets, snapshot, damaged) = newest_snapshot(&**device, options);
    let covered = snapshot.map_or(Place(0), |header| header.up_to);
    let OpenedLog { frontier, found, damaged: in_log } =
        open_log(device, layout, stamp, read_only, flush_every, covered, None)?;
    let index = Index::over(sets, options.cut(), frontier.clone(), layout);
    if snapshot.is_some() {
        index.keep_between(found.floor, covered);
    }
    // Later records of a fingerprint join or replace earlier ones as they did when they were written, and tombstones
    // remove what came before.
    for entry in &found.entries {
        match entry.kind {
            Kind::Whole | Kind::Large => index.insert_low(entry.id_low, entry.place, entry.reach),
            Kind::Tombstone => index.remove_low(entry.id_low),
            Kind::Extent => {}
        }
    }
    Ok(Opened { index: Positions::All(index), frontier, snapshot, damaged: damaged + in_log })
}

/// Open a log whose index has some positions on disk: all of them are written anew. Looked at only, it has them all in
/// memory, since nothing may be written. Memory while opening: 32 bytes a record. Errors: also that there is no device for
/// the positions that memory has no room for.
fn open_lru(
    device: &Arc<dyn Device>,
    positions: Option<Arc<dyn Device>>,
    options: &HashCacheLogOptions,
    (file, kept): (OffsetLayout, usize),
) -> Result<Opened, String> {
    if positions.is_none() && kept < WAYS {
        return Err("there is no device for its positions, and memory has room for some only".into());
    }
    let HashCacheLogOptions { layout, stamp, flush_every, .. } = *options;
    let OpenedLog { frontier, found, damaged } = open_log(device, layout, stamp, false, flush_every, Place(0), None)?;
    let index = LruIndex::new(positions, file, (kept, options.hash_bits), frontier.clone(), layout);
    let filled = index.fill(found.entries, |entry| entry.kind == Kind::Tombstone);
    filled.map_err(|error| format!("the positions of its objects could not be written: {error}"))?;
    index.start().map_err(|error| error.to_string())?;
    Ok(Opened { index: Positions::Some(index), frontier, snapshot: None, damaged })
}

/// The sets of the newest snapshot that is whole, or empty ones; and how many snapshots are damaged.
fn newest_snapshot(device: &dyn Device, options: &HashCacheLogOptions) -> (Sets, Option<SnapshotHeader>, u64) {
    let room = || Index::room(options.slots, options.cut());
    let Some(layout) = options.snapshots else { return (room(), None, 0) };
    let snapshots = Snapshots { device, layout, stamp: options.stamp };
    let (headers, mut damaged) = snapshots.headers();
    for header in headers {
        let sets = room();
        if snapshots.read(header, |page, bytes| sets.load_shard(page, bytes)) {
            return (sets, Some(header), damaged);
        }
        damaged += 1;
        tracing::warn!("a snapshot of the index is damaged; an older one, or the log alone, will do");
    }
    (room(), None, damaged)
}
