//! What a process did, written to a file as it did it. What a killed process has written stays in the kernel.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// One thing done to an object, or to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub what: What,
    pub key: u32,
    /// Grows with everything done to an object; for flushes the thread that flushes.
    pub version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// After opening, this version was found, every byte of it right; 0 for a miss.
    Found = 1,
    /// Everything was looked for.
    LookedForAll,
    /// This version is about to be written.
    PutBegins,
    /// Its commit said that it is stored.
    Committed,
    /// It was dropped unfinished, or not stored.
    NotStored,
    /// The object is about to be removed.
    RemoveBegins,
    /// The removal was acknowledged.
    Removed,
    /// This thread is about to flush.
    FlushBegins,
    /// Its flush was acknowledged.
    Flushed,
}

const ALL: [What; 9] = [
    What::Found,
    What::LookedForAll,
    What::PutBegins,
    What::Committed,
    What::NotStored,
    What::RemoveBegins,
    What::Removed,
    What::FlushBegins,
    What::Flushed,
];

const ENTRY_BYTES: usize = 13;

/// The file, appended to by all threads; its order is that of the calls.
pub struct Journal(File);

impl Journal {
    pub fn append_to(path: &Path) -> Self {
        Journal(OpenOptions::new().append(true).create(true).open(path).unwrap())
    }

    pub fn note(&self, what: What, key: u32, version: u64) {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0] = what as u8;
        bytes[1..5].copy_from_slice(&key.to_le_bytes());
        bytes[5..].copy_from_slice(&version.to_le_bytes());
        // One call, so that entries of several threads do not mix.
        (&self.0).write_all(&bytes).unwrap();
    }
}

/// All entries of a journal; a last one that is not whole is left out.
pub fn read(path: &Path) -> Vec<Entry> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let entry = |bytes: &[u8; ENTRY_BYTES]| Entry {
        what: *ALL.iter().find(|what| **what as u8 == bytes[0]).unwrap(),
        key: u32::from_le_bytes(bytes[1..5].try_into().unwrap()),
        version: u64::from_le_bytes(bytes[5..].try_into().unwrap()),
    };
    bytes.as_chunks().0.iter().map(entry).collect()
}
