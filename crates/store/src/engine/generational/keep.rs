//! Writing again what is worth more than what leaves.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use super::engine::Inner;
use crate::device::blocking;
use crate::engine::segments::cleaner;
use crate::engine::{Kind, Place, Record};
use crate::layout::SummaryEntry;
use crate::memory::aligned::{round_down, round_up};
use crate::replace::generations::Segment;
use crate::terms::WhyNot;
use crate::terms::limits::MAX_REQUEST_BYTES;

/// Records with no more bytes between them are read together: a disk passes over these as fast as it reads them.
const GAP: u64 = 32 << 10;

/// Write again what of a segment is worth it, each record into the log of its next generation, and evict the rest; whether anything was
/// written. Only that is read. Memory: [`MAX_REQUEST_BYTES`], or one record.
pub fn keep(engine: &Inner, region: Place, segment: &Segment, entries: &[SummaryEntry]) -> bool {
    let (log, index) = (&engine.indexed.log, &engine.indexed.index);
    let mut evicted = 0;
    let region_bytes = log.layout.region_bytes;
    let ends = entries.iter().skip(1).map(|entry| entry.place.0).chain([region.0 + region_bytes]);
    // A record is taken to be as long as it is to the next one. Where a batch ends between the two, that is up to a block more.
    let chosen = |(entry, end): (&SummaryEntry, u64)| {
        let bytes = end.saturating_sub(entry.place.0).min(log.layout.max_record_bytes() as u64);
        let keeps = |hits| entry.kind == Kind::Whole && engine.policy.keeps(segment, bytes, hits);
        let is_evicted = index.evict_unless(entry.id_low, entry.place, keeps)?;
        evicted += u64::from(is_evicted);
        let from = entry.place.0 - region.0;
        (!is_evicted).then_some(Chosen { entry: *entry, from, to: from + bytes })
    };
    let chosen: Vec<_> = entries.iter().zip(ends).filter_map(chosen).collect();
    let any = write_again(engine, region, segment, &chosen);
    // For which there was no room, or which could not be read.
    let rest =
        chosen.iter().filter(|one| index.evict_unless(one.entry.id_low, one.entry.place, |_| false) == Some(true));
    engine.evicted.fetch_add(evicted + rest.count() as u64, Relaxed);
    any
}

/// Write these records of a segment again, as long as there is room; whether any was.
fn write_again(engine: &Inner, region: Place, segment: &Segment, chosen: &[Chosen]) -> bool {
    let (log, index) = (&engine.indexed.log, &engine.indexed.index);
    let region_bytes = log.layout.region_bytes;
    let (mut any, mut rest) = (false, chosen);
    while let Some(first) = rest.first() {
        let from = round_down(first.from, log.layout.align);
        let end = |one: &Chosen| round_up(one.to, log.layout.align).min(region_bytes);
        let fits = |pair: &&[Chosen]| matches!(pair, [one, next] if next.from <= one.to + GAP && end(next) - from <= MAX_REQUEST_BYTES as u64);
        let (together, after) = rest.split_at(1 + rest.windows(2).take_while(fits).count());
        rest = after;
        let to = together.last().map_or(from, end);
        let at = log.layout.device_offset(region) + from;
        let into = log.pool.take(to.saturating_sub(from) as usize);
        let Ok(bytes) = blocking::read_into(&*log.device, at, into).map(|read| log.pool.lend(read)) else { continue };
        for one in together {
            let record = one.from.checked_sub(from).and_then(|at| bytes.get(at as usize..));
            let Some((header, payload)) = record.and_then(|bytes| log.stamp.record(bytes, one.entry.place)) else {
                continue;
            };
            let hits = index.hits(one.entry.id_low, one.entry.place).unwrap_or(0);
            let to = engine.policy.log_of_kept(segment.log, header.record_bytes() as u64, hits);
            if !append_again(engine, &one.entry, to.0, (&header.again(payload), header.payload_sum)) {
                return any;
            }
            any = true;
        }
    }
    any
}

/// A record that is worth it, and where in its segment it lies.
struct Chosen {
    entry: SummaryEntry,
    from: u64,
    to: u64,
}

/// Append a record once more, unless a newer version came meanwhile; false if there is no more room for any.
fn append_again(engine: &Inner, entry: &SummaryEntry, log: u8, (record, sum): (&Record<'_>, u64)) -> bool {
    let index = &engine.indexed.index;
    cleaner::write(
        engine,
        || index.hits(entry.id_low, entry.place).is_some(),
        |cx| match index.has_room(entry.id_low) {
            true => engine.append_summed(cx, log, record, sum),
            false => Poll::Ready(Err(WhyNot::Slow)),
        },
        |(place, bytes)| {
            index.follow(entry.id_low, entry.place, place);
            engine.rewritten.fetch_add(bytes, Relaxed);
        },
    )
}
