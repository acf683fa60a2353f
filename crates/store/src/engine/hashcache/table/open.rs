//! Opening a Disk Table: whether it was closed cleanly, its rows if so, and its log.
//!
//! Before anything is written both headers of the table's state are made to say that it is open; only a clean close says
//! otherwise. So rows that the table has outlived are never believed: a row that missed one write would hide an object, and the
//! object's older version would stay behind.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::banned::Banned;
use super::options::{TableOptions, TablePolicy};
use super::rows::{AllRows, Rows};
use super::survivors::Survivors;
use super::{HashCacheTable, Inner, clock};
use crate::device::{Device, blocking};
use crate::engine::Place;
use crate::engine::hashcache::table::limits::MAX_SETS_AT_HAND;
use crate::index::{Row, Sets, SomeSets};
use crate::layout::ahead::Ahead;
use crate::layout::limits::MAX_AHEAD_BYTES;
use crate::layout::log::LogCounters;
use crate::layout::opening::{OpenedLog, open_log};
use crate::layout::{DiskTable, Log, LogLayout, SnapshotHeader, Snapshots, TableLayout};

/// Numbers of bins that go with each number of a header: no process writes so many.
const ORDERS: u64 = 1 << 40;

/// What the headers say.
struct Headers {
    number: u64,
    /// The log need not be looked at before this place.
    covered: Place,
    clean: Option<SnapshotHeader>,
    damaged: u64,
    is_new: bool,
}

/// The state's place says from where on the log, which ends at `next`, must be looked at, and whether the rows beside it
/// are to be believed. That is a region before the end: one that has ended tells the next opening that it is on the right
/// lap.
pub(super) fn state(number: u64, log: &LogLayout, next: Place, is_clean: bool) -> SnapshotHeader {
    let covered = next.0.saturating_sub(log.region_bytes);
    SnapshotHeader { number, up_to: Place(covered << 1 | u64::from(is_clean)), epoch: 0 }
}

impl HashCacheTable {
    /// Open what is on the device, or begin on one that holds nothing yet. Errors: the device's, as text.
    pub fn open(device: Arc<dyn Device>, options: &TableOptions) -> Result<Self, String> {
        let TableOptions { log: layout, stamp, read_only, .. } = *options;
        let snapshots = Snapshots { device: &*device, layout: options.snapshots, stamp };
        let mut before = look(&snapshots);
        let OpenedLog { frontier, found, damaged } =
            open_log(&device, layout, stamp, read_only, None, before.covered, None)?;
        before.is_new &= found.next.0 == layout.log_bytes();
        let rows = rows(&snapshots, options, &mut before);
        let opened = state(before.number + 2, &layout, found.next, false);
        if !read_only {
            for header in [SnapshotHeader { number: opened.number - 1, ..opened }, opened] {
                snapshots.write_header(header).map_err(|error| error.to_string())?;
            }
            blocking::sync(&*device).map_err(|error| error.to_string())?;
        }
        let survivors = Survivors::of(layout, found.next, &found.unsealed);
        let counters = LogCounters::default();
        let pool = Arc::default();
        let ahead = options.reads_ahead.then(|| Ahead::of(MAX_AHEAD_BYTES));
        let log = Arc::new(Log { device: device.clone(), layout, stamp, frontier, counters, pool, ahead });
        let first_order = opened.number * ORDERS;
        let table = DiskTable::new(device, options.table, stamp, log.frontier.clone(), log.pool.clone(), first_order);
        let inner = Arc::new(Inner {
            options: *options,
            rows,
            table,
            log,
            survivors,
            learning: Mutex::new(HashMap::new()),
            banned: Banned::default(),
            first_order,
            snapshot: Mutex::new(opened),
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

fn look(snapshots: &Snapshots<'_>) -> Headers {
    let (headers, damaged) = snapshots.headers();
    let newest = headers.first().copied();
    let is_new = newest.is_none() && damaged == 0;
    // Of one that is damaged it is known that it was at most the next; of both nothing is.
    let number = match newest {
        Some(header) => header.number + damaged * 2,
        None if is_new => 0,
        None => 1 << 22,
    };
    let covered = newest.map_or(Place(0), |header| Place(header.up_to.0 >> 1));
    let clean = newest.filter(|header| header.up_to.0 & 1 == 1 && damaged == 0);
    Headers { number, covered, clean, damaged, is_new }
}

fn rows(snapshots: &Snapshots<'_>, options: &TableOptions, before: &mut Headers) -> Rows {
    let TableOptions { table: TableLayout { sets, .. }, hash_bits, .. } = *options;
    match options.policy {
        TablePolicy::Basic | TablePolicy::Set => Rows::AtHand(SomeSets::new(sets, MAX_SETS_AT_HAND, hash_bits)),
        TablePolicy::SetMemLru { percent } => {
            let rows = (u128::from(sets) * u128::from(percent) / 100) as u64;
            Rows::Some(SomeSets::new(sets, rows, hash_bits))
        }
        TablePolicy::SetMem if before.is_new => {
            Rows::All(AllRows::unused(Sets::new(sets, Row::empty(hash_bits).bytes()), hash_bits))
        }
        TablePolicy::SetMem => {
            let all = Sets::new(sets, &Row::unknown(hash_bits));
            let Some(header) = before.clean else { return Rows::All(AllRows::unused(all, hash_bits)) };
            if snapshots.read(header, |page, bytes| all.load_shard(page, bytes)) {
                return Rows::All(AllRows::saved(all, hash_bits));
            }
            before.damaged += 1;
            tracing::warn!("the index kept on disk is damaged: each set is read when it is first asked for");
            Rows::All(AllRows::unused(Sets::new(sets, &Row::unknown(hash_bits)), hash_bits))
        }
    }
}
