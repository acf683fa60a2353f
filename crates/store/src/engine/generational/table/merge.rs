//! Making the table anew: each page from the one before and its changes; and loading the one that is there.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::changes::Change;
use super::page::{self, Merge};
use super::{Current, Table};
use crate::device::Device;
use crate::engine::Place;
use crate::engine::segments::Slot;
use crate::index::resident::Entry;
use crate::layout::Segments;
use crate::layout::snapshot::Run;

/// A merge that is under way.
#[derive(Default)]
pub struct Merging {
    segments: Vec<Merged>,
    /// By so many rounds empty slots grow older.
    rounds: u64,
    run: Run,
}

/// What a merge knows of a segment.
struct Merged {
    /// Slots that lead into it.
    live: u32,
    /// Whether it is the one still that the table leads into: none leaves meanwhile.
    stays: bool,
}

/// So many slots more lead into a segment.
fn count(segments: &mut [Merged], number: usize, more: i32) {
    if let Some(segment) = segments.get_mut(number) {
        segment.live = segment.live.saturating_add_signed(more);
    }
}

impl Table {
    /// A merge begins. Nobody enters anything now. What empty slots remember grows older by so many rounds.
    pub fn merge_begins(&self, rounds: u64) {
        self.displaced.snapshot_begins();
        self.changes.merge_begins();
        let current = self.current();
        let segment = |number| Merged { live: 0, stays: self.is_same(&current, number) };
        let segments = (0..self.live_in.len()).map(segment).collect();
        *self.merging.lock() = Merging { segments, rounds, run: Run::default() };
    }

    /// A page of the new table.
    pub fn merge(&self, device: &dyn Device, page: u64, worth: impl Fn(u8, Place) -> u64) -> Vec<u8> {
        let number = self.current().number;
        let Merging { segments, rounds, run } = &mut *self.merging.lock();
        let before = number.map(|number| self.snapshots(device).page_of_run(run, number, page));
        let is_lost = before == Some(None);
        if is_lost {
            // What it led to is lost. What that had displaced is to stay away all the same.
            self.displaced.suspect_all();
            self.superseded.suspect_all();
            tracing::warn!("page {page} of the index cannot be read: what it led to is lost");
        }
        let mut content = before.flatten().unwrap_or_else(|| page::empty(&self.cut, page));
        page::trim(&self.cut, page, &mut content);
        let mut merge = Merge::new(&self.cut, page, &mut content);
        merge.age(*rounds);
        // What the page held is held on to, since lookups go by that one until all are written. It may be read again after all.
        let mut held = self.filter.renewal(page);
        let stays = |position| match segments.get_mut(self.segment_at(position)) {
            Some(segment) if segment.stays => {
                segment.live = segment.live.saturating_add(1);
                true
            }
            _ => false,
        };
        merge.each(stays, |_, spot| held.hold(spot.mixed()));
        let worth =
            |slot: &Slot| slot.position.and_then(|at| self.place(at)).map_or(0, |place| worth(slot.hits, place));
        for (spot, change) in self.changes.in_sets(&self.cut.shape.sets_in(page)) {
            if let Change::There { .. } = change {
                held.hold(spot.mixed());
            }
            merge.enter(spot, change, worth);
        }
        merge.entered.iter().for_each(|position| count(segments, self.segment_at(*position), 1));
        merge.superseded.iter().for_each(|position| count(segments, self.segment_at(*position), -1));
        self.lost.fetch_add(merge.displaced.len() as u64, Relaxed);
        merge.displaced.iter().for_each(|spot| self.displaced.note(spot.pair));
        merge.superseded.iter().for_each(|position| self.superseded.note(*position));
        match is_lost {
            true => self.filter.holds_all(page),
            false => held.end(),
        }
        content
    }

    /// All pages are on the disk, as the snapshot of this number; or they are not.
    pub fn merge_ended(&self, number: Option<u64>) {
        self.has_failed.store(number.is_none(), SeqCst);
        let merging = std::mem::take(&mut *self.merging.lock());
        let Some(number) = number else { return self.displaced.suspect_all() };
        let homes = (0..self.live_in.len()).map(|number| self.home(number).map_or(0, |home| home.0 + 1));
        self.go_by(Some(number), homes.collect());
        self.live_in.iter().zip(merging.segments).for_each(|(live, segment)| live.store(segment.live, Relaxed));
        self.changes.merged(|spot, change| {
            if let Change::There { position, hits } = change {
                self.copies.enter(spot.mixed(), Entry { position: position.into(), hits });
            }
        });
        self.is_pressed.store(false, SeqCst);
    }

    fn go_by(&self, number: Option<u64>, homes: Box<[u64]>) {
        *self.current.write() = Arc::new(Current { number, homes });
    }

    /// A page of the snapshot that is being opened.
    pub fn load(&self, page: u64, content: &[u8]) {
        let mut content = content.to_vec();
        page::trim(&self.cut, page, &mut content);
        let mut held = self.filter.renewal(page);
        Merge::new(&self.cut, page, &mut content).each(
            |_| true,
            |position, spot| {
                held.hold(spot.mixed());
                if let Some(live) = self.live_in.get(self.segment_at(position)) {
                    live.fetch_add(1, Relaxed);
                }
            },
        );
        held.end();
    }

    /// The same over these segments. All pages of a snapshot were loaded, or there is none; for each segment it says where that began: one
    /// more, or 0. `objects` are those that were written to each by then, if nothing was since; `superseded` is what was saved of those.
    pub fn over(
        self,
        segments: Arc<Segments>,
        number: Option<u64>,
        homes: Box<[u64]>,
        objects: impl Fn(usize) -> Option<u32>,
        superseded: &[u64],
    ) -> Self {
        for (nth, live) in self.live_in.iter().enumerate() {
            let home = segments.home(nth).map_or(0, |home| home.0 + 1);
            if number.is_none() || homes.get(nth) != Some(&home) {
                live.store(0, Relaxed);
            }
            let is_known = match objects(nth) {
                Some(objects) => objects == live.load(Relaxed) || self.superseded.recall(nth, superseded),
                None => false,
            };
            if !is_known {
                self.superseded.suspect(nth);
            }
        }
        self.go_by(number, homes);
        Table { segments: Some(segments), ..self }
    }
}
