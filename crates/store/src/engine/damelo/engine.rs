//! The engine behind the store's contract.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;

use super::figures::{
    CHECKPOINTS, COMPACTED_BYTES, COMPACTED_PAGES, COMPACTION_WAITS, COPIED_READS, EVICTED_PAGES, PAGES_READ,
    PAGES_WRITTEN,
};
use super::layout::{At, Slot};
use super::options::DameloOptions;
use super::recover;
use super::state::{Counts, Inner, Out, Residents, Signal, State, Wanted, pools};
use super::{clean, page};
use crate::device::Device;
use crate::device::elevator::Elevator;
use crate::device::limits::MAX_QUEUED_REQUESTS;
use crate::engine::{
    Buffered, Capabilities, Engine, FetchDone, Fetched, Limits, Place, Placement, Places, Probe, Record, SyncDone,
    closing,
};
use crate::layout::health::Health;
use crate::layout::record::HEADER_BYTES;
use crate::layout::table::Table;
use crate::memory::aligned::{ALIGN, round_down};
use crate::terms::{Digest, EngineFigures, Stats, WhyNot};

/// Dámelo. Memory: 43 bytes for each object that it may hold, some 100 for each page, and the frames of its pool; while a
/// group's journal is begun anew, 26 bytes for each of that group's objects.
pub struct Damelo(pub(super) Arc<Inner>);

impl Damelo {
    /// Open what is on the device. One that holds nothing yet opens empty. Errors: the device's, as text.
    pub fn open(device: Arc<dyn Device>, options: &DameloOptions) -> Result<Self, String> {
        // Every frame may be on its way to the disk at once: a flush sends all that are dirty. What else there is keeps to the usual.
        let most = options.pool_frames().iter().sum::<usize>() + MAX_QUEUED_REQUESTS;
        let device: Arc<dyn Device> = Elevator::with_room(device, options.order, options.depth, most);
        let now = device.clock().now();
        let recover::Opened { groups, number, epoch, damaged } = recover::read(&device, options, now);
        let signal: Arc<Signal> = Arc::default();
        let state = State {
            groups: Vec::new(),
            residents: [Residents::default(), Residents::default()],
            number,
            moment: 1,
            epoch,
            shadows: HashMap::new(),
            shadow_count: 0,
            round: None,
            asked: None,
            flushed: now,
            failed: None,
            health: Health::default(),
            closed: options.read_only,
            uses: 0,
            last_created: None,
        };
        let inner = Arc::new(Inner {
            options: *options,
            device,
            pools: pools(options, &signal),
            state: Mutex::new(state),
            counts: Counts::default(),
            signal,
        });
        let mut groups = groups;
        if !options.read_only {
            recover::say_open(&inner.device, &inner, &mut groups, (epoch, number))?;
        }
        inner.state.lock().groups = groups;
        inner.counts.damaged_at_open.store(damaged, Relaxed);
        if options.threads {
            clean::start(&inner).map_err(|error| error.to_string())?;
        }
        Ok(Damelo(inner))
    }

    /// The longest record that fits a frame of so many bytes.
    pub fn room(frame_bytes: usize) -> usize {
        page::room(frame_bytes)
    }

    /// Keep a group's pages in memory longest: they leave by least recent use (section 3). A number beyond the groups does
    /// nothing.
    pub fn love(&self, group: u32) {
        self.care(group, true);
    }

    /// Let a group's pages leave memory first: by most recent use (section 3).
    pub fn hate(&self, group: u32) {
        self.care(group, false);
    }

    fn care(&self, group: u32, loved: bool) {
        let mut state = self.0.state.lock();
        let size = self.0.size_of(group);
        let Some(of_group) = state.group(group) else { return };
        of_group.loved = loved;
        let filling = of_group.filling;
        if !loved {
            // What it has in memory leaves before all else, but for the page that is being filled.
            let residents = state.residents(size);
            let leaves = |at: &At| at.group == group && Some(at.page) != filling;
            let here = residents.pages.iter().filter(|(at, _)| leaves(at)).filter_map(|(_, page)| page.order);
            let here: Vec<_> = here.collect();
            here.into_iter().for_each(|order| residents.order.retire(order));
        }
    }

    /// Whether a group is loved.
    pub fn is_loved(&self, group: u32) -> bool {
        self.0.state.lock().group(group).is_some_and(|group| group.loved)
    }

    /// Checkpoint a group so often; zero for never, `None` for as often as all (section 3).
    pub fn set_checkpoint(&self, group: u32, period: Option<Duration>) {
        if let Some(group) = self.0.state.lock().group(group) {
            group.period = period;
        }
        self.0.signal.set();
    }

    /// Do what the engine's thread does: for who opened it without one.
    pub fn work(&self) {
        self.0.work();
    }

    /// Write everything out, and then forget all pages in memory that nobody reads.
    pub fn flush_pool(&self, done: SyncDone) {
        let inner = self.0.clone();
        let forget = move |result: Result<(), String>| {
            inner.empty_pools();
            done(result);
        };
        self.0.sync_all(false, Box::new(forget));
    }

    fn slot_of(&self, at: &Placement<'_>) -> Option<Slot> {
        let state = self.0.state.lock();
        // The group that is most likely first.
        let layout = &self.0.options.layout;
        let likely = (self.0.said_of_group(at) % u64::from(layout.ordinary.groups)) as u32;
        let others = (0..layout.groups()).filter(|group| *group != likely);
        std::iter::once(likely).chain(others).find_map(|number| {
            let group = state.groups.get(number as usize)?;
            let spot = group.find(&at.digest)?;
            let at = At { group: number, page: spot.page };
            Some(Slot { at, slot: spot.slot, life: group.page(spot.page)?.life })
        })
    }
}

impl Engine for Damelo {
    fn name(&self) -> &'static str {
        "damelo"
    }

    fn limits(&self) -> Limits {
        let layout = &self.0.options.layout;
        let large = if layout.large.groups > 0 { &layout.large } else { &layout.ordinary };
        let max_record_bytes = large.max_record_bytes();
        let extent_bytes = round_down((max_record_bytes - HEADER_BYTES) as u64, ALIGN as u64) as usize;
        let frames = u64::from(large.groups) * u64::from(large.frames) * u64::from(large.frame_bytes);
        let parts = (max_record_bytes / 2).saturating_sub(Table::bytes_for(0)) / 8;
        let max_object_bytes = (parts as u64 * extent_bytes as u64).min(frames / 3);
        Limits { max_record_bytes, extent_bytes, inline_bytes: extent_bytes, max_object_bytes }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { buffered: Some(self), ..Capabilities::default() }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        match self.slot_of(at) {
            Some(slot) => Probe::At(Places::newest_first(&mut [self.0.options.layout.place(&slot)])),
            None => Probe::Absent,
        }
    }

    fn fetch(&self, at: &Placement<'_>, mut places: Places, done: FetchDone) {
        match places.pop().and_then(|place| self.0.options.layout.slot(place)) {
            Some(slot) => self.0.read(slot, Wanted { id: Some(at.digest), indexed: true, even_deleted: false }, done),
            None => done(Fetched::Missing),
        }
    }

    fn fetch_at(&self, id: &Digest, place: Place, _body_bytes: usize, done: FetchDone) {
        match self.0.options.layout.slot(place) {
            Some(slot) => self.0.read(slot, Wanted { id: Some(*id), indexed: false, even_deleted: false }, done),
            None => done(Fetched::Missing),
        }
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        match self.0.options.layout.slot(place) {
            Some(slot) => self.0.read(slot, Wanted { id: None, indexed: false, even_deleted: false }, done),
            None => done(Fetched::Missing),
        }
    }

    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        self.0.poll_create(cx, at, record)
    }

    fn poll_remove(&self, _cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        let mut state = self.0.state.lock();
        if state.closed {
            return Poll::Ready(Err(WhyNot::Closed));
        }
        self.0.remove(&mut state, &at.digest);
        // On a disk that was given up it stays away until a restart only.
        Poll::Ready(if state.health.is_retired() { Err(WhyNot::Device) } else { Ok(None) })
    }

    fn keeps_body_at(&self, _place: Place) -> bool {
        // Its page may be compacted at any time.
        false
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        if let Some(slot) = self.0.options.layout.slot(place) {
            self.0.forget(slot, Some(&at.digest));
        }
    }

    fn touch(&self, _at: &Placement<'_>, place: Place) {
        if let Some(slot) = self.0.options.layout.slot(place)
            && let Some(group) = self.0.state.lock().group(slot.at.group)
        {
            group.touch(slot.at.page);
        }
    }

    fn is_live(&self, place: Place) -> bool {
        let Some(Slot { at, slot, life }) = self.0.options.layout.slot(place) else { return false };
        let mut state = self.0.state.lock();
        let Some(group) = state.group(at.group) else { return false };
        group.page(at.page).is_some_and(|page| page.is_used && page.life == life) && !group.is_deleted(at.page, slot)
    }

    fn sync(&self, _of: Option<&Digest>, done: SyncDone) {
        self.0.sync_all(false, done);
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let (number, from) = ((cursor >> 40) as u32, (cursor & ((1 << 40) - 1)) as usize);
        let state = self.0.state.lock();
        let layout = &self.0.options.layout;
        let Some(group) = state.groups.get(number as usize) else { return (Vec::new(), None) };
        let mut found = Vec::new();
        for (next, _, spot) in group.table.from(from) {
            if !group.is_current(&spot) {
                continue;
            }
            let life = group.page(spot.page).map_or(0, |page| page.life);
            let at = At { group: number, page: spot.page };
            found.push(layout.place(&Slot { at, slot: spot.slot, life }));
            if found.len() >= most.max(1) {
                return (found, Some(u64::from(number) << 40 | next as u64));
            }
        }
        let next = u64::from(number + 1);
        (found, (next < state.groups.len() as u64).then_some(next << 40))
    }

    fn stats(&self) -> Stats {
        let (inner, layout) = (&self.0, &self.0.options.layout);
        let state = inner.state.lock();
        let of_pages = size_of::<super::group::Page>() as u64;
        let index_bytes =
            state.groups.iter().map(|group| group.table.allocated_bytes() + group.pages.len() as u64 * of_pages).sum();
        let counts = &inner.counts;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
        Stats {
            slots: state.groups.iter().map(|group| group.table.most() as u64).sum(),
            mean_object_bytes: layout.mean_object_bytes,
            live_objects: state.groups.iter().map(|group| group.live()).sum(),
            capacity_bytes: layout.frames_bytes(),
            index_bytes,
            false_reads: count(&counts.false_reads),
            corrupt: count(&counts.corrupt),
            damaged_at_open: count(&counts.damaged_at_open),
            read_errors: count(&counts.read_errors),
            write_errors: count(&counts.write_errors),
            sync_errors: count(&counts.sync_errors),
            disks_retired: u64::from(state.health.is_retired()),
            of_engine: EngineFigures::default()
                .with(&PAGES_READ, count(&counts.pages_read))
                .with(&PAGES_WRITTEN, count(&counts.pages_written))
                .with(&EVICTED_PAGES, count(&counts.evicted_pages))
                .with(&COMPACTED_PAGES, count(&counts.compacted_pages))
                .with(&COMPACTED_BYTES, count(&counts.compacted_bytes))
                .with(&COMPACTION_WAITS, count(&counts.compaction_waits))
                .with(&CHECKPOINTS, count(&counts.checkpoints))
                .with(&COPIED_READS, count(&counts.copied_reads)),
            ..Stats::of_device(inner.device.counters())
        }
    }

    fn refuse_appends(&self) {
        self.0.state.lock().closed = true;
    }

    fn close(&self, done: SyncDone) {
        self.0.state.lock().closed = true;
        let begin = |told| self.0.sync_all(true, told);
        let inner = self.0.clone();
        closing::close(self.0.device.clone(), None, begin, move || inner.copy_checkpoints(), done);
    }
}

impl Buffered for Damelo {
    fn is_in_memory(&self, place: Place) -> bool {
        let Some(slot) = self.0.options.layout.slot(place) else { return false };
        self.0.frame_in_memory(slot.at).is_some()
    }

    fn write_out(&self) {
        let mut out = Out::default();
        let mut state = self.0.state.lock();
        self.0.write_dirty(&mut state, |_| true, &mut out);
        drop(state);
        self.0.carry_out(out);
    }
}

impl Drop for Damelo {
    fn drop(&mut self) {
        // Its thread is to see that nobody is left.
        self.0.signal.set();
    }
}
