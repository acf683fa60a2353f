//! The engine's own policy over a disk that is only counted: several logs with a segment open in each, records with their headers,
//! batches with their padding, summaries, snapshots of the index, free segments. What leaves and what is written again is decided
//! by [`Generations`], the code that the engine calls, and called as the engine calls it.
//!
//! `disk` has the segments and what lies in them, `memory` an index of which not all is in memory.

mod disk;
mod memory;

use tinaja_store::layout::LogLayout;
use tinaja_store::layout::record::NUMBERED_HEADER_BYTES;
use tinaja_store::replace::generations::{Generations, Log, Parts, Value};

use super::{Asked, Policy};
use disk::{Disk, NOWHERE, Record};
use memory::Memory;
pub use memory::{Budget, Reads};

/// How the engine is set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// What counts.
    pub value: Value,
    /// Parts that are switched off.
    pub parts: Parts,
    /// The size of a segment, if not the one that [`LogLayout`] gives.
    pub segment_bytes: Option<u64>,
    /// Memory of an index that is on the disk as a whole. All of it is in memory where nothing is said.
    pub index: Option<Budget>,
}

/// The header of a record.
const HEADER_BYTES: u64 = NUMBERED_HEADER_BYTES as u64;
/// The index has a place for each so many bytes of the disk, and each takes so much of a snapshot.
const PLACE_BYTES: u64 = 2048;
const SLOT_BYTES: u64 = 6;
/// A snapshot is written when the log has grown by so many times its size, as in hashcache-log.
const SNAPSHOT_SHARE: u64 = 50;
/// So many segments are free, or being cleaned.
const FREE: usize = 2;
/// A stale entry is found so long after its object left: parts of a lap.
const STALE_FOR: u64 = 2;
/// So many bytes behind a record are read with it where a read of the table led there.
const READ_ALONG: u64 = 32 << 10;
/// No object is larger than three fifths of the disk.
const LARGEST: (u64, u64) = (3, 5);

/// See the module. Memory: some 60 bytes for each object of the sequence.
pub struct Generational {
    policy: Generations,
    disk: Disk,
    objects: Vec<Object>,
    stored: u64,
    largest_bytes: u64,
    snapshot_bytes: u64,
    snapshot_at: u64,
    returned: u64,
    memory: Option<Memory>,
    /// Bytes written until lookups counted, and bytes that merges have read since.
    counts_from: Option<u64>,
    merged: u64,
    positions: u32,
}

/// What the index and stale entries know.
#[derive(Clone, Copy)]
struct Object {
    /// The segment in which it begins, or [`NOWHERE`].
    segment: u32,
    /// Which of its records is the newest.
    version: u32,
    hits: u8,
    /// Where it begins: no two records have the same.
    position: u32,
    /// When it left, if it ever did.
    left: Option<u64>,
}

const UNKNOWN: Object = Object { segment: NOWHERE, version: 0, hits: 0, position: 0, left: None };

impl Generational {
    /// Empty, on a disk of so many bytes; superblock, snapshots and all are within. `None` if that is too small for an engine.
    pub fn new(disk_bytes: u64, settings: Settings) -> Option<Generational> {
        let snapshot_bytes = (disk_bytes / PLACE_BYTES * SLOT_BYTES).next_multiple_of(4096) + 4096;
        let for_log = disk_bytes.checked_sub(4096 + 2 * snapshot_bytes)?;
        let mut layout = LogLayout::new(4096, for_log, 4096)?;
        if let Some(bytes) = settings.segment_bytes {
            (layout.region_bytes, layout.regions) = (bytes, for_log / bytes);
        }
        let policy = Generations::with(layout.log_bytes(), layout.region_bytes, settings.value, settings.parts);
        // What is being filled, and free, is no room for it.
        let room = layout.regions.checked_sub((policy.logs() + FREE) as u64).filter(|room| *room > 1)?;
        let largest_bytes = (layout.log_bytes() / LARGEST.1 * LARGEST.0).min(room * layout.region_bytes / 10 * 9);
        Some(Generational {
            largest_bytes,
            disk: Disk::new(layout, policy.shape()),
            policy,
            objects: Vec::new(),
            stored: 0,
            snapshot_bytes,
            snapshot_at: 0,
            returned: 0,
            memory: settings.index.map(Memory::new),
            counts_from: None,
            merged: 0,
            positions: 0,
        })
    }

    /// Objects that are there.
    pub fn live(&self) -> u64 {
        self.objects.iter().filter(|object| object.segment != NOWHERE).count() as u64
    }

    /// What lookups read, where the index is on the disk, and bytes of memory that it took at the most. What is
    /// written, and read to merge, counts as requests as large as a batch.
    pub fn reads(&self) -> Option<(Reads, u64)> {
        let memory = self.memory.as_ref()?;
        let written = self.disk.written - self.counts_from.unwrap_or(self.disk.written);
        let stores = (written + self.merged) as f64 / self.disk.layout.batch_bytes() as f64;
        Some((Reads { stores, ..memory.reads }, memory.most_bytes()))
    }

    /// How often an object was asked for, as far as the index knows.
    fn hits(&self, object: u32, known: &Object) -> u8 {
        self.memory.as_ref().map_or(known.hits, |memory| memory.hits(object, known.position))
    }

    /// The policy as it is now.
    pub fn policy(&self) -> &Generations {
        &self.policy
    }

    /// Objects that were stored and had left not long before.
    pub fn returned(&self) -> u64 {
        self.returned
    }

    /// What is found of an object in the index, where that is on the disk. Where the table leads to a record, what lies behind
    /// it is read along. Lookups count once the disk was full.
    fn look_up(&mut self, object: u32) {
        let Some(memory) = &mut self.memory else { return };
        let there = self.objects.get(object as usize).copied().filter(|known| known.segment != NOWHERE);
        let counts = self.stored >= self.disk.layout.log_bytes();
        if counts {
            self.counts_from.get_or_insert(self.disk.written);
        }
        let by_table = memory.look_up(object, there.map(|known| known.position), counts);
        let Some(there) = there.filter(|_| by_table) else { return };
        for record in self.disk.behind(there.segment, object, there.version, READ_ALONG) {
            let newest = |known: &&Object| known.segment == there.segment && known.version == record.version;
            let known = self.objects.get(record.object as usize).filter(newest);
            known.into_iter().for_each(|known| memory.read_along(record.object, known.position));
        }
    }

    /// Forget an object, as a purge does. Whether it was there.
    pub fn remove(&mut self, object: u32) -> bool {
        let was_there = self.take_out(object);
        if let Some(memory) = self.memory.as_mut().filter(|_| was_there) {
            memory.removed(object);
        }
        was_there
    }

    /// An object is no longer where it was.
    fn take_out(&mut self, object: u32) -> bool {
        let Some(known) = self.objects.get_mut(object as usize) else { return false };
        let was_there = std::mem::replace(&mut known.segment, NOWHERE) != NOWHERE;
        known.version += 1;
        let position = known.position;
        if was_there {
            self.disk.die(object);
            if let Some(memory) = &mut self.memory {
                memory.gone(object, position);
            }
        }
        was_there
    }

    /// Store an object, or another version of it: in the log of what it has shown to be.
    pub fn store(&mut self, object: u32, object_bytes: u64) {
        let record_bytes = object_bytes + HEADER_BYTES;
        if record_bytes > self.largest_bytes {
            return;
        }
        if self.objects.len() <= object as usize {
            self.objects.resize(object as usize + 1, UNKNOWN);
        }
        let known = self.objects.get(object as usize).copied().unwrap_or(UNKNOWN);
        let log = match self.disk.segment(known.segment) {
            Some(segment) => self.policy.log_of_kept(segment.log, record_bytes, self.hits(object, &known)),
            None => {
                let lap = self.disk.layout.log_bytes();
                let is_stale = match &self.memory {
                    Some(memory) => memory.is_stale(object),
                    None => known.left.is_some_and(|left| self.policy.now() - left < lap / STALE_FOR),
                };
                self.returned += u64::from(is_stale);
                self.policy.log_of_new(record_bytes, is_stale)
            }
        };
        self.remove(object);
        self.policy.stored(record_bytes);
        self.policy.stored_in(log, record_bytes);
        if self.policy.is_large(record_bytes) {
            self.store_parts(object, record_bytes, log);
        } else {
            self.write(object, record_bytes, log);
        }
        if self.policy.is_time_to_learn() {
            self.policy.learn(self.disk.segments());
        }
        self.merge_if_due();
        if self.memory.is_none() && self.disk.written >= self.snapshot_at + SNAPSHOT_SHARE * self.snapshot_bytes {
            self.disk.written += self.snapshot_bytes;
            self.snapshot_at = self.disk.written;
            self.policy.pay(self.snapshot_bytes);
        }
    }

    /// Make the table of an index on disk anew, if enough has changed.
    fn merge_if_due(&mut self) {
        let Some(memory) = self.memory.as_mut().filter(|memory| memory.is_due()) else { return };
        let there = |known: &&Object| known.segment != NOWHERE;
        let bytes = memory.merge(|object| self.objects.get(object as usize).filter(there).map(|known| known.position));
        self.disk.written += bytes;
        self.merged += if self.counts_from.is_some() { bytes } else { 0 };
        self.policy.pay(bytes);
    }

    /// A large object is parts, one behind the other, in as many segments as that takes.
    fn store_parts(&mut self, object: u32, record_bytes: u64, log: Log) {
        let part = self.disk.layout.max_record_bytes() as u64;
        let mut left = record_bytes;
        while left > 0 {
            let bytes = left.min(part);
            if !self.write(object, bytes, log) {
                self.remove(object);
                return;
            }
            left -= bytes;
        }
    }

    /// Write a record of a client's. Whether there was room.
    fn write(&mut self, object: u32, bytes: u64, log: Log) -> bool {
        let now = self.policy.now();
        while !self.disk.has_room(log, bytes) && self.disk.free() < FREE {
            let home = self.objects.get(object as usize).and_then(|known| self.disk.segment(known.segment));
            if !self.clean(home.map_or(now, |home| home.born)) {
                return false;
            }
            self.merge_if_due();
        }
        let is_stored = self.append(object, bytes, log, now);
        self.stored += if is_stored { bytes } else { 0 };
        is_stored
    }

    fn append(&mut self, object: u32, bytes: u64, log: Log, now: u64) -> bool {
        let Some(known) = self.objects.get_mut(object as usize) else { return false };
        let record = Record { object, version: known.version, bytes };
        let Some(segment) = self.disk.append(log, record, now) else { return false };
        if known.segment == NOWHERE {
            self.positions += 1;
            (known.segment, known.hits, known.position) = (segment, 0, self.positions);
            if let Some(memory) = &mut self.memory {
                memory.record(object, self.positions);
            }
        }
        true
    }

    /// Make a segment free. Whether there was one that could be: those of the large object that is being stored cannot, or it would
    /// push itself out before anybody could ask for it. They are from `storing_since` on.
    fn clean(&mut self, storing_since: u64) -> bool {
        let shape = self.policy.shape();
        let oldest = self.disk.oldest().filter(|segment| !shape.is_large(segment.log) || segment.born < storing_since);
        let Some(log) = self.policy.victim(oldest) else { return false };
        let Some((segment, number, records)) = self.disk.take_oldest(log) else { return false };
        let now = self.policy.now();
        for record in records {
            let Some(known) = self.objects.get_mut(record.object as usize) else { continue };
            if known.version != record.version || known.segment == NOWHERE {
                continue;
            }
            if known.segment != number {
                // A part of what begins elsewhere: all of it is gone.
                self.leave(record.object, now);
                continue;
            }
            let known = *known;
            let hits = self.hits(record.object, &known);
            self.take_out(record.object);
            // A part of a large object may be small enough, but never all of it.
            let kept = !shape.is_large(segment.log) && self.policy.keeps(&segment, record.bytes, hits) && {
                let log = self.policy.log_of_kept(segment.log, record.bytes, hits);
                self.append(record.object, record.bytes, log, now)
            };
            if !kept {
                self.leave(record.object, now);
            }
        }
        self.disk.release(number);
        self.policy.pay(self.disk.layout.summary_bytes(0));
        true
    }

    fn leave(&mut self, object: u32, now: u64) {
        self.take_out(object);
        if let Some(known) = self.objects.get_mut(object as usize) {
            known.left = Some(now);
        }
    }
}

impl Policy for Generational {
    fn ask(&mut self, asked: &Asked) -> bool {
        self.look_up(asked.object);
        let known = self.objects.get_mut(asked.object as usize);
        if let Some(known) = known
            && let Some(segment) = self.disk.segment(known.segment)
        {
            self.policy.hit(segment.log, self.policy.now().saturating_sub(segment.born));
            known.hits = (known.hits + 1).min(3);
            return true;
        }
        self.store(asked.object, asked.bytes);
        false
    }

    fn written(&self) -> Option<(u64, u64)> {
        Some((self.disk.written, self.stored))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Replay, Sequence, replay};
    use super::*;
    use crate::load::{Days, DaysOptions};
    use crate::random::Random;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_removed_is_gone_and_what_is_stored_anew_is_counted_once() {
        let mut cache = Generational::new(16 * MIB, Settings::default()).unwrap();
        cache.store(1, 5000);
        cache.store(1, 9000);
        cache.store(2, 300_000);
        let large = 300_000 + HEADER_BYTES;
        let live = (1 + u32::from(!cache.policy.is_large(large)), 9000 + HEADER_BYTES + large);
        assert_eq!(cache.disk.live(), live);
        assert!(cache.remove(1) && cache.remove(2) && !cache.remove(2) && !cache.remove(77));
        assert_eq!(cache.disk.live(), (0, 0));
    }

    /// Stored, removed, asked for at random: what the segments say is live is what the index finds, and the disk is never overfull.
    #[test]
    fn live_objects_are_counted_right() {
        let mut random = Random::new(11);
        let mut cache = Generational::new(8 * MIB, Settings::default()).unwrap();
        for step in 0..60_000 {
            let object = random.below(4000) as u32;
            let bytes = if random.chance(0.02) { random.below(900_000) } else { random.below(20_000) };
            match random.below(10) {
                0 => drop(cache.remove(object)),
                1 => cache.store(object, bytes),
                _ => {
                    let asked = Asked { object, bytes, sent_bytes: bytes, at: step, again: 0, cachable: true };
                    cache.ask(&asked);
                }
            }
            if step % 1000 == 0 {
                let small = |object: &&Object| {
                    cache
                        .disk
                        .segment(object.segment)
                        .is_some_and(|segment| !cache.policy.shape().is_large(segment.log))
                };
                assert_eq!(cache.disk.live().0 as usize, cache.objects.iter().filter(small).count());
            }
        }
        assert!(cache.disk.live().1 <= 8 * MIB && cache.disk.live().1 > 3 * MIB, "{:?}", cache.disk.live());
    }

    #[test]
    fn it_writes_little_more_than_what_is_stored() {
        let sequence = Sequence::new(Days::new(DaysOptions::new(), 3).take(100_000), 64 << 10, Sequence::BESIDE_BODY);
        let mut cache = Generational::new(sequence.bytes / 3, Settings::default()).unwrap();
        let outcome = replay(&sequence, &mut cache, Replay::default());
        assert!(outcome.written.unwrap() < 1.13, "{outcome:?}");
        assert!(outcome.hit_ratio() > 0.3, "{outcome:?}");
    }
}
