//! Keeping the most valuable part of a segment that is cleaned: beyond the paper, whose eviction is plain FIFO.
//!
//! A record's value is what it was asked for against what it takes: hits, up to three, by bytes. Those of the same value
//! are chosen among at random, so that no kind of object always loses. Records that nobody asked for are not kept, so one
//! that was kept and is not asked for again leaves the next time.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::engine::Inner;
use crate::device::blocking;
use crate::engine::segments::cleaner;
use crate::engine::{Kind, Place};
use crate::layout::SummaryEntry;
use crate::layout::record::Header;

/// What may be written once more: a share of what was stored, never passed.
pub struct Budget {
    percent: u8,
    earned: AtomicU64,
    spent: AtomicU64,
}

impl Budget {
    /// So many bytes for each hundred stored.
    pub fn of(percent: u8) -> Self {
        Budget { percent, earned: AtomicU64::new(0), spent: AtomicU64::new(0) }
    }

    /// So many bytes were stored.
    pub fn earn(&self, bytes: u64) {
        self.earned.fetch_add(bytes, Relaxed);
    }

    /// Bytes written once more so far.
    pub fn spent(&self) -> u64 {
        self.spent.load(Relaxed)
    }

    /// Bytes that may be written once more now.
    fn room(&self) -> u64 {
        (self.earned.load(Relaxed) / 100).saturating_mul(self.percent.into()).saturating_sub(self.spent())
    }
}

/// A record that may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    id_low: u64,
    place: Place,
    bytes: u64,
    hits: u8,
    /// Decides among equals.
    dither: u64,
}

impl Candidate {
    /// The more valuable one first.
    fn order(&self, other: &Candidate) -> Ordering {
        let value = |one: &Candidate, by: &Candidate| u64::from(one.hits) * by.bytes;
        value(other, self).cmp(&value(self, other)).then(self.dither.cmp(&other.dither))
    }
}

/// The most valuable of these that take up to `room` bytes together, in the order of their places.
fn choose(mut candidates: Vec<Candidate>, mut room: u64) -> Vec<Candidate> {
    candidates.sort_unstable_by(Candidate::order);
    candidates.retain(|candidate| {
        let fits = candidate.bytes <= room;
        room -= if fits { candidate.bytes } else { 0 };
        fits
    });
    candidates.sort_unstable_by_key(|candidate| candidate.place);
    candidates
}

/// Append the most valuable records of a segment once more: up to a share of its bytes, and within the budget. Memory: the
/// segment.
pub fn keep(engine: &Inner, region: Place, entries: &[SummaryEntry]) {
    let layout = engine.indexed.log.layout;
    let share = layout.region_bytes / 100 * u64::from(engine.options.keep_percent);
    let room = engine.budget.room().min(share);
    let worth = |entry: &&SummaryEntry| {
        entry.kind == Kind::Whole && engine.indexed.index.hits(entry.id_low, entry.place).is_some_and(|hits| hits > 0)
    };
    if room == 0 || !entries.iter().any(|entry| worth(&entry)) {
        return;
    }
    let Ok(bytes) =
        blocking::read(&*engine.indexed.log.device, layout.device_offset(region), layout.region_bytes as usize)
    else {
        return;
    };
    let candidate = |entry: &SummaryEntry| {
        let header = record_at(engine, &bytes, region, entry.place)?.0;
        Some(Candidate {
            id_low: entry.id_low,
            place: entry.place,
            bytes: header.record_bytes() as u64,
            hits: engine.indexed.index.hits(entry.id_low, entry.place)?,
            // The digest is keyed with the store's secret, and its middle chose neither set nor fingerprint.
            dither: entry.id_low.rotate_left(32),
        })
    };
    let candidates = entries.iter().filter(worth).filter_map(candidate).collect();
    for chosen in choose(candidates, room) {
        let Some((header, payload)) = record_at(engine, &bytes, region, chosen.place) else { continue };
        if !append_again(engine, &chosen, &header, payload) {
            return;
        }
    }
}

/// The record at a place of a segment that was read whole, verified.
fn record_at<'a>(engine: &Inner, bytes: &'a [u8], region: Place, place: Place) -> Option<(Header, &'a [u8])> {
    engine.indexed.log.stamp.record(bytes.get(usize::try_from(place.0.checked_sub(region.0)?).ok()?..)?, place)
}

/// Append a record once more, unless a newer version came meanwhile; false if there is no more room for any.
fn append_again(engine: &Inner, chosen: &Candidate, header: &Header, payload: &[u8]) -> bool {
    let (record, index) = (header.again(payload), &engine.indexed.index);
    cleaner::write(
        engine,
        || index.hits(chosen.id_low, chosen.place).is_some(),
        |cx| engine.indexed.log.frontier.poll_append_summed(0, cx, &record, header.payload_sum),
        |(place, _)| {
            index.follow(chosen.id_low, chosen.place, place);
            engine.budget.spent.fetch_add(chosen.bytes, Relaxed);
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(n: u64, bytes: u64, hits: u8) -> Candidate {
        Candidate { id_low: n, place: Place(n), bytes, hits, dither: n.wrapping_mul(0x9E37_79B9_7F4A_7C15) }
    }

    #[test]
    fn the_most_valuable_that_fit_are_kept() {
        let all = vec![candidate(1, 1000, 1), candidate(2, 100, 1), candidate(3, 290, 3), candidate(4, 150, 3)];
        let kept = |room| choose(all.clone(), room).iter().map(|one| one.id_low).collect::<Vec<_>>();
        assert_eq!(kept(150), [4]);
        assert_eq!(kept(250), [2, 4], "a smaller one fits where the next does not");
        assert_eq!(kept(440), [3, 4]);
        assert_eq!(kept(1540), [1, 2, 3, 4]);
        assert!(kept(99).is_empty());
    }

    #[test]
    fn equals_are_chosen_among_without_regard_to_their_order() {
        let all: Vec<_> = (0..1000).map(|n| candidate(n, 100, 2)).collect();
        let kept = choose(all, 50_000);
        let early = kept.iter().filter(|one| one.id_low < 500).count();
        assert_eq!(kept.len(), 500);
        assert!((200..300).contains(&early), "{early}");
    }

    #[test]
    fn the_budget_is_a_share_of_what_was_stored() {
        let budget = Budget::of(10);
        assert_eq!(budget.room(), 0);
        budget.earn(1000);
        budget.spent.fetch_add(60, Relaxed);
        assert_eq!((budget.room(), budget.spent()), (40, 60));
        budget.spent.fetch_add(60, Relaxed);
        assert_eq!(budget.room(), 0);
    }
}
