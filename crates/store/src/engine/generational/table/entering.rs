//! What memory is told: what was stored, removed, evicted or written once more, what leaves with its segment, and what becomes a copy.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::changes::Change;
use super::spot::Spot;
use super::{Current, Table};
use crate::engine::{Kind, Place};
use crate::index::resident::Entry;

impl Table {
    /// See [`crate::engine::segments::Index::enter`].
    pub fn enter(&self, kind: Kind, id_low: u64, place: Place) {
        match kind {
            Kind::Whole | Kind::Large => {
                self.change(id_low, |_| Some(Change::There { position: self.position(place), hits: 0 }));
            }
            Kind::Tombstone => self.remove_low(id_low),
            Kind::Extent => {}
        }
    }

    /// Whatever has this fingerprint is removed.
    pub fn remove_low(&self, id_low: u64) {
        let spot = self.cut.spot(id_low);
        self.change(id_low, |before| {
            let may_be_there = before.is_some() || self.may_hold(spot);
            if !may_be_there {
                // There may be a copy of what the table has lost. The next filter may err, and whoever asks would be led to it.
                self.copies.forget(spot.mixed());
            }
            may_be_there.then_some(Change::Removed)
        });
        if let Some((at, tag)) = self.returning(spot) {
            let _ = at.compare_exchange(tag, 0, Relaxed, Relaxed);
        }
    }

    /// A change, by what has changed before. What the table or a change led to is displaced, and no copy of it stays.
    pub(super) fn change(&self, id_low: u64, into: impl FnOnce(Option<Change>) -> Option<Change>) {
        let spot = self.cut.spot(id_low);
        let Some(at) = self.changes.at(spot) else { return };
        let before = at.get();
        let Some(change) = into(before) else { return };
        if let Some(Change::There { position, .. }) = before {
            self.moved(position, false);
            self.superseded.note(position);
        }
        let displaces = match before {
            Some(change) => matches!(change, Change::There { .. }),
            None => self.may_hold(spot),
        };
        if displaces {
            self.displaced.note(spot.pair);
        }
        self.copies.forget(spot.mixed());
        if let Change::There { position, .. } = change {
            self.moved(position, true);
        }
        at.put(change);
    }

    /// A change leads to a position from now on, or no longer.
    fn moved(&self, position: u32, leads: bool) {
        let Some(live) = self.live_in.get(self.segment_at(position)) else { return };
        let _ = live.fetch_update(Relaxed, Relaxed, |live| {
            Some(if leads { live.saturating_add(1) } else { live.saturating_sub(1) })
        });
    }

    /// Drop what leads to exactly this place, which leaves with its segment, unless the record is kept, by how often it was asked for.
    /// Whether it was dropped, if memory knew of it.
    pub fn evict_unless(&self, id_low: u64, place: Place, keeps: impl Fn(u8) -> bool) -> Option<bool> {
        let (spot, position) = (self.cut.spot(id_low), self.position(place));
        let at = self.changes.at(spot)?;
        match at.get() {
            Some(Change::There { position: there, hits }) if there == position => {
                let leaves = !keeps(hits);
                if leaves {
                    self.moved(position, false);
                    // If its segment stays after all.
                    self.superseded.note(position);
                    self.copies.forget(spot.mixed());
                    at.put(Change::Left);
                }
                Some(leaves)
            }
            Some(_) => None,
            // The table's slot leads nowhere once the segment has left.
            None => self.copies.drop_unless(spot.mixed(), position.into(), keeps),
        }
    }

    /// A record was written once more: it is found there, and its hits are counted anew.
    pub fn follow(&self, id_low: u64, from: Place, to: Place) {
        let (spot, from, to) = (self.cut.spot(id_low), self.position(from), self.position(to));
        let Some(at) = self.changes.at(spot) else { return };
        let is_there = match at.get() {
            Some(Change::There { position, .. }) => position == from,
            Some(_) => false,
            // It was there when it was asked last, and nobody enters anything meanwhile; its copy may have gone.
            None => true,
        };
        if is_there {
            self.moved(from, false);
            self.moved(to, true);
            self.superseded.note(from);
            self.copies.forget(spot.mixed());
            at.put(Change::There { position: to, hits: 0 });
        } else {
            self.superseded.note(to);
        }
    }

    /// A segment is being cleaned: no copy of what it holds is made from now on.
    pub fn leaves(&self, number: usize) {
        self.leaving.store(number as u64 + 1, SeqCst);
    }

    /// It has left, or stays.
    pub fn has_left(&self) {
        self.leaving.store(0, SeqCst);
    }

    /// It is about to be free, and nothing in it counts.
    pub fn freed(&self, number: usize) {
        self.superseded.freed(number);
    }

    /// Nothing in memory leads into this segment any more: where its summary cannot be read.
    pub fn sweep(&self, number: usize) {
        let units = self.plan.layout.region_bytes / self.plan.layout.unit;
        let first = number as u64 * units;
        let leads_there = |position: u32| (first..first + units).contains(&u64::from(position));
        self.superseded.suspect(number);
        self.changes.each(|change| match change {
            Change::There { position, .. } if leads_there(position) => Some(Change::Left),
            _ => None,
        });
        self.copies.drop_in(&(first..first + units));
    }

    /// A slot of this table was read, and leads to a place: kept as a copy, unless something is newer by now. Whether it is the newest.
    pub(super) fn keep_copy(&self, spot: Spot, place: Place, current: &Current) -> bool {
        let Some(at) = self.changes.at(spot) else { return false };
        if at.get().is_some() || self.current.read().number != current.number {
            return false;
        }
        self.copy_in(spot, place);
        true
    }

    /// A record was read beside another one: if nothing is newer, it is where the table leads.
    pub(super) fn keep_neighbour(&self, id_low: u64, place: Place) {
        let spot = self.cut.spot(id_low);
        let Some(at) = self.changes.at(spot) else { return };
        if at.get().is_none() && self.superseded.is_none_near(self.position(place)) && self.may_hold(spot) {
            self.copy_in(spot, place);
        }
    }

    /// While nobody changes the spot.
    fn copy_in(&self, spot: Spot, place: Place) {
        let position = self.position(place);
        let is_leaving = self.leaving.load(SeqCst) == self.segment_at(position) as u64 + 1;
        if !is_leaving
            && self.place(position) == Some(place)
            && self.copies.hits(spot.mixed(), position.into()).is_none()
        {
            self.copies.enter(spot.mixed(), Entry { position: position.into(), hits: 0 });
        }
    }
}
