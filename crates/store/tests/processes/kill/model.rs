//! What may be found after a process was killed, by what it had written down.

use std::collections::{HashMap, HashSet};

use super::journal::{Entry, What};
use super::load::{KEYS, REGION_BYTES, size};

/// Every object, over all processes so far.
pub struct Model {
    objects: Vec<Object>,
    /// Bytes that may be written before it is anybody's turn to be overwritten.
    kept_bytes: u64,
    /// Entries of all journals so far.
    entries: u64,
    /// Bytes written at most, records and regions left half empty included.
    bytes: u64,
    flushing: HashMap<u64, u64>,
    /// Objects that had to be found, and those that were.
    pub expected: u64,
    pub hits: u64,
    process: u64,
}

#[derive(Clone, Default)]
struct Object {
    /// What is known to be on disk: nothing older may be found.
    floor: Version,
    removed: bool,
    /// Committed by the running process.
    committed: Vec<Version>,
    /// The newest thing begun.
    begun: u64,
    not_stored: HashSet<u64>,
}

#[derive(Clone, Copy, Default)]
struct Version {
    version: u64,
    entry: u64,
    /// [`Model::bytes`] when it was committed, which is after it was written.
    at: u64,
    /// How it is known, and by which process.
    known: &'static str,
    by: u64,
}

impl Model {
    pub fn new(kept_bytes: u64) -> Self {
        let objects = vec![Object::default(); KEYS as usize];
        Model { objects, kept_bytes, entries: 0, bytes: 0, flushing: HashMap::new(), expected: 0, hits: 0, process: 0 }
    }

    /// Take in what a process did from its start to its end. Panics where it found what it must not.
    pub fn follow(&mut self, journal: &[Entry]) {
        self.process += 1;
        let mut looking = true;
        for entry in journal {
            self.entries += 1;
            match entry.what {
                What::Found => self.found(entry.key, entry.version),
                What::LookedForAll => looking = false,
                _ => {
                    assert!(!looking, "it wrote before it had looked");
                    self.done(*entry);
                }
            }
        }
        // What was committed and not flushed may be lost; if it is not, the next process finds it.
        self.flushing.clear();
        self.objects.iter_mut().for_each(|object| object.committed.clear());
        self.bytes += 2 * REGION_BYTES;
    }

    fn found(&mut self, key: u32, version: u64) {
        let object = &mut self.objects[key as usize];
        let Object { floor, removed, begun, .. } = *object;
        if version > 0 {
            let Version { version: least, known, by, .. } = floor;
            let story =
                format!("object {key}: process {} found {version:x}; {least:x} was {known} by {by}", self.process);
            assert!(version >= least, "{story}: an older version has come back");
            assert!(!removed || version > least, "{story}: a removed version has come back");
            assert!(!object.not_stored.contains(&version), "{story}: it was never committed");
            assert!(version <= begun, "{story}: it was never written");
        }
        let recent = floor.at > 0 && self.bytes - floor.at < self.kept_bytes;
        if recent && !removed && begun == floor.version {
            self.expected += 1;
            self.hits += u64::from(version == floor.version);
        }
        if version > floor.version {
            // It came from the disk, so it is there to stay until its turn comes.
            object.floor = Version { version, at: 0, known: "found", by: self.process, ..floor };
            object.removed = false;
        } else if version == 0 {
            // Evicted, or removed by a process that did not live to hear so: not expected again.
            object.floor.at = 0;
        }
    }

    fn done(&mut self, entry: Entry) {
        let Entry { what, key, version } = entry;
        let (at, by) = (self.bytes, self.process);
        let now = Version { version, entry: self.entries, at, known: "committed", by };
        if what == What::FlushBegins {
            self.flushing.insert(version, self.entries);
            return;
        }
        if what == What::Flushed {
            return self.flushed(self.flushing[&version]);
        }
        let object = &mut self.objects[key as usize];
        match what {
            What::PutBegins => {
                object.begun = version;
                // Header, name and head, and what a batch is rounded up by.
                self.bytes += size(key, version) as u64 + 150;
            }
            What::RemoveBegins => object.begun = version,
            What::Committed => object.committed.push(now),
            What::NotStored => {
                object.not_stored.insert(version);
                // The older version is served again, as if this had not been begun.
                object.begun = object.committed.last().map_or(object.floor.version, |newest| newest.version);
            }
            What::Removed => {
                object.committed.clear();
                object.floor = Version { known: "removed", ..now };
                object.removed = true;
            }
            _ => unreachable!(),
        }
    }

    /// A flush that began with this entry was acknowledged.
    fn flushed(&mut self, began: u64) {
        for object in &mut self.objects {
            let covered = object.committed.iter().filter(|version| version.entry < began).count();
            if let Some(newest) = object.committed.drain(..covered).next_back() {
                object.floor = Version { known: "flushed", ..newest };
                object.removed = false;
            }
        }
    }
}
