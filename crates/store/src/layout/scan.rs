//! What a log held when it is opened: summaries read, regions without one walked.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::{io, mem};

use super::record::Stamp;
use super::region::{self, LogLayout, SummaryEntry};
use super::walk::{Damaged, Walk, Walked};
use crate::device::{Device, blocking};
use crate::memory::AlignedBuf;
use crate::memory::aligned::round_up;
use crate::terms::Place;

/// Reads of a log when it is opened, before anything is written to it.
pub struct Scan<'a> {
    /// Where it lies.
    pub device: &'a dyn Device,
    /// How it is cut.
    pub layout: LogLayout,
    /// How its records are stamped.
    pub stamp: Stamp,
    /// Offsets of the device at which something was found damaged, so far.
    pub damaged: RefCell<BTreeSet<u64>>,
}

/// What a log held when it was opened.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Where the next region begins.
    pub next: Place,
    /// Everything older is given up: overwritten, or older than a region that cannot be read.
    pub floor: Place,
    /// Records that an index needs and that no snapshot covers, oldest first.
    pub entries: Vec<SummaryEntry>,
    /// Regions that had no summary, and what was found in them: write one for each, or they are walked again.
    pub unsealed: Vec<Walked>,
}

/// The device failed to read a part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Regions without a record that the walk passes over: as many as a failing disk may have made useless in a row. It is
/// more than the summaries that may wait, too.
const REGIONS_ON_THEIR_WAY: u64 = 16;

/// Most summaries are no longer than this part of a region: 20 bytes for each 5 KiB of it.
const SUMMARY_SHARE: u64 = 256;

impl Scan<'_> {
    /// Find out what a log holds from `covered` on, the place up to which a snapshot knows; [`Place`] 0 without one.
    /// One small read a region, a second one where the summary is longer than a block, and the whole of regions that
    /// lack a summary: the open one, and damaged ones. Bounded by the log's size; idempotent. Memory: 32 bytes a
    /// record, and as many again for each in a region without a summary.
    ///
    /// What a region says may void what older ones say (a later version, a removal). So when one can be read in no way,
    /// all that is older is given up with it; and when it is the open one, whose places must not be given out twice,
    /// writing goes on with a new lap.
    pub fn recover(&self, covered: Place) -> Recovered {
        let first = Place(self.layout.log_bytes());
        let covered = covered.max(first);
        let begun = self.layout.region_of(covered);
        let mut footers = if covered == first { self.all_footers() } else { self.footers_from(begun) };
        if footers.is_empty() && !self.walk(begun).is_ok_and(|walked| walked.is_some()) {
            // The snapshot may be so old that the log has gone round since.
            footers = self.all_footers();
        }
        let newest = footers.last_key_value().map(|(region, _)| *region);
        let next = newest.map_or(begun, |place| self.after(place)).max(begun);
        let mut found = Recovered { next, ..Recovered::default() };
        let mut floor = first.max(self.open_regions(&mut found));
        if covered > begun {
            // The snapshot saw places of this region, even if what was written there never reached the disk.
            found.next = found.next.max(self.after(begun));
        }
        let window = Place(found.next.0 + self.layout.region_bytes - self.layout.log_bytes());
        floor = floor.max(window);
        let scanned: Vec<_> = found.unsealed.iter().map(|walked| walked.region).collect();
        let mut sealed = HashSet::new();
        let regions = (floor.max(begun).0..found.next.0).step_by(self.layout.region_bytes as usize).map(Place);
        for region in regions.filter(|region| !scanned.contains(region)) {
            let summary = footers.remove(&region).and_then(|footer| self.entries(&footer));
            match summary {
                Some(entries) => {
                    sealed.insert(region);
                    found.entries.extend(entries);
                }
                None => match self.walk(region) {
                    Ok(walked) => found.unsealed.extend(walked),
                    Err(Unreadable) => floor = self.after(region),
                },
            }
        }
        found.unsealed.retain(|walked| walked.region >= floor);
        self.forget_bodiless(&mut found, floor.max(begun), &sealed);
        found.entries.extend(found.unsealed.iter().flat_map(|walked| walked.entries.iter().copied()));
        found.entries.retain(|entry| entry.place >= floor.max(covered));
        found.entries.sort_by_key(|entry| entry.place);
        found.floor = floor;
        found
    }

    /// A large object's table may be there while parts of its body are not: then the object was not acknowledged, and it
    /// must not hide what it was to replace. Parts in regions with a summary are there, and so are those that a
    /// snapshot covers: neither is written before what it speaks of lasts.
    fn forget_bodiless(&self, found: &mut Recovered, from: Place, sealed: &HashSet<Place>) {
        let there: HashSet<_> = found.unsealed.iter().flat_map(|walked| walked.records.iter().copied()).collect();
        let (from, to) = (from, found.next);
        let lost = |place: Place| {
            let region = self.layout.region_of(place);
            (from..to).contains(&region) && !sealed.contains(&region) && !there.contains(&place)
        };
        found.unsealed.iter_mut().for_each(|walked| walked.forget_bodiless(lost));
    }

    fn all_footers(&self) -> BTreeMap<Place, region::Footer> {
        let footers = (0..self.layout.regions).filter_map(|number| self.footer(number as usize).ok().flatten());
        footers.map(|footer| (footer.region, footer)).collect()
    }

    /// The footers of the regions that were written after one, found by walking on from it, and from the next lap,
    /// with which writing may have gone on.
    fn footers_from(&self, begun: Place) -> BTreeMap<Place, region::Footer> {
        let mut footers = BTreeMap::new();
        for start in [begun, self.next_lap(begun)] {
            let (mut region, mut missing) = (start, 0);
            while missing <= REGIONS_ON_THEIR_WAY && footers.len() < self.layout.regions as usize {
                let footer = self.footer(self.layout.region_number(region)).ok().flatten();
                match footer.filter(|footer| footer.region == region) {
                    Some(footer) => {
                        footers.insert(region, footer);
                        missing = 0;
                    }
                    None => missing += 1,
                }
                region = self.after(region);
            }
        }
        footers
    }

    /// Regions begun after the newest summary was written: the open one, and those whose summaries did not arrive. They
    /// follow each other, with gaps where a first write failed, or began with a new lap. Returns the place before which
    /// all is given up, because the region after the last one found cannot be read.
    fn open_regions(&self, found: &mut Recovered) -> Place {
        let mut floor = Place(0);
        loop {
            let before = found.next;
            let mut readable = self.begun_from(before, found);
            if readable && found.next == before {
                readable = self.begun_from(self.next_lap(before), found);
            }
            if found.next != before {
                continue;
            }
            if readable {
                return floor;
            }
            found.next = self.next_lap(before);
            if mem::replace(&mut floor, found.next) != Place(0) {
                return floor;
            }
        }
    }

    /// Regions begun from `start` on; false if the one after the last of them cannot be read.
    fn begun_from(&self, start: Place, found: &mut Recovered) -> bool {
        let most = REGIONS_ON_THEIR_WAY.min(self.layout.regions - 1);
        let (mut region, mut missing, mut readable) = (start, 0, true);
        while missing <= most && found.unsealed.len() < self.layout.regions as usize {
            match self.walk(region) {
                Ok(Some(walked)) => {
                    found.unsealed.push(walked);
                    found.next = self.after(region);
                    (missing, readable) = (0, true);
                }
                Ok(None) => missing += 1,
                Err(Unreadable) => {
                    readable &= missing > 0;
                    missing += 1;
                }
            }
            region = self.after(region);
        }
        readable
    }

    fn next_lap(&self, place: Place) -> Place {
        Place((self.layout.lap(place) + 1) * self.layout.log_bytes())
    }

    fn after(&self, region: Place) -> Place {
        Place(region.0 + self.layout.region_bytes)
    }

    pub(super) fn read(&self, at: u64, bytes: u64) -> Result<AlignedBuf, Unreadable> {
        blocking::read(self.device, at, bytes as usize).map_err(|error| {
            tracing::warn!("a part of the cache cannot be read and is given up: {error}");
            Unreadable
        })
    }

    fn region_end(&self, number: usize) -> u64 {
        self.layout.base + (number as u64 + 1) * self.layout.region_bytes
    }

    pub(super) fn footer(&self, number: usize) -> Result<Option<region::Footer>, Unreadable> {
        let block = self.device.geometry().block_bytes;
        let at = self.region_end(number) - block;
        let bytes = self.read(at, block)?;
        let footer = region::footer(&self.layout, self.stamp, number, &bytes);
        if footer.is_none() && region::was_footer(&self.layout, &bytes) {
            self.note_damage("a region's summary", at);
        }
        Ok(footer)
    }

    /// What the summary of a region says, if it has one of this lap that verifies. One read, where its objects are not small.
    pub fn summary(&self, region: Place) -> Option<Vec<SummaryEntry>> {
        let number = self.layout.region_number(region);
        let likely = round_up(self.layout.region_bytes / SUMMARY_SHARE, self.layout.align);
        // What lies before a short summary may be bad.
        let end = self.read(self.region_end(number) - likely, likely).ok();
        let footer = |end: &AlignedBuf| region::footer(&self.layout, self.stamp, number, end);
        match end.and_then(|end| Some((footer(&end)?, end))) {
            Some((footer, _)) if footer.region != region => None,
            Some((footer, end)) if self.layout.summary_bytes(footer.entries) <= likely => {
                self.entries_in(&footer, &end)
            }
            Some((footer, _)) => self.entries(&footer),
            None => self.entries(&self.footer(number).ok().flatten().filter(|footer| footer.region == region)?),
        }
    }

    pub(super) fn entries(&self, footer: &region::Footer) -> Option<Vec<SummaryEntry>> {
        let bytes = self.layout.summary_bytes(footer.entries);
        let at = self.region_end(self.layout.region_number(footer.region)) - bytes;
        self.entries_in(footer, &self.read(at, bytes).ok()?)
    }

    /// The same from the last bytes of its region.
    fn entries_in(&self, footer: &region::Footer, summary: &[u8]) -> Option<Vec<SummaryEntry>> {
        let at = self.region_end(self.layout.region_number(footer.region)) - self.layout.summary_bytes(footer.entries);
        let entries = region::entries(&self.layout, self.stamp, footer, summary);
        if entries.is_none() {
            self.note_damage("a region's summary", at);
        }
        entries
    }

    /// Walk the records of a region; `None` if it holds none of this lap.
    pub(super) fn walk(&self, region: Place) -> Result<Option<Walked>, Unreadable> {
        let (walk, at) = (Walk { layout: self.layout, stamp: self.stamp }, self.layout.device_offset(region));
        let first = self.read(at, self.device.geometry().block_bytes)?;
        let opening = match walk.opening(region, &first) {
            Ok(Some(opening)) => opening,
            Ok(None) => return Ok(None),
            Err(Damaged) => {
                self.note_damage("a region's first record", at);
                return Ok(None);
            }
        };
        let walked = walk.region(region, opening, &self.read(at, self.layout.region_bytes)?);
        walked.damaged.iter().for_each(|offset| self.note_damage("a record", at + offset));
        Ok((walked.used > 0).then_some(walked))
    }

    fn note_damage(&self, what: &str, at: u64) {
        if self.damaged.borrow_mut().insert(at) {
            tracing::warn!("{what} at byte {at} is damaged, or was being written when the power went");
        }
    }

    /// Write summaries for regions that lacked them. What they vouch for must last already. One that cannot be written,
    /// on a disk that is full or dying, keeps nobody from reading what is there: its region is walked again next time.
    pub fn seal(&self, unsealed: &[Walked]) {
        unsealed.iter().for_each(|walked| self.seal_one(walked));
    }

    /// Say of a region that whatever it holds has left, in the place of its summary: one block. It does not wait until that lasts.
    /// Errors: the device's.
    pub fn void(&self, region: Place) -> io::Result<()> {
        let footer = region::encode(&self.layout, self.stamp, region, 0, &[]);
        let at = self.layout.device_offset(region) + self.layout.region_bytes - footer.len() as u64;
        blocking::write(self.device, at, footer)
    }

    /// [`Scan::seal`] for one region.
    pub fn seal_one(&self, Walked { region, used, entries, .. }: &Walked) {
        let summary = region::encode(&self.layout, self.stamp, *region, *used, entries);
        let at = self.layout.device_offset(*region) + self.layout.region_bytes - summary.len() as u64;
        if let Err(error) = blocking::write(self.device, at, summary) {
            tracing::warn!("a region's summary could not be written, and the next opening takes longer: {error}");
        }
    }
}
