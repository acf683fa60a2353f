//! The driver: one call after the other, as a browser makes them, on a cache that may have less than the trace's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tinaja_backend::{BackendError, Entry};
use tinaja_store::block_on;

use super::{Kind, Stand};
use crate::browser::{Call, Event, Extent, KEPT, Known, TraceKey};
use crate::error::LabError;
use crate::random::mix;
use crate::times::Times;

/// What came of a replay.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Entries looked for.
    pub lookups: u64,
    /// Those that were there.
    pub hits: u64,
    /// Bytes of keys and streams given to the cache.
    pub written_bytes: u64,
    /// Entries that the cache would not take: too large, or no room.
    pub refused: u64,
    /// Reads that got fewer bytes than the trace has written; there the entry was refused in part.
    pub short: u64,
    /// When the last call ended, by the replay's clock.
    pub span: Duration,
    times: [Times; Kind::ALL.len()],
}

impl Replayed {
    /// The share of lookups that were hits.
    pub fn hit_rate(&self) -> f64 {
        if self.lookups == 0 { 0.0 } else { self.hits as f64 / self.lookups as f64 }
    }

    /// Times of the calls of a kind.
    pub fn times(&mut self, kind: Kind) -> &mut Times {
        let [open, create, read, write, close, hit] = &mut self.times;
        match kind {
            Kind::Open => open,
            Kind::Create => create,
            Kind::Read => read,
            Kind::Write => write,
            Kind::Close => close,
            Kind::Hit => hit,
        }
    }
}

/// Bytes that a browser writes at a time.
const PIECE: u64 = 32 << 10;

/// Replay a prepared trace. A call is made when the one before was answered and the trace's pause is over. What the trace opens and the cache
/// does not have is created and written as large as it was, and its reads, which the network would answer, are left out.
/// Errors: other bytes than were written, which no cache may ever give, or a call failed that must not.
pub fn replay(stand: &Stand, events: &[Event]) -> Result<Replayed, LabError> {
    let mut driver = Driver {
        stand,
        known: Known::default(),
        open: HashMap::new(),
        now: Duration::ZERO,
        replayed: Replayed::default(),
    };
    let mut before = events.first().map_or(0, |event| event.time_us);
    for event in events {
        driver.now += Duration::from_micros(event.time_us.saturating_sub(before));
        before = event.time_us;
        driver.one(&event.call)?;
    }
    for (_, all) in std::mem::take(&mut driver.open) {
        all.into_iter().for_each(|opened| drop(block_on(opened.entry.close())));
    }
    driver.replayed.span = driver.now;
    stand.finish()?;
    Ok(driver.replayed)
}

struct Opened {
    entry: Arc<dyn Entry>,
    key: TraceKey,
    /// The trace had it, the cache had not: it was made, and is not read.
    was_missing: bool,
    /// How long it was waited for, if it was a hit.
    waited: Option<Duration>,
    /// The cache would not take it.
    is_refused: bool,
}

struct Driver<'a> {
    stand: &'a Stand,
    known: Known,
    /// By handle; one may be given out several times.
    open: HashMap<u64, Vec<Opened>>,
    now: Duration,
    replayed: Replayed,
}

fn wrong(error: &BackendError) -> LabError {
    LabError::failed("a call on a cache", error)
}

/// What a stream consists of.
fn fill(key: &TraceKey, stream: u32) -> u8 {
    // Not 0, of which gaps consist.
    (mix(key.number() ^ u64::from(stream)) as u8).max(1)
}

impl Driver<'_> {
    /// Make a call and count how long it took.
    fn call<T>(&mut self, kind: Kind, make: impl FnOnce() -> T) -> (T, Duration) {
        let begun = self.stand.begin(self.now);
        let answer = make();
        let took = self.stand.end(&begun);
        self.now += took;
        self.replayed.times(kind).add(took);
        (answer, took)
    }

    fn one(&mut self, call: &Call) -> Result<(), LabError> {
        match *call {
            Call::Open { key, entry } => self.open(key, entry),
            Call::Create { key, entry: Some(handle) } => {
                self.known.insert(key);
                if let Some(entry) = self.create(key)? {
                    self.push(handle, Opened { entry, key, was_missing: false, waited: None, is_refused: false });
                }
                Ok(())
            }
            Call::Create { entry: None, .. } => Ok(()),
            Call::Read { entry, part, .. } => self.read(entry, part),
            Call::Write { entry, part, truncate, .. } => self.write(entry, part, truncate),
            Call::Doom { entry } => {
                if let Some(opened) = self.open.get(&entry).and_then(|all| all.last()) {
                    let (entry, key) = (opened.entry.clone(), opened.key);
                    self.known.remove(&key);
                    self.stand.begin(self.now);
                    entry.doom();
                    self.stand.wrote(self.now);
                }
                Ok(())
            }
            Call::Close { entry } => self.close(entry),
        }
    }

    fn push(&mut self, handle: u64, opened: Opened) {
        self.open.entry(handle).or_default().push(opened);
    }

    fn open(&mut self, key: TraceKey, handle: Option<u64>) -> Result<(), LabError> {
        self.replayed.lookups += 1;
        let (backend, bytes) = (self.stand.backend.clone(), key.bytes());
        let (answer, took) = self.call(Kind::Open, || block_on(backend.open_entry(&bytes)));
        match (answer, handle) {
            (Ok(entry), Some(handle)) => {
                self.replayed.hits += 1;
                self.push(handle, Opened { entry, key, was_missing: false, waited: Some(took), is_refused: false });
                Ok(())
            }
            (Ok(entry), None) => {
                self.replayed.hits += 1;
                block_on(entry.close()).map_err(|error| wrong(&error))
            }
            (Err(BackendError::NotFound | BackendError::Unreadable(_)), None) => Ok(()),
            (Err(BackendError::NotFound | BackendError::Unreadable(_)), Some(handle)) => self.fetch(key, handle),
            (Err(error), _) => Err(wrong(&error)),
        }
    }

    /// What the trace has and the cache has not comes from the network.
    fn fetch(&mut self, key: TraceKey, handle: u64) -> Result<(), LabError> {
        let Some(entry) = self.create(key)? else { return Ok(()) };
        self.push(handle, Opened { entry, key, was_missing: true, waited: None, is_refused: false });
        let sizes = self.known.sizes(&key).unwrap_or([0; KEPT]);
        for (stream, size) in (0_u32..).zip(sizes) {
            for offset in (0..size).step_by(PIECE as usize) {
                self.write(handle, Extent { stream, offset, len: PIECE.min(size - offset) }, false)?;
            }
        }
        Ok(())
    }

    fn create(&mut self, key: TraceKey) -> Result<Option<Arc<dyn Entry>>, LabError> {
        let (backend, bytes) = (self.stand.backend.clone(), key.bytes());
        let (mut answer, _) = self.call(Kind::Create, || block_on(backend.create_entry(&bytes)));
        if matches!(answer, Err(BackendError::Exists)) {
            match block_on(backend.open_entry(&bytes)) {
                Ok(older) => {
                    older.doom();
                    block_on(older.close()).map_err(|error| wrong(&error))?;
                }
                // Evicted since.
                Err(BackendError::NotFound) => {}
                Err(error) => return Err(wrong(&error)),
            }
            answer = block_on(backend.create_entry(&bytes));
        }
        match answer {
            Ok(entry) => {
                self.replayed.written_bytes += bytes.len() as u64;
                Ok(Some(entry))
            }
            Err(BackendError::Full(_) | BackendError::KeyTooLong { .. } | BackendError::NotKept(_)) => {
                self.replayed.refused += 1;
                Ok(None)
            }
            Err(error) => Err(wrong(&error)),
        }
    }

    fn read(&mut self, handle: u64, part: Extent) -> Result<(), LabError> {
        let opened = self.open.get(&handle).and_then(|all| all.last()).filter(|opened| !opened.was_missing);
        let Some((entry, key)) = opened.map(|opened| (opened.entry.clone(), opened.key)) else { return Ok(()) };
        let read = || block_on(entry.read_data(part.stream as usize, part.offset, part.len as usize));
        let (answer, took) = self.call(Kind::Read, read);
        // What lies in a segment that had to be cleaned all the same is gone: a late miss.
        let Ok(bytes) = answer else {
            self.replayed.short += 1;
            return Ok(());
        };
        let right = fill(&key, part.stream);
        if bytes.iter().any(|byte| *byte != right && *byte != 0) {
            return Err(LabError::failed("reading an entry back", "it was another entry's stream"));
        }
        let has = self.known.sizes(&key).and_then(|sizes| sizes.get(part.stream as usize).copied());
        let expected = has.unwrap_or_default().saturating_sub(part.offset).min(part.len);
        self.replayed.short += u64::from((bytes.len() as u64) < expected);
        if let Some(opened) = self.open.get_mut(&handle).and_then(|all| all.last_mut()) {
            opened.waited = opened.waited.map(|waited| waited + took);
        }
        Ok(())
    }

    fn write(&mut self, handle: u64, part: Extent, truncate: bool) -> Result<(), LabError> {
        let Some(opened) = self.open.get(&handle).and_then(|all| all.last()) else { return Ok(()) };
        let (entry, key, is_refused) = (opened.entry.clone(), opened.key, opened.is_refused);
        self.known.write(&key, part, truncate);
        if is_refused {
            return Ok(());
        }
        let data = Bytes::from(vec![fill(&key, part.stream); part.len as usize]);
        let write = || block_on(entry.write_data(part.stream as usize, part.offset, data, truncate));
        match self.call(Kind::Write, write).0 {
            Ok(()) => {
                self.replayed.written_bytes += part.len;
                Ok(())
            }
            Err(BackendError::Doomed) => Ok(()),
            // As a browser does with what its cache will not take.
            Err(BackendError::Full(_) | BackendError::OutOfRange { .. } | BackendError::Unreadable(_)) => {
                self.replayed.refused += 1;
                entry.doom();
                let opened = self.open.get_mut(&handle).and_then(|all| all.last_mut());
                opened.into_iter().for_each(|opened| opened.is_refused = true);
                Ok(())
            }
            Err(error) => Err(wrong(&error)),
        }
    }

    fn close(&mut self, handle: u64) -> Result<(), LabError> {
        let Some(opened) = self.open.get_mut(&handle).and_then(Vec::pop) else { return Ok(()) };
        if self.open.get(&handle).is_some_and(Vec::is_empty) {
            self.open.remove(&handle);
        }
        if let Some(waited) = opened.waited {
            self.replayed.times(Kind::Hit).add(waited);
        }
        let (answer, _) = self.call(Kind::Close, || block_on(opened.entry.close()));
        self.stand.wrote(self.now);
        match answer {
            Ok(()) => Ok(()),
            Err(BackendError::NotKept(_) | BackendError::Full(_)) => {
                self.replayed.refused += 1;
                Ok(())
            }
            Err(error) => Err(wrong(&error)),
        }
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
