//! Opening a Disk Table: whether it was closed cleanly, its rows if so, and its log.
//!
//! Before anything is written both headers of the table's state are made to say that it is open; only a clean close says
//! otherwise. So rows that the table has outlived are never believed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::banned::Banned;
use super::options::{TableOptions, TablePolicy};
use super::rows::Rows;
use super::survivors::Survivors;
use super::{HashCacheTable, Inner, clock};
use crate::device::{Device, blocking};
use crate::engine::Place;
use crate::engine::hashcache::recover::{OpenedLog, open_log};
use crate::index::{Row, Sets, SomeSets};
use crate::layout::log::LogCounters;
use crate::layout::{DiskTable, Log, SnapshotHeader, Snapshots};
use crate::limits::MAX_SETS_AT_HAND;

/// Numbers of bins that an opening takes for itself: no process writes so many.
const LEASE: u64 = 1 << 36;

/// What the headers say.
struct State {
    number: u64,
    order: u64,
    clean: Option<SnapshotHeader>,
    damaged: u64,
    is_new: bool,
}

/// The state's place says up to where the bins are numbered, and whether the rows beside it are to be believed.
pub(super) fn state(number: u64, order: u64, is_clean: bool) -> SnapshotHeader {
    SnapshotHeader { number, up_to: Place(order << 1 | u64::from(is_clean)) }
}

impl HashCacheTable {
    /// Open what is on the device, or begin on one that holds nothing yet. Errors: the device's, as text.
    pub fn open(device: Arc<dyn Device>, options: &TableOptions) -> Result<Self, String> {
        let TableOptions { log: layout, stamp, read_only, .. } = *options;
        let snapshots = Snapshots { device: &*device, layout: options.snapshots, stamp };
        let mut before = look(&snapshots);
        let OpenedLog { frontier, found, damaged } = open_log(&device, layout, stamp, read_only, None, Place(0))?;
        before.is_new &= found.next.0 == layout.log_bytes();
        let rows = rows(&snapshots, options, &mut before);
        let open = before.order + LEASE;
        if !read_only {
            for number in [1, 2] {
                let written = snapshots.write_header(state(before.number + number, open, false));
                written.map_err(|error| error.to_string())?;
            }
            blocking::sync(&*device).map_err(|error| error.to_string())?;
        }
        let survivors = Survivors::of(layout, found.next, &found.unsealed);
        let counters = LogCounters::default();
        let pool = Arc::default();
        let log = Arc::new(Log { device: device.clone(), layout, stamp, frontier, counters, pool });
        let table = DiskTable::new(device, options.table, stamp, log.frontier.clone(), log.pool.clone(), before.order);
        let inner = Arc::new(Inner {
            options: *options,
            rows,
            table,
            log,
            survivors,
            learning: Mutex::new(HashMap::new()),
            banned: Banned::default(),
            snapshot: Mutex::new(state(before.number + 2, open, false)),
            damaged_at_open: before.damaged + damaged,
            false_reads: AtomicU64::new(0),
            lost_to_full_sets: AtomicU64::new(0),
        });
        if !read_only {
            clock::start(&inner).map_err(|error| error.to_string())?;
        }
        Ok(HashCacheTable(inner))
    }
}

fn look(snapshots: &Snapshots<'_>) -> State {
    let (headers, damaged) = snapshots.headers();
    let newest = headers.first().copied();
    let is_new = newest.is_none() && damaged == 0;
    // One that is damaged may have been the newest of the two, by one opening; of both nothing is known.
    let order = match newest {
        Some(header) => (header.up_to.0 >> 1) + damaged * 2 * LEASE,
        None if is_new => 1,
        None => 1 << 51,
    };
    let clean = newest.filter(|header| header.up_to.0 & 1 == 1 && damaged == 0);
    let number = newest.map_or(0, |header| header.number) + damaged * 2;
    State { number, order, clean, damaged, is_new }
}

fn rows(snapshots: &Snapshots<'_>, options: &TableOptions, before: &mut State) -> Rows {
    let sets = options.table.sets;
    match options.policy {
        TablePolicy::Basic | TablePolicy::Set => Rows::AtHand(SomeSets::new(sets, MAX_SETS_AT_HAND)),
        TablePolicy::SetMemLru { percent } => {
            let rows = (u128::from(sets) * u128::from(percent) / 100) as u64;
            Rows::Some(SomeSets::new(sets, rows))
        }
        TablePolicy::SetMem if before.is_new => Rows::All(Sets::new(sets, Row::empty().bytes())),
        TablePolicy::SetMem => {
            let all = Sets::new(sets, &Row::UNKNOWN);
            let Some(header) = before.clean else { return Rows::All(all) };
            if snapshots.read(header, |page, bytes| all.load_shard(page, bytes)) {
                return Rows::All(all);
            }
            before.damaged += 1;
            tracing::warn!("the index kept on disk is damaged: each set is read when it is first asked for");
            Rows::All(Sets::new(sets, &Row::UNKNOWN))
        }
    }
}
