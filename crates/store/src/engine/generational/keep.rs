//! Writing again what is worth more than what leaves.

use std::sync::atomic::Ordering::Relaxed;

use super::engine::Inner;
use crate::device::blocking;
use crate::engine::segments::cleaner;
use crate::engine::{Kind, Place, Record};
use crate::layout::SummaryEntry;
use crate::replace::generations::Segment;

/// Write again what of a segment is worth it, each record into the log of its next generation; whether anything was. Memory: the segment.
pub fn keep(engine: &Inner, region: Place, segment: &Segment, entries: &[SummaryEntry]) -> bool {
    let index = &engine.indexed.index;
    let hits = |entry: &SummaryEntry| index.hits(entry.id_low, entry.place).unwrap_or(0);
    let may_stay = |entry: &&SummaryEntry| entry.kind == Kind::Whole && hits(entry) > 0;
    if !entries.iter().any(|entry| may_stay(&entry)) {
        return false;
    }
    let log = &engine.indexed.log;
    let (at, bytes) = (log.layout.device_offset(region), log.layout.region_bytes as usize);
    let Ok(bytes) = blocking::read(&*log.device, at, bytes) else { return false };
    let mut any = false;
    for entry in entries.iter().filter(may_stay) {
        let offset = (entry.place.0 - region.0) as usize;
        let found = bytes.get(offset..).and_then(|rest| log.stamp.record(rest, entry.place));
        let Some((header, payload)) = found else { continue };
        let (record_bytes, hits) = (header.record_bytes() as u64, hits(entry));
        if engine.policy.keeps(segment, record_bytes, hits) {
            let to = engine.policy.log_of_kept(segment.log, record_bytes, hits);
            if !append_again(engine, entry, to.0, &header.again(payload)) {
                break;
            }
            any = true;
        }
    }
    any
}

/// Append a record once more, unless a newer version came meanwhile; false if there is no more room for any.
fn append_again(engine: &Inner, entry: &SummaryEntry, log: u8, record: &Record<'_>) -> bool {
    let index = &engine.indexed.index;
    cleaner::write(
        engine,
        || index.hits(entry.id_low, entry.place).is_some(),
        |cx| engine.append(cx, log, record),
        |(place, bytes)| {
            index.follow(entry.id_low, entry.place, place);
            engine.rewritten.fetch_add(bytes, Relaxed);
        },
    )
}
