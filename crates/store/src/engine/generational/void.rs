//! What a segment says of objects that are not there any more, said once more before the segment goes.
//!
//! A record voids all older ones of its object. When it goes before both snapshots know of that, an older one may be on the
//! disk still, and would come back after a crash. It may lie in a segment that has left: each of those says at its
//! end that nothing in it counts any more, until it is written over; one that cannot makes all sets suspect. Or it may lie in one that is there, if it was displaced:
//! the index knows in which sets that happened since the older snapshot ([`crate::engine::segments::Index::may_displace`]). So for
//! each entry in such a set, newer than what both snapshots cover, that the index has nothing of, a mark of removal is written, 64 bytes. Where
//! the index has something, that is newer and voids by itself. All of it lasts before the segment is written over, and with it
//! what segments that left before say at their ends: a newer record that a power cut takes voids nothing.
//!
//! The marks go into the log that the segment is of. So they are few among its objects, and when they leave young themselves, and
//! have to be said once more, they are fewer each time; a log of marks alone would say all of them for ever. Where they would
//! take a sixteenth of a segment, snapshots are taken: so most of what is cleaned is free.

use std::sync::atomic::Ordering::Relaxed;

use super::engine::Inner;
use super::snapshot;
use crate::engine::Record;
use crate::engine::segments::cleaner;
use crate::layout::SummaryEntry;
use crate::layout::scan::Scan;
use crate::terms::{Digest, Place};

/// Marks take less than this part of a segment.
const MOST_OF_A_SEGMENT: u64 = 16;

/// Pages of the index that are read for the marks of one segment, at the most: two snapshots answer all of them.
const MOST_READS: u32 = 64;

/// Write marks for what the entries of a segment void, and wait until they last, and whatever is newer; false if the disk takes
/// none, or they are too many.
pub fn say_again(engine: &Inner, region: Place, log: u8, entries: &[SummaryEntry]) -> bool {
    let (layout, index, by_both) = (engine.indexed.log.layout, &engine.indexed.index, engine.covered().by_both());
    let most = layout.region_bytes / MOST_OF_A_SEGMENT / layout.header_bytes() as u64;
    let (mut needed, mut reads, records) = (Vec::new(), MOST_READS, &engine.indexed.log);
    for entry in entries.iter().filter(|entry| entry.number >= by_both && index.may_displace(entry.id_low)) {
        match index.leads_past((&*records.device, &records.pool), entry.id_low, region, &mut reads) {
            Some(true) => {}
            Some(false) if (needed.len() as u64) < most => needed.push(entry.id_low),
            Some(false) | None => return false,
        }
    }
    needed.iter().all(|id_low| say(engine, log, *id_low)) && snapshot::settle(engine).is_ok()
}

/// Say at the end of a segment that nothing in it counts; false if the disk takes it not. What was written again of it lasts before that,
/// or a kill would take both.
pub fn leave(engine: &Inner, scan: &Scan<'_>, region: Place, was_rewritten: bool) -> bool {
    if was_rewritten && snapshot::settle(engine).is_err() {
        return false;
    }
    let written = scan.void(region);
    let bytes = engine.indexed.log.layout.summary_bytes(0);
    engine.policy.pay(bytes);
    engine.marks.fetch_add(bytes, Relaxed);
    engine.indexed.log.frontier.wrote_beside(written.is_ok());
    if let Err(error) = &written {
        tracing::warn!("a segment could not say that what it held has left, and marks of removal will say so: {error}");
    }
    written.is_ok()
}

/// Write a mark, unless something newer is there; false if the disk takes none.
fn say(engine: &Inner, log: u8, id_low: u64) -> bool {
    let mark = Record::tombstone(Digest::of_low(id_low));
    let is_needed = || !engine.indexed.index.is_new(id_low);
    cleaner::write(
        engine,
        is_needed,
        |cx| engine.append(cx, log, &mark),
        |(_, bytes)| {
            engine.policy.pay(bytes);
            engine.marks.fetch_add(bytes, Relaxed);
        },
    )
}
