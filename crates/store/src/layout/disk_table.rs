//! The Disk Table: sets of bins of a fixed size at fixed places, written over in place (HashCache, sections 3.1, 3.2).
//!
//! A bin that was written is served from memory until it is on the disk; of one bin no two writes are ever under way, so
//! the later is also the last. What a bin holds is not known once a write of it failed, or a sync of the disk since it
//! was written: it is empty then until it is written again ([`DiskTable::view`] says so of it), since the disk may still
//! hold what it held before, which was replaced or removed.
//!
//! Syncs are the log's ([`Frontier`]): the kernel tells of a lost page once, and one asker must hear of it for all.

mod syncs;
mod view;
mod writes;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};

use super::changed::Changed;
use super::frontier::Frontier;
use super::record::Stamp;
use crate::device::Device;
use crate::memory::Pool;
use syncs::{TableSync, Unsynced};
pub use view::{Slot, View, ViewDone};
use writes::Flying;

/// How a Disk Table is cut. Fixed when the store is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// Where on the device it begins.
    pub base: u64,
    /// How many sets it has.
    pub sets: u64,
    /// Bins of a set.
    pub ways: usize,
    /// Bytes of a bin, a multiple of 4096.
    pub block_bytes: u64,
}

impl TableLayout {
    /// Bins of all sets.
    pub fn bins(&self) -> u64 {
        self.sets * self.ways as u64
    }

    /// Bytes of the whole table.
    pub fn bytes(&self) -> u64 {
        self.bins() * self.block_bytes
    }

    /// The set of an object, from [`crate::Digest::low`], by its high bits.
    pub fn set_of(&self, id_low: u64) -> u64 {
        ((u128::from(id_low) * u128::from(self.sets)) >> 64) as u64
    }

    /// The first bin of a set.
    pub fn first_bin(&self, set: u64) -> u64 {
        set * self.ways as u64
    }

    fn device_offset(&self, bin: u64) -> u64 {
        self.base + bin * self.block_bytes
    }
}

/// A Disk Table. Memory: [`crate::limits::MAX_BINS_IN_FLIGHT`] bins, what
/// [`crate::limits::MAX_UNSYNCED_BINS`] and [`crate::limits::MAX_LOST_BINS`] bins are called, and
/// [`crate::limits::MAX_CHANGED_SETS`] numbers of sets.
pub struct DiskTable {
    device: Arc<dyn Device>,
    layout: TableLayout,
    stamp: Stamp,
    frontier: Arc<Frontier>,
    pool: Arc<Pool>,
    state: Mutex<DiskTableState>,
    /// Bins that did not verify.
    pub damaged: AtomicU64,
    /// Reads that the device failed.
    pub read_errors: AtomicU64,
}

/// What changes of a table, locked for memory work only.
pub struct DiskTableState {
    /// The number that the next bin written is given.
    order: u64,
    flying: HashMap<u64, Flying>,
    changed: Changed,
    lost: HashSet<u64>,
    /// So many bins were lost that nothing of the table is believed any more.
    given_up: bool,
    lost_orders: VecDeque<(u64, u64)>,
    unsynced: Unsynced,
    syncs: Vec<TableSync>,
    /// Failed syncs of the log that were seen here.
    sync_errors: u64,
    /// A failed write or sync that nobody was told of yet.
    failed: Option<String>,
    /// The greatest number of a bin that was lost.
    lost_order: u64,
    waiting: Vec<Waker>,
    closed: bool,
}

impl DiskTable {
    /// A table whose next bin is given the number `order`.
    pub fn new(
        device: Arc<dyn Device>,
        layout: TableLayout,
        stamp: Stamp,
        frontier: Arc<Frontier>,
        pool: Arc<Pool>,
        order: u64,
    ) -> Arc<Self> {
        let state = DiskTableState {
            order,
            flying: HashMap::new(),
            changed: Changed::default(),
            lost: HashSet::new(),
            given_up: false,
            lost_orders: VecDeque::new(),
            unsynced: Unsynced::default(),
            syncs: Vec::new(),
            sync_errors: frontier.sync_errors(),
            failed: None,
            lost_order: 0,
            waiting: Vec::new(),
            closed: false,
        };
        let state = Mutex::new(state);
        Arc::new(DiskTable {
            device,
            layout,
            stamp,
            frontier,
            pool,
            state,
            damaged: AtomicU64::new(0),
            read_errors: AtomicU64::new(0),
        })
    }

    /// How it is cut.
    pub fn layout(&self) -> &TableLayout {
        &self.layout
    }

    /// How its bins are stamped.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Look at or change what changes. Nothing that may end a request is done meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, DiskTableState> {
        let mut state = self.state.lock();
        state.notice_failed_syncs(self.frontier.sync_errors());
        state
    }
}

impl DiskTableState {
    /// The number of the next bin written: what is read from now on knows of all before it.
    pub fn moment(&self) -> u64 {
        self.order
    }

    /// Whether a bin of this set was written since a moment, or may have been.
    pub fn changed_since(&self, set: u64, moment: u64) -> bool {
        self.changed.since(set, moment)
    }

    /// Whether nothing that was written up to a moment, as its last, was lost.
    pub fn lasted(&self, moment: u64) -> bool {
        let last = moment.saturating_sub(1);
        !self.given_up && !self.lost_orders.iter().any(|(from, to)| (*from..=*to).contains(&last))
    }

    /// Refuse every write from now on.
    pub fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        std::mem::take(&mut self.waiting)
    }

    /// Whether writes are refused.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}
