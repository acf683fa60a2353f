//! The decisions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::ages::bucket;
use super::learned::{Hits, Learned, Worth};
use super::saved::{self, Saved};
use super::shape::{Log, Shape};
use super::tokens::Tokens;

/// What counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// A hit is a hit: as many objects as can be are found.
    #[default]
    Objects,
    /// A hit is its bytes: as many bytes as can be come from the disk.
    Bytes,
    /// Between the two: a hit is the square root of its bytes.
    Balanced,
}

/// What the policy knows of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Whose it is.
    pub log: Log,
    /// The time when it was begun: bytes stored by then.
    pub born: u64,
    /// Objects in it that can be found. 0 in the logs of large objects, where bytes alone count.
    pub live: u32,
    /// Their bytes.
    pub live_bytes: u64,
}

/// Parts of the policy that the laboratory switches off to see what each is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Classes and generations; as the disk's size has it if it is `None`.
    pub shape: Option<Shape>,
    /// Whether worth is learned; else the oldest segment leaves.
    pub learns: bool,
    /// The tokens that a stored byte earns.
    pub tokens: f64,
    /// Whether what returns is stored a generation higher.
    pub ghosts: bool,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { shape: None, learns: true, tokens: TOKENS, ghosts: true }
    }
}

/// Tokens that a stored byte earns.
const TOKENS: f64 = 0.09;
/// A record is written again if it is worth so many times what leaves, with a full bucket of tokens; the emptier, the more.
const MARKUP: f64 = 1.2;
/// Something is learned so many times a lap.
const LESSONS: u64 = 64;
/// What is left of the past each time.
const DECAY: f64 = 0.98;
/// The bucket of tokens holds a part of the disk.
const TOKENS_OF_DISK: u64 = 48;

/// The policy of one disk. See the module. Memory: below 2.5 KiB a log.
pub struct Generations {
    shape: Shape,
    value: Value,
    parts: Parts,
    disk_bytes: u64,
    segment_bytes: u64,
    now: AtomicU64,
    learned_at: AtomicU64,
    tokens: Tokens,
    hits: Hits,
    worth: Worth,
    learned: Mutex<Learned>,
    /// Large objects stored, and their bytes, by class: for their mean.
    large: [(AtomicU64, AtomicU64); Shape::MOST_LARGE],
}

impl Generations {
    /// The policy of a disk of so many bytes, cut into segments.
    pub fn new(disk_bytes: u64, segment_bytes: u64, value: Value) -> Self {
        Self::with(disk_bytes, segment_bytes, value, Parts::default())
    }

    /// The same with parts switched off.
    pub fn with(disk_bytes: u64, segment_bytes: u64, value: Value, parts: Parts) -> Self {
        let (disk_bytes, segment_bytes) = (disk_bytes.max(1), segment_bytes.max(1));
        let shape = parts.shape.unwrap_or(Shape::of(disk_bytes / segment_bytes)).in_bounds();
        let most_tokens = (disk_bytes / TOKENS_OF_DISK).max(segment_bytes.saturating_mul(2));
        let generations = Generations {
            shape,
            value,
            parts,
            disk_bytes,
            segment_bytes,
            now: AtomicU64::new(0),
            learned_at: AtomicU64::new(0),
            tokens: Tokens::new(most_tokens, parts.tokens),
            hits: Hits::new(shape.logs()),
            worth: Worth::new(shape.logs()),
            learned: Mutex::new(Learned::new(shape)),
            large: Default::default(),
        };
        generations.learned.lock().appraise(&generations.worth);
        generations
    }

    /// Classes and generations.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Logs in all: numbers of [`Log`] are below.
    pub fn logs(&self) -> usize {
        self.shape.logs()
    }

    /// Whether a record of so many bytes is large: over a quarter of a segment.
    pub fn is_large(&self, record_bytes: u64) -> bool {
        record_bytes > self.segment_bytes / 4
    }

    /// The log of a record that comes from a client; `returns` if it was there before and has left not long ago.
    pub fn log_of_new(&self, record_bytes: u64, returns: bool) -> Log {
        if self.is_large(record_bytes) {
            return self.log_of_large(Some(record_bytes), returns);
        }
        self.shape.log(record_bytes, usize::from(returns && self.parts.ghosts))
    }

    /// The log of a large object of so many bytes in all. Where nobody knows how many that will be, they are many.
    pub fn log_of_large(&self, object_bytes: Option<u64>, returns: bool) -> Log {
        let generation = usize::from(returns && self.parts.ghosts);
        self.shape.log_of_large(object_bytes.unwrap_or(u64::MAX), self.segment_bytes, generation)
    }

    /// An object of so many bytes in all was stored in a log. Of large ones the mean is known from it.
    pub fn stored_in(&self, log: Log, object_bytes: u64) {
        let class = self.shape.class_of_large(log).and_then(|class| self.large.get(class));
        if let Some((objects, bytes)) = class {
            objects.fetch_add(1, Relaxed);
            bytes.fetch_add(object_bytes, Relaxed);
        }
    }

    /// Time goes on from here: that of a policy before.
    pub fn resume(&self, now: u64) {
        self.now.store(now, Relaxed);
        self.learned_at.store(now, Relaxed);
    }

    /// What was learned so far, for [`Generations::recall`] after a stop: as many bytes as [`Generations::saved_bytes`] says.
    pub fn save(&self) -> Vec<u8> {
        let large = self.large.each_ref().map(|(objects, bytes)| (objects.load(Relaxed), bytes.load(Relaxed)));
        let seen = self.learned.lock().seen().map(|seen| seen as f32).collect();
        Saved { shape: self.shape, large, seen }.encode()
    }

    /// Bytes of what is saved of a disk with so many segments.
    pub fn saved_bytes(segments: u64) -> usize {
        saved::bytes_for(Shape::of(segments).logs())
    }

    /// Go on from what a policy before had learned. Whether it did: if these bytes are not of one of the same shape, nothing changes.
    pub fn recall(&self, bytes: &[u8]) -> bool {
        let Some(Saved { large, seen, .. }) = Saved::decode(bytes, self.shape) else { return false };
        for ((objects, bytes), (objects_before, bytes_before)) in self.large.iter().zip(large) {
            objects.store(objects_before, Relaxed);
            bytes.store(bytes_before, Relaxed);
        }
        let mut learned = self.learned.lock();
        learned.recall(seen.into_iter().map(f64::from));
        learned.appraise(&self.worth);
        true
    }

    /// The log of a record that is written again and was hit so many times since it was written.
    pub fn log_of_kept(&self, from: Log, record_bytes: u64, hits: u8) -> Log {
        if self.is_large(record_bytes) {
            let generation = self.shape.generation(from) + usize::from(hits);
            return self.shape.log_of_large(record_bytes, self.segment_bytes, generation);
        }
        self.shape.log(record_bytes, self.shape.generation(from) + usize::from(hits))
    }

    /// A client's record was stored: time goes on, and tokens are earned. Returns the time now.
    pub fn stored(&self, bytes: u64) -> u64 {
        self.tokens.earn(bytes);
        self.now.fetch_add(bytes, Relaxed).saturating_add(bytes)
    }

    /// The time: bytes stored by clients.
    pub fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// An object was found in a log, in a segment of this age: bytes stored since that was begun.
    pub fn hit(&self, log: Log, age: u64) {
        self.hits.add(log, bucket(self.laps(age)));
    }

    /// Whether a 64th of a lap has passed since something was learned.
    pub fn is_time_to_learn(&self) -> bool {
        self.now().saturating_sub(self.learned_at.load(Relaxed)) >= (self.disk_bytes / LESSONS).max(1)
    }

    /// Learn from what is there: all segments, those that are being filled too. Takes some tens of thousands of instructions.
    pub fn learn(&self, segments: impl Iterator<Item = Segment>) {
        let mut learned = self.learned.lock();
        let now = self.now();
        let before = self.learned_at.swap(now, Relaxed);
        learned.take_in(&self.hits, DECAY);
        for segment in segments {
            let from = self.laps(before.saturating_sub(segment.born));
            let to = self.laps(now.saturating_sub(segment.born));
            learned.exposed(segment.log, self.objects(&segment), from, to.max(from));
        }
        learned.appraise(&self.worth);
    }

    /// Which of the logs' oldest closed segments is to leave: the one that is worth least. `None` if there are none.
    pub fn victim(&self, oldest: impl Iterator<Item = Segment>) -> Option<Log> {
        let price = |segment: &Segment| {
            if self.parts.learns { self.price(segment) } else { segment.born as f64 }
        };
        oldest.min_by(|one, other| price(one).total_cmp(&price(other))).map(|segment| segment.log)
    }

    /// Whether a record of a victim is worth being written again. If it is, this has paid for it.
    pub fn keeps(&self, segment: &Segment, record_bytes: u64, hits: u8) -> bool {
        if hits == 0 || self.is_large(record_bytes) {
            return false;
        }
        if !self.parts.learns {
            return self.tokens.take(record_bytes);
        }
        let log = self.log_of_kept(segment.log, record_bytes, hits);
        let bytes = record_bytes as f64;
        let worth = self.worth.at(log, 0) * self.weight(bytes) / bytes.max(1.0);
        worth > self.price(segment) * MARKUP * self.tokens.scarcity() && self.tokens.take(record_bytes)
    }

    /// What one object of a segment is worth, by how often it was asked for since it was written: what one is in the log that it
    /// would be written to again.
    pub fn worth_of_one(&self, segment: &Segment, hits: u8) -> f64 {
        let bytes = self.mean_bytes(segment);
        let worth = match hits {
            0 => self.worth.at(segment.log, bucket(self.laps(self.now().saturating_sub(segment.born)))),
            hits => self.worth.at(self.log_of_kept(segment.log, bytes as u64, hits), 0),
        };
        worth * self.weight(bytes)
    }

    /// Bytes were written beside clients' and rewritten records, as a snapshot of the index: they are paid from the same tokens.
    pub fn pay(&self, bytes: u64) {
        self.tokens.pay(bytes);
    }

    /// Tokens spent so far: bytes.
    pub fn spent(&self) -> u64 {
        self.tokens.spent()
    }

    fn laps(&self, bytes: u64) -> f64 {
        bytes as f64 / self.disk_bytes as f64
    }

    /// What a hit of an object of this size counts.
    fn weight(&self, bytes: f64) -> f64 {
        match self.value {
            Value::Objects => 1.0,
            Value::Bytes => bytes,
            Value::Balanced => bytes.sqrt(),
        }
    }

    /// Objects in a segment: large ones by their bytes, so that of one that reaches into others a part counts.
    fn objects(&self, segment: &Segment) -> f64 {
        match self.mean_of_large(segment.log) {
            Some(mean) => segment.live_bytes as f64 / mean,
            None => f64::from(segment.live),
        }
    }

    /// The mean size of a segment's objects; of large ones that of all in their class, for here there may be a part of one alone.
    fn mean_bytes(&self, segment: &Segment) -> f64 {
        let of_small = || segment.live_bytes as f64 / f64::from(segment.live.max(1));
        self.mean_of_large(segment.log).unwrap_or_else(of_small)
    }

    /// The mean size of what was stored in a log of large objects; `None` for other logs.
    fn mean_of_large(&self, log: Log) -> Option<f64> {
        let class = self.shape.class_of_large(log)?;
        let (objects, bytes) =
            self.large.get(class).map_or((0, 0), |(objects, bytes)| (objects.load(Relaxed), bytes.load(Relaxed)));
        // Before any was stored, as after a start, they are taken to be as large as the class begins.
        let guess = self.shape.least_of_large(class, self.segment_bytes);
        let mean = if objects > 0 { bytes as f64 / objects as f64 } else { guess as f64 };
        Some(mean.max(1.0))
    }

    /// What a byte of a segment is worth.
    fn price(&self, segment: &Segment) -> f64 {
        let age = self.now().saturating_sub(segment.born);
        let of_one = self.worth.at(segment.log, bucket(self.laps(age))) * self.weight(self.mean_bytes(segment));
        of_one * self.objects(segment) / self.segment_bytes as f64
    }
}
