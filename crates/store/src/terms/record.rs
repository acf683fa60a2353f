//! A record: what an engine keeps and gives back.

use bytes::Bytes;

use super::{Digest, Place, ReadError};

/// What a record is to the store; engines keep it with the record and otherwise only look at [`Kind::is_indexed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An object with its whole body.
    Whole = 1,
    /// An object whose body is the table of its extents, and what of its beginning is in none of them.
    Large = 2,
    /// A part of a body; found by place only.
    Extent = 3,
    /// Says that every record of this digest before it is void.
    Tombstone = 4,
}

impl Kind {
    /// The kind with this number on disk.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Whole, Kind::Large, Kind::Extent, Kind::Tombstone].into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether lookups find such a record.
    pub fn is_indexed(self) -> bool {
        matches!(self, Kind::Whole | Kind::Large)
    }
}

/// A record to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The object it belongs to.
    pub id: Digest,
    /// What it is.
    pub kind: Kind,
    /// The key's name, empty if none.
    pub name: &'a [u8],
    /// The object's head.
    pub head: &'a [u8],
    /// The body, or an extent of it, or the table of extents.
    pub body: &'a [u8],
    /// Bytes of the log (`RelatedRuns::log_bytes`) that it and the records related to it take which are appended right behind
    /// it, so that one request may read all of them; 0 where nothing is known.
    pub related_bytes: usize,
}

impl Record<'_> {
    /// What a log writes down of a removal: every record of this digest before it is void.
    pub fn tombstone(id: Digest) -> Self {
        Record { id, kind: Kind::Tombstone, name: &[], head: &[], body: &[], related_bytes: 0 }
    }
}

/// A record read back and verified: place, lap, digest, lengths and every byte are those that were written.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it lies.
    pub place: Place,
    /// What it is.
    pub kind: Kind,
    /// The object it belongs to.
    pub id: Digest,
    /// The key's name.
    pub name: Bytes,
    /// The object's head.
    pub head: Bytes,
    /// See [`Record::body`].
    pub body: Bytes,
    /// Whether it was still in memory.
    pub from_memory: bool,
}

/// What a fetch ended with.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// The record.
    Record(Found),
    /// No record of that digest is there: another object's, or overwritten since.
    Missing,
    /// It may have been there, and cannot be read or verified.
    Failed(ReadError),
}

/// A part of a large object, to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where its record lies.
    pub place: Place,
    /// Its record's body length.
    pub body_bytes: usize,
}

/// Called once when a sync has ended; the text says which call failed and where.
pub type SyncDone = Box<dyn FnOnce(Result<(), String>) + Send>;
