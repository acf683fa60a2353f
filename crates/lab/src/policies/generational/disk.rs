//! Segments of several logs, and what lies in them.

use std::collections::{HashMap, VecDeque};

use tinaja_store::layout::LogLayout;
use tinaja_store::replace::generations::{Log, Segment, Shape};

/// No segment has this number.
pub const NOWHERE: u32 = u32::MAX;

/// A record: all of an object, or a part of a large one.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Whose it is.
    pub object: u32,
    /// Which of the object's records.
    pub version: u32,
    /// Its size.
    pub bytes: u64,
}

/// See the module.
pub struct Disk {
    pub layout: LogLayout,
    /// Bytes written so far.
    pub written: u64,
    segments: Vec<Slot>,
    free: Vec<u32>,
    logs: Vec<Open>,
    /// Where live objects lie: the segments and the bytes in each. Most have one.
    places: HashMap<u32, Vec<(u32, u64)>>,
    shape: Shape,
}

#[derive(Default)]
struct Slot {
    known: Option<Segment>,
    records: Vec<Record>,
}

/// A log: its closed segments, the oldest first, and the one that is being filled.
#[derive(Default)]
struct Open {
    closed: VecDeque<u32>,
    open: Option<u32>,
    /// Bytes used in it by batches that are closed, and bytes of the batch that is not.
    used: u64,
    batch: u64,
}

impl Disk {
    pub fn new(layout: LogLayout, shape: Shape) -> Disk {
        let segments = layout.regions as u32;
        Disk {
            layout,
            written: 0,
            segments: (0..segments).map(|_| Slot::default()).collect(),
            free: (0..segments).rev().collect(),
            logs: (0..shape.logs()).map(|_| Open::default()).collect(),
            places: HashMap::new(),
            shape,
        }
    }

    /// Free segments.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn segment(&self, number: u32) -> Option<&Segment> {
        self.segments.get(number as usize)?.known.as_ref()
    }

    /// All segments that are not free.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        self.segments.iter().filter_map(|slot| slot.known)
    }

    /// Objects and bytes that are live.
    #[cfg(test)]
    pub fn live(&self) -> (u32, u64) {
        self.segments().fold((0, 0), |sum, segment| (sum.0 + segment.live, sum.1 + segment.live_bytes))
    }

    /// The oldest closed segment of each log.
    pub fn oldest(&self) -> impl Iterator<Item = Segment> {
        self.logs.iter().filter_map(|log| self.segment(*log.closed.front()?).copied())
    }

    /// Whether a record fits into what is open of a log.
    pub fn has_room(&self, log: Log, bytes: u64) -> bool {
        let Some(open) = self.logs.get(usize::from(log.0)) else { return false };
        open.open.is_some_and(|number| self.fits(open, number, bytes).is_some())
    }

    /// What is used and in the batch behind a record, if it fits: batches are written as whole blocks, and none is larger than a
    /// quarter of a segment.
    fn fits(&self, open: &Open, number: u32, bytes: u64) -> Option<(u64, u64)> {
        let records = self.segments.get(number as usize).map_or(0, |slot| slot.records.len());
        let room = self.layout.region_bytes - self.layout.summary_bytes(records + 1);
        let align = self.layout.align;
        let (used, batch) = match open.batch + bytes <= self.layout.batch_bytes() as u64 {
            true => (open.used, open.batch + bytes),
            false => (open.used + open.batch.next_multiple_of(align), bytes),
        };
        (used + batch.next_multiple_of(align) <= room).then_some((used, batch))
    }

    /// Write a record; the segment that it lies in now. `None` if there is no room.
    pub fn append(&mut self, log: Log, record: Record, now: u64) -> Option<u32> {
        if !self.has_room(log, record.bytes) {
            let next = self.free.pop()?;
            let open = self.logs.get_mut(usize::from(log.0))?;
            if let Some(full) = open.open.replace(next) {
                open.closed.push_back(full);
                let records = self.segments.get(full as usize).map_or(0, |slot| slot.records.len());
                self.written += open.batch.next_multiple_of(self.layout.align) + self.layout.summary_bytes(records);
            }
            (open.used, open.batch) = (0, 0);
            if let Some(slot) = self.segments.get_mut(next as usize) {
                slot.known = Some(Segment { log, born: now, live: 0, live_bytes: 0 });
            }
        }
        let open = self.logs.get(usize::from(log.0))?;
        let number = open.open?;
        let (used, batch) = self.fits(open, number, record.bytes)?;
        let open = self.logs.get_mut(usize::from(log.0))?;
        self.written += used - open.used;
        (open.used, open.batch) = (used, batch);
        let slot = self.segments.get_mut(number as usize)?;
        slot.records.push(record);
        if let Some(segment) = &mut slot.known {
            segment.live += u32::from(!self.shape.is_large(log));
            segment.live_bytes += record.bytes;
        }
        self.places.entry(record.object).or_default().push((number, record.bytes));
        Some(number)
    }

    /// An object is live no longer, wherever it lies.
    pub fn die(&mut self, object: u32) {
        for (number, bytes) in self.places.remove(&object).unwrap_or_default() {
            let slot = self.segments.get_mut(number as usize);
            if let Some(segment) = slot.and_then(|slot| slot.known.as_mut()) {
                segment.live = segment.live.saturating_sub(1);
                segment.live_bytes -= bytes;
            }
        }
    }

    /// Take the oldest closed segment out of its log: what was known of it, its number and its records. Nothing of it is free yet.
    pub fn take_oldest(&mut self, log: Log) -> Option<(Segment, u32, Vec<Record>)> {
        let number = self.logs.get_mut(usize::from(log.0))?.closed.pop_front()?;
        let slot = self.segments.get_mut(number as usize)?;
        Some((slot.known?, number, std::mem::take(&mut slot.records)))
    }

    /// Records that lie whole within so many bytes behind one in its segment.
    pub fn behind(&self, number: u32, object: u32, version: u32, bytes: u64) -> Vec<Record> {
        let records = self.segments.get(number as usize).map_or(&[][..], |slot| slot.records.as_slice());
        let of = |record: &&Record| record.object == object && record.version == version;
        let behind = records.iter().skip_while(|record| !of(record)).skip_while(of);
        let mut end = 0;
        let fits = |record: &&Record| {
            end += record.bytes;
            end <= bytes
        };
        behind.take_while(fits).copied().collect()
    }

    /// A segment is free, and says so at its end.
    pub fn release(&mut self, number: u32) {
        self.written += self.layout.summary_bytes(0);
        if let Some(slot) = self.segments.get_mut(number as usize) {
            slot.known = None;
        }
        self.free.push(number);
    }
}
