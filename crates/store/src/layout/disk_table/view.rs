//! Reading bins: what memory knows of them laid over what the disk says.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::{DiskTable, DiskTableState};
use crate::device::{Op, Outcome, Request};
use crate::layout::bin::{BinHeader, Content, Seen};
use crate::memory::AlignedBuf;
use crate::terms::{Digest, Kind};

/// Times that a read is repeated because its set was written meanwhile.
const MOST_READS: u32 = 8;

/// Bins of one set, as they were at a moment.
#[derive(Clone)]
pub struct View {
    /// Nothing in it is newer; see [`DiskTableState::moment`].
    pub moment: u64,
    first: u64,
    bins: Vec<Bytes>,
    from_memory: Vec<bool>,
}

/// One bin of a [`View`] with a sound header.
#[derive(Clone)]
pub struct Slot {
    /// Its header.
    pub header: BinHeader,
    /// Its bytes.
    pub bytes: Bytes,
    /// Whether it was not on disk yet.
    pub from_memory: bool,
}

/// Called with what was read; `None` if the device failed.
pub type ViewDone = Box<dyn FnOnce(Option<View>) + Send>;

impl View {
    /// What each bin is, in order.
    pub fn seen(&self, table: &DiskTable) -> Vec<Seen> {
        let bins = self.bins.iter().zip(self.first..);
        bins.map(|(bytes, bin)| table.stamp.bin_seen(bytes, bin)).collect()
    }

    /// The bin of an object: the newest of them, should there be several. Of a whole set it is a copy, so that who reads the
    /// object slowly holds no more than the object: the set's buffer is free for the next read.
    pub fn slot_of(&self, table: &DiskTable, id: &Digest) -> Option<Slot> {
        let slots = self.seen(table).into_iter().zip(&self.bins).zip(&self.from_memory);
        let mine = slots.filter_map(|((seen, bytes), from_memory)| match seen {
            Seen::Bin(header) if header.id == *id && header.content != Content::Record(Kind::Tombstone) => {
                Some((header, bytes, *from_memory))
            }
            _ => None,
        });
        let (header, bytes, from_memory) = mine.max_by_key(|(header, ..)| header.order)?;
        let bytes = match self.bins.len() {
            1 => bytes.clone(),
            _ => Bytes::copy_from_slice(bytes.get(..header.used_bytes()).unwrap_or(bytes)),
        };
        Some(Slot { header, bytes, from_memory })
    }
}

/// A read under way.
struct Reading {
    set: u64,
    first: u64,
    count: usize,
    moment: u64,
    /// Bins that were not on disk yet.
    overlay: Vec<Option<Bytes>>,
    reads: u32,
}

impl DiskTableState {
    /// The newest bytes of a bin that are not on disk yet.
    fn in_memory(&self, bin: u64) -> Option<&Arc<AlignedBuf>> {
        self.flying.get(&bin).map(|flying| flying.newest())
    }

    fn is_lost(&self, bin: u64) -> bool {
        self.given_up || (self.lost.contains(&bin) && !self.flying.contains_key(&bin))
    }
}

impl DiskTable {
    /// What memory has of the bin of `id` in its set, without the disk.
    pub fn unwritten(&self, id: &Digest) -> Option<(Slot, u64)> {
        let state = self.lock();
        let first = self.layout.first_bin(self.layout.set_of(id.low()));
        let moment = state.moment();
        (first..first + self.layout.ways as u64).find_map(|bin| {
            let image = state.in_memory(bin)?;
            match self.stamp.bin_seen(image, bin) {
                Seen::Bin(header) if header.id == *id && header.content != Content::Record(Kind::Tombstone) => {
                    let bytes = Bytes::copy_from_slice(image);
                    Some((Slot { header, bytes, from_memory: true }, moment))
                }
                _ => None,
            }
        })
    }

    /// Read `count` bins from `first` on, all of one set, in one request. Lost bins come out blank.
    pub fn view(self: &Arc<Self>, first: u64, count: usize, done: ViewDone) {
        self.read(first, count, 1, done);
    }

    fn read(self: &Arc<Self>, first: u64, count: usize, reads: u32, done: ViewDone) {
        let bins = first..first + count as u64;
        let reading = {
            let state = self.lock();
            let overlay = bins.map(|bin| state.in_memory(bin).map(|image| Bytes::copy_from_slice(image))).collect();
            let set = first / self.layout.ways.max(1) as u64;
            Reading { set, first, count, moment: state.moment(), overlay, reads }
        };
        let into = self.pool.take(count * self.layout.block_bytes as usize);
        let table = self.clone();
        let finish = move |outcome: Outcome| table.arrived(reading, outcome, done);
        let request = Request::Read { at: self.layout.device_offset(first), into };
        self.device.submit(Op { request, done: Box::new(finish) });
    }

    fn arrived(self: &Arc<Self>, reading: Reading, outcome: Outcome, done: ViewDone) {
        let Reading { set, first, count, moment, overlay, reads } = reading;
        let bytes = match (outcome.result, outcome.buffer) {
            (Ok(()), Some(buffer)) => self.pool.lend(buffer),
            (result, _) => {
                self.read_errors.fetch_add(1, Relaxed);
                tracing::warn!("a set of the disk table cannot be read: {:?}", result.err());
                return done(None);
            }
        };
        let state = self.lock();
        if state.changed_since(set, moment) && reads < MOST_READS {
            // What was written while it was being read may have come out torn.
            drop(state);
            return self.read(first, count, reads + 1, done);
        }
        let block = self.layout.block_bytes as usize;
        let mut view = View { moment, first, bins: Vec::with_capacity(count), from_memory: Vec::with_capacity(count) };
        for (number, unwritten) in overlay.into_iter().enumerate() {
            view.from_memory.push(unwritten.is_some());
            let read = || bytes.slice((number * block).min(bytes.len())..((number + 1) * block).min(bytes.len()));
            let lost = state.is_lost(first + number as u64);
            view.bins.push(if lost { Bytes::new() } else { unwritten.unwrap_or_else(read) });
        }
        drop(state);
        let damaged = view.seen(self).iter().filter(|seen| **seen == Seen::Damaged).count() as u64;
        self.damaged.fetch_add(damaged, Relaxed);
        done(Some(view));
    }
}
