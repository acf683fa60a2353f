//! What the log was asked and what it read, in the words of the engine's contract.

use crate::engine::{Fetched, Found, Limits, Part};
use crate::layout::LogLayout;
use crate::layout::log::{LogFault, RawRecord};
use crate::layout::run::Lying;
use crate::terms::ReadError;

pub(super) fn found(record: RawRecord) -> Fetched {
    let RawRecord { header, payload, from_memory } = record;
    let head_at = header.name_bytes;
    let body_at = head_at + header.head_bytes;
    Fetched::Record(Found {
        place: header.place,
        kind: header.kind,
        id: header.id,
        name: payload.slice(..head_at),
        head: payload.slice(head_at..body_at),
        body: payload.slice(body_at..),
        from_memory,
    })
}

/// What was read of a part of an object, which is asked for by its place.
pub(super) fn of_part(read: Result<RawRecord, LogFault>) -> Fetched {
    match read {
        Ok(record) => found(record),
        Err(LogFault::Gone | LogFault::Another) => Fetched::Missing,
        Err(fault) => Fetched::Failed(read_error(fault)),
    }
}

pub(super) fn read_error(fault: LogFault) -> ReadError {
    match fault {
        LogFault::Gone | LogFault::Another => ReadError::Gone,
        LogFault::Corrupt => ReadError::Corrupt,
        LogFault::Device => ReadError::Device,
    }
}

/// The records of parts, which have neither name nor head.
pub(super) fn lying(log: &LogLayout, parts: &[Part]) -> Vec<Lying> {
    parts.iter().map(|part| (part.place, log.header_bytes() + part.body_bytes)).collect()
}

/// The sizes of an engine whose large objects lie in such a log.
pub(super) fn limits(log: &LogLayout) -> Limits {
    let max_record_bytes = log.max_record_bytes();
    let extent_bytes = (max_record_bytes / 2).next_power_of_two().min(256 << 10);
    let max_object_bytes = table_bytes(max_record_bytes, extent_bytes).min(log.log_bytes() / 4);
    Limits { max_record_bytes, extent_bytes, inline_bytes: extent_bytes, max_object_bytes }
}

/// What the extents hold of which a record has room for the table: a place and a length for each, see `cache`.
pub(super) fn table_bytes(max_record_bytes: usize, extent_bytes: usize) -> u64 {
    (max_record_bytes / 2 / 12) as u64 * extent_bytes as u64
}
