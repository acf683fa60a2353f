//! One page of the table: what it says of a spot, and the page that follows it.

use super::changes::Change;
use super::spot::{Cut, Spot};
use crate::device::{Op, Outcome, Request};
use crate::engine::segments::{SLOT_BITS, Set, Sets, Slot, WAYS};
use crate::layout::log::LogFault;
use crate::layout::{Log, SnapshotLayout};
use crate::terms::Place;

/// What a page says of a spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It lies there, or another one of its spot does.
    At(Place),
    /// It left not long ago.
    HasLeft,
    /// Nothing.
    Nothing,
}

/// A page without objects.
pub fn empty(cut: &Cut, page: u64) -> Vec<u8> {
    let sets = cut.shape.sets_in(page);
    Set::empty().repeat((sets.end - sets.start) as usize)
}

/// Leave out what the last page is padded with.
pub fn trim(cut: &Cut, page: u64, content: &mut Vec<u8>) {
    content.truncate(cut.shape.bytes_of(cut.shape.sets_in(page).end.saturating_sub(1)).end);
}

/// Read a page of the table of this number, with the device, the buffers and the stamp of a log. `done` is told what it holds, on the device's
/// thread; or that the device failed, or what it gave is not that page.
pub fn read(
    log: &Log,
    saved: SnapshotLayout,
    (number, page): (u64, u64),
    done: impl FnOnce(Result<&[u8], LogFault>) + Send + 'static,
) {
    let (stamp, pool) = (log.stamp, log.pool.clone());
    let arrived = move |outcome: Outcome| match (outcome.result, outcome.buffer) {
        (Ok(()), Some(bytes)) => {
            let bytes = pool.lend(bytes);
            done(saved.content(stamp, number, page, &bytes).ok_or(LogFault::Corrupt));
        }
        _ => done(Err(LogFault::Device)),
    };
    let into = log.pool.take(saved.page_bytes() as usize);
    let request = Request::Read { at: saved.page_at(number, page), into };
    log.device.submit(Op { request, done: Box::new(arrived) });
}

/// What the page says, where `place` tells where a slot leads, if it leads anywhere still.
pub fn say(cut: &Cut, content: &[u8], spot: Spot, place: impl Fn(&Slot) -> Option<Place>) -> Said {
    let copy = |set| content.get(cut.shape.bytes_of(set)).and_then(|bytes| <[u8; SLOT_BITS]>::try_from(bytes).ok());
    let mut both = [spot.pair, cut.other(spot.pair, spot.fingerprint)].map(copy);
    let [first, other] = both.each_mut().map(|set| set.as_mut().map_or(&mut [][..], |set| &mut set[..]));
    let sets = Sets(Set(first), Set(other));
    let mut slots = sets.of(spot.fingerprint).map(|(_, slot)| slot);
    if let Some(place) = slots.clone().find_map(|slot| place(&slot)) {
        return Said::At(place);
    }
    let has_left = slots.any(|slot| slot.position.is_some() || slot.remembers(spot.fingerprint));
    if has_left { Said::HasLeft } else { Said::Nothing }
}

/// A page that is made anew.
pub struct Merge<'a> {
    pub cut: &'a Cut,
    pub page: u64,
    /// All its sets, as they were.
    pub content: &'a mut [u8],
    /// Objects that lost their slots to others.
    pub displaced: Vec<Spot>,
    /// Where slots led that lead elsewhere now, or nowhere.
    pub superseded: Vec<u32>,
    /// Where they lead since, or would have.
    pub entered: Vec<u32>,
}

impl<'a> Merge<'a> {
    /// Of this page, as it was.
    pub fn new(cut: &'a Cut, page: u64, content: &'a mut [u8]) -> Self {
        Merge { cut, page, content, displaced: Vec::new(), superseded: Vec::new(), entered: Vec::new() }
    }

    /// Every slot that leads somewhere, by its position and its spot, as far as it leads there still. Those that do not
    /// remember what they led to.
    #[inline]
    pub fn each(&mut self, mut leads: impl FnMut(u32) -> bool, mut with: impl FnMut(u32, Spot)) {
        let (cut, beside) = (self.cut, self.cut.shape.sets_in(self.page));
        for (set, bytes) in beside.clone().zip(self.content.chunks_exact_mut(cut.shape.set_bytes())) {
            Set(bytes).each(|slot| {
                let Some(position) = slot.position.filter(|position| leads(*position)) else {
                    return Some(slot.left());
                };
                with(position, cut.spot_among(&beside, set, slot.fingerprint));
                None
            });
        }
    }

    /// What empty slots remember is so many rounds older.
    pub fn age(&mut self, rounds: u64) {
        for set in self.cut.shape.sets_in(self.page) {
            let Some(bytes) = self.content.get_mut(self.cut.shape.bytes_of(set)) else { continue };
            (0..rounds).for_each(|_| Set(&mut *bytes).age());
        }
    }

    /// A change is entered. From a full set leaves what is worth least.
    pub fn enter(&mut self, spot: Spot, change: Change, worth: impl Fn(&Slot) -> u64) {
        let Spot { pair, fingerprint } = spot;
        let other = self.cut.other(pair, fingerprint);
        let cut = self.cut;
        let (superseded, entered) = (&mut self.superseded, &mut self.entered);
        let lost = cut.shape.two_in(self.content, pair, other, |set, other| {
            let mut sets = Sets(Set(set), Set(other));
            let Change::There { position, hits } = change else {
                while let Some((way, slot)) =
                    { sets.of(fingerprint).find(|(_, slot)| slot.position.is_some() || slot.hits > 0) }
                {
                    superseded.extend(slot.position);
                    sets.put(way, slot.removed());
                }
                if change == Change::Left
                    && let (Some((way, _)), false) = sets.room_for(fingerprint, |_| 0)
                {
                    sets.put(way, Slot { fingerprint, hits: 0, position: None }.left());
                }
                return None;
            };
            let (victim, is_lost) = sets.room_for(fingerprint, worth);
            if victim.is_none_or(|(_, before)| before.position != Some(position)) {
                entered.push(position);
                superseded.extend(victim.map_or(Some(position), |(_, before)| before.position));
            }
            let (way, before) = victim?;
            sets.put(way, Slot { fingerprint, hits, position: Some(position) });
            is_lost.then_some((way, before))
        });
        if let Some((way, before)) = lost.flatten() {
            self.displaced.push(cut.spot_in(if way < WAYS { pair } else { other }, before.fingerprint));
        }
    }
}
