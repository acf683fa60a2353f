//! Writing a record: its way in its set, its bin, and what of it goes into the log.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;

use super::Inner;
use crate::engine::hashcache::places::at_moment;
use crate::engine::hashcache::table::limits::MAX_SETS_LEARNED;
use crate::engine::{Kind, Place, Record};
use crate::index::Row;
use crate::index::row::Put;
use crate::layout::bin::{self, Content, Seen};
use crate::layout::disk_table::View;
use crate::layout::reach::Reach;
use crate::layout::table::{Extent, Table};
use crate::memory::AlignedBuf;
use crate::terms::limits::WRITE_PATIENCE;
use crate::terms::{Digest, WhyNot};

/// Reads that failed and that nobody asked about again, at most.
const MAX_FAILED: usize = 1024;

/// A set that is being read because it is to be written to.
pub(super) struct Learning {
    wakers: Vec<Waker>,
    failed: bool,
    since: Instant,
}

impl Learning {
    fn begun(since: Instant) -> Self {
        Learning { wakers: Vec::new(), failed: false, since }
    }

    /// Have somebody told when it ends.
    fn wakes(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|other| other.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    fn is_stalled(&self, now: Instant) -> bool {
        !self.failed && now.saturating_duration_since(self.since) >= WRITE_PATIENCE
    }
}

/// Which bin is to be written.
enum Target {
    /// This one.
    Bin(u64),
    /// None: there is nothing to remove.
    Nothing,
    /// It was known what the set holds, and is not any more.
    Unknown,
}

/// The body of a bin whose object goes on in the log.
fn one_extent(first: &[u8], place: Place, bytes: u32) -> Vec<u8> {
    let first = Bytes::copy_from_slice(first);
    Table { first, rest_bytes: bytes.into(), extent_bytes: bytes, extents: vec![Extent { place, bytes }] }.encode()
}

impl Inner {
    /// See [`crate::engine::Engine::poll_append`].
    pub(super) fn poll_append(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        if record.kind == Kind::Extent {
            return self.log.frontier.poll_append(cx, record);
        }
        let retired = self.log.frontier.is_retired();
        ready!(self.table.lock().poll_room(cx.waker(), retired, self.log.device.clock()))?;
        let set = self.set_of(record.id.low());
        // With one way, a new object takes it whatever it holds.
        let needs_row = self.ways() > 1 || record.kind == Kind::Tombstone;
        if needs_row && self.rows.update(set, |_| ()).is_none() {
            ready!(self.poll_learn(cx, set))?;
        }
        let image = match record.kind {
            Kind::Tombstone => self.empty_bin(&record.id),
            _ => ready!(self.poll_image(cx, record))?,
        };
        let mut state = self.table.lock();
        ready!(state.poll_room(cx.waker(), retired, self.log.device.clock()))?;
        let bin = match self.target(record, set) {
            Target::Bin(bin) => Some(bin),
            Target::Nothing => None,
            Target::Unknown => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        let mut ops = Vec::new();
        let mut moment = self.first_order;
        // What the disk holds of lost bins is not known, and it may be an older version: it goes with this write.
        for lost in state.lost_among(self.first_bin(set), self.ways()) {
            if Some(lost) != bin {
                let (op, after) = self.table.write(&mut state, lost, self.empty_bin(&record.id));
                self.rows.free_way(set, (lost - self.first_bin(set)) as usize);
                ops.extend(op);
                moment = after;
            }
        }
        if let Some(bin) = bin {
            let (op, after) = self.table.write(&mut state, bin, image);
            ops.extend(op);
            moment = after;
        }
        drop(state);
        if record.kind != Kind::Tombstone {
            self.banned.remove(&record.id);
        }
        self.table.submit(ops);
        Poll::Ready(Ok(at_moment(moment.saturating_sub(self.first_order))))
    }

    fn target(&self, record: &Record<'_>, set: u64) -> Target {
        let (first, fingerprint) = (self.first_bin(set), self.fingerprint(record.id.low()));
        let at = |way: usize| Target::Bin(first + way as u64);
        if record.kind == Kind::Tombstone {
            let taken = self.rows.free(set, fingerprint);
            return taken.map_or(Target::Unknown, |way| way.map_or(Target::Nothing, at));
        }
        match self.rows.put(set, fingerprint, self.ways()) {
            Some((way, put)) => {
                if put == Put::Replaced {
                    self.lost_to_full_sets.fetch_add(1, Relaxed);
                }
                at(way)
            }
            None if self.ways() == 1 => at(0),
            None => Target::Unknown,
        }
    }

    fn empty_bin(&self, id: &Digest) -> AlignedBuf {
        let nothing = Record { id: *id, kind: Kind::Tombstone, name: &[], head: &[], body: &[], related_bytes: 0 };
        self.table.stamp().bin(&nothing, Content::Record(Kind::Tombstone), Reach::default())
    }

    /// The bin of a record. What does not fit goes into the log first: the rest of the body, or all of the record.
    fn poll_image(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<AlignedBuf, WhyNot>> {
        let stamp = self.table.stamp();
        if bin::fits(record, self.options.table.block_bytes) {
            return Poll::Ready(Ok(stamp.bin(record, Content::Record(record.kind), Reach::default())));
        }
        if let Some((first, extent)) = self.split(record) {
            let place = ready!(self.log.frontier.poll_append(cx, &extent))?;
            let body = one_extent(first, place, extent.body.len() as u32);
            let begun = Record { kind: Kind::Large, body: &body, ..*record };
            return Poll::Ready(Ok(stamp.bin(&begun, Content::Record(Kind::Large), self.reach(place, &extent))));
        }
        let place = ready!(self.log.frontier.poll_append(cx, record))?;
        let all = crate::layout::record::record_bytes(record).unwrap_or(0);
        let body = bin::pointer(place, all);
        let elsewhere = Record { name: &[], head: &[], body: &body, ..*record };
        Poll::Ready(Ok(stamp.bin(&elsewhere, Content::Elsewhere, self.reach(place, record))))
    }

    /// What of the body of an object that does not fit its bin lies there, and the record of the rest in the log; `None`
    /// if not even its name and head fit, or its body lies in extents already.
    fn split<'a>(&self, record: &Record<'a>) -> Option<(&'a [u8], Record<'a>)> {
        let beside = record.name.len() + record.head.len() + Table::bytes_for(1);
        let table = [0; Table::bytes_for(1)];
        let barely = Record { kind: Kind::Large, body: &table, ..*record };
        if record.kind != Kind::Whole || !bin::fits(&barely, self.options.table.block_bytes) {
            return None;
        }
        let (first, rest) = record.body.split_at_checked(self.first_bytes(beside))?;
        let extent = Record { kind: Kind::Extent, name: &[], head: &[], body: rest, ..*record };
        (!rest.is_empty()).then_some((first, extent))
    }

    /// See [`crate::engine::Engine::first_bytes`]. Not much beside the largest record either: should a longer head come that
    /// does not fit the bin with it, all of it goes into the log.
    pub(super) fn first_bytes(&self, beside_bytes: usize) -> usize {
        let room = bin::room_beside(beside_bytes, self.options.table.block_bytes);
        room.min(self.log.layout.max_record_bytes() / 4)
    }

    /// How far a record at a place in the log reaches, with what is related to it; nothing where nothing is read ahead.
    fn reach(&self, place: Place, record: &Record<'_>) -> Reach {
        Reach::of_record(place, &Record { related_bytes: self.log.related_bytes(record), ..*record })
    }

    /// See [`crate::engine::Engine::log_bytes`].
    pub(super) fn log_bytes(&self, record: &Record<'_>) -> usize {
        match record.kind {
            Kind::Tombstone => 0,
            _ if bin::fits(record, self.options.table.block_bytes) => 0,
            _ => self.log.layout.bytes_of(&self.split(record).map_or(*record, |(_, extent)| extent)),
        }
    }

    /// Read a set to know what it holds. Errors: [`WhyNot::Device`] if it cannot be read,
    /// [`WhyNot::Slow`] if that takes too long.
    fn poll_learn(self: &Arc<Self>, cx: &mut Context<'_>, set: u64) -> Poll<Result<(), WhyNot>> {
        {
            let now = self.log.device.clock().now();
            let mut learning = self.learning.lock();
            if learning.get(&set).is_some_and(|under_way| under_way.failed) {
                learning.remove(&set);
                return Poll::Ready(Err(WhyNot::Device));
            }
            // A disk that has been at one of them for so long gives nobody the others either.
            if learning.values().any(|learning| learning.is_stalled(now)) {
                return Poll::Ready(Err(WhyNot::Slow));
            }
            if let Some(under_way) = learning.get_mut(&set) {
                under_way.wakes(cx.waker());
                return Poll::Pending;
            }
            let under_way = || learning.values().filter(|learning| !learning.failed);
            if under_way().count() >= MAX_SETS_LEARNED {
                // When the oldest ends there is room.
                let oldest = under_way().map(|learning| learning.since).min();
                let oldest = learning.values_mut().find(|learning| !learning.failed && Some(learning.since) == oldest);
                oldest.into_iter().for_each(|oldest| oldest.wakes(cx.waker()));
                return Poll::Pending;
            }
            learning.entry(set).or_insert_with(|| Learning::begun(now)).wakes(cx.waker());
        }
        let engine = self.clone();
        self.table.view(self.first_bin(set), self.ways(), Box::new(move |view| engine.learned(set, view)));
        // A device may have answered at once.
        match self.rows.update(set, |_| ()) {
            Some(()) => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }

    /// Those that wait for the read of a set on a disk that gives nothing: they are to ask once more, and are told so.
    pub(super) fn give_up_learning(&self) -> Vec<Waker> {
        let mut learning = self.learning.lock();
        let now = self.log.device.clock().now();
        let stalled = learning.values_mut().filter(|learning| learning.is_stalled(now));
        stalled.flat_map(|learning| std::mem::take(&mut learning.wakers)).collect()
    }

    fn learned(&self, set: u64, view: Option<View>) {
        let mut learning = self.learning.lock();
        let wakers = match view {
            Some(view) => {
                self.learn(set, &view);
                learning.remove(&set).map(|learning| learning.wakers)
            }
            None => {
                if learning.values().filter(|learning| learning.failed).count() >= MAX_FAILED {
                    learning.retain(|_, learning| !learning.failed);
                }
                learning.get_mut(&set).map(|learning| {
                    learning.failed = true;
                    std::mem::take(&mut learning.wakers)
                })
            }
        };
        drop(learning);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Enter what a whole set was seen to hold, unless it was written to since.
    pub(super) fn learn(&self, set: u64, view: &View) {
        let ways = view.seen(&self.table).into_iter().map(|seen| match seen {
            Seen::Bin(header) if header.content != Content::Record(Kind::Tombstone) => {
                (self.fingerprint(header.id.low()), header.order)
            }
            _ => (0, 0),
        });
        let ways: Vec<_> = ways.collect();
        let state = self.table.lock();
        if !state.changed_since(set, view.moment) {
            self.rows.learn(set, Row::learned(&ways, self.options.hash_bits));
        }
    }
}
