//! What a segment says of objects that are not there any more, said once more before the segment goes.
//!
//! A record voids all older ones of its object. When it goes before both snapshots know of that, an older one may be on the
//! disk still, and would come back after a crash. So for each of its entries that the index has nothing of, a mark of removal
//! is written, 64 bytes, and it lasts before the segment is written over. Where the index has something, that is newer and
//! voids by itself. What both snapshots cover needs none.
//!
//! The marks go into the log that the segment is of. So they are few among its objects, and when they leave young themselves, and
//! have to be said once more, they are fewer each time; a log of marks alone would say all of them for ever. Where they would
//! take a sixteenth of a segment, snapshots are taken: so most of what is cleaned is free.

use std::future::poll_fn;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use super::engine::Inner;
use super::keep::RESERVE;
use super::snapshot;
use crate::engine::Record;
use crate::layout::SummaryEntry;
use crate::terms::Digest;
use crate::wait::block_on;

/// Write marks for what the entries of a segment void, and wait until they last; false if the disk takes none, or they are too
/// many.
pub fn say_again(engine: &Inner, log: u8, entries: &[SummaryEntry]) -> bool {
    let layout = engine.indexed.log.layout;
    let needed = entries.iter().filter(|entry| engine.indexed.index.find(entry.id_low).is_none()).count();
    if (needed * layout.header_bytes()) as u64 > layout.region_bytes / MOST_OF_A_SEGMENT {
        return false;
    }
    let mut any = false;
    for entry in entries {
        match say(engine, log, entry.id_low) {
            Some(said) => any |= said,
            None => return false,
        }
    }
    !any || snapshot::settle(engine).is_ok()
}

/// Marks take less than this part of a segment.
const MOST_OF_A_SEGMENT: u64 = 16;

/// Whether a mark was needed; `None` if there is no room for it, or the disk fails.
fn say(engine: &Inner, log: u8, id_low: u64) -> Option<bool> {
    let segments = &engine.indexed.segments;
    let mark = Record::tombstone(Digest::of_low(id_low));
    block_on(poll_fn(|cx| {
        // Nothing newer comes in between, which the mark would void.
        let _alone = engine.publishing.write();
        if engine.indexed.index.find(id_low).is_some() {
            return Poll::Ready(Some(false));
        }
        segments.reserve(0);
        let said = engine.append(cx, log, &mark);
        segments.reserve(RESERVE);
        match said {
            Poll::Ready(Ok((_, bytes))) => {
                engine.policy.pay(bytes);
                engine.marks.fetch_add(bytes, Relaxed);
                Poll::Ready(Some(true))
            }
            Poll::Ready(Err(_)) => Poll::Ready(None),
            Poll::Pending if segments.free() == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }))
}
