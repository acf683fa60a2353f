//! What a log held when it is opened: summaries read, regions without one walked.

use std::collections::BTreeMap;
use std::mem;

use super::record::{HEADER_BYTES, Stamp};
use super::region::{self, LogLayout, SummaryEntry};
use crate::device::{Device, blocking};
use crate::engine::{Kind, Place};
use crate::memory::AlignedBuf;
use crate::memory::aligned::round_up;

/// Reads of a log when it is opened, before anything is written to it.
pub struct Scan<'a> {
    /// Where it lies.
    pub device: &'a dyn Device,
    /// How it is cut.
    pub layout: LogLayout,
    /// How its records are stamped.
    pub stamp: Stamp,
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
    /// Regions that had no summary, with the records found in them and the bytes used: write one for each, or their
    /// records are lost at the next opening.
    pub unsealed: Vec<(Place, u64, Vec<SummaryEntry>)>,
}

/// The device failed to read a part of the log.
struct Unreadable;

/// Regions after the newest summary that may lack theirs: as many as could be on their way at once, and as many as a
/// failing disk may have made useless in a row.
const REGIONS_ON_THEIR_WAY: u64 = 16;

impl Scan<'_> {
    /// Find out what a log holds from `covered` on, the place up to which a snapshot knows; [`Place`] 0 without one.
    /// One small read a region, a second one where the summary is longer than a block, and the whole of regions that
    /// lack a summary: the open one, and damaged ones. Bounded by the log's size; idempotent. Memory: 32 bytes a record.
    ///
    /// What a region says may void what older ones say (a later version, a removal). So when one can be read in no way,
    /// all that is older is given up with it; and when it is the open one, whose places must not be given out twice,
    /// writing goes on with a new lap.
    pub fn recover(&self, covered: Place) -> Recovered {
        let first = Place(self.layout.log_bytes());
        let covered = covered.max(first);
        let begun = self.layout.region_of(covered);
        let mut footers = if covered == first { self.all_footers() } else { self.footers_from(begun) };
        if footers.is_empty() && !self.scan_region(begun).is_ok_and(|(used, _)| used > 0) {
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
        let scanned: Vec<_> = found.unsealed.iter().map(|(region, ..)| *region).collect();
        let regions = (floor.max(begun).0..found.next.0).step_by(self.layout.region_bytes as usize).map(Place);
        for region in regions.filter(|region| !scanned.contains(region)) {
            let summary = footers.remove(&region).and_then(|footer| self.entries(&footer));
            match summary.map_or_else(|| self.scan_region(region).map(Err), |entries| Ok(Ok(entries))) {
                Ok(Ok(entries)) => found.entries.extend(entries),
                Ok(Err((0, _))) => {}
                Ok(Err((used, entries))) => found.unsealed.push((region, used, entries)),
                Err(Unreadable) => floor = self.after(region),
            }
        }
        found.entries.extend(found.unsealed.iter().flat_map(|(_, _, entries)| entries.iter().copied()));
        found.entries.retain(|entry| entry.place >= floor.max(covered));
        found.unsealed.retain(|(region, ..)| *region >= floor);
        found.entries.sort_by_key(|entry| entry.place);
        found.floor = floor;
        found
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
            match self.scan_region(region) {
                Ok((used, entries)) if used > 0 => {
                    found.unsealed.push((region, used, entries));
                    found.next = self.after(region);
                    (missing, readable) = (0, true);
                }
                Ok(_) => missing += 1,
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

    fn read(&self, at: u64, bytes: u64) -> Result<AlignedBuf, Unreadable> {
        blocking::read(self.device, at, bytes as usize).map_err(|error| {
            tracing::warn!("a part of the cache cannot be read and is given up: {error}");
            Unreadable
        })
    }

    fn region_end(&self, number: usize) -> u64 {
        self.layout.base + (number as u64 + 1) * self.layout.region_bytes
    }

    fn footer(&self, number: usize) -> Result<Option<region::Footer>, Unreadable> {
        let block = self.device.geometry().block_bytes;
        let bytes = self.read(self.region_end(number) - block, block)?;
        Ok(region::footer(&self.layout, self.stamp, number, &bytes))
    }

    fn entries(&self, footer: &region::Footer) -> Option<Vec<SummaryEntry>> {
        let bytes = self.layout.summary_bytes(footer.entries);
        let number = self.layout.region_number(footer.region);
        let summary = self.read(self.region_end(number) - bytes, bytes).ok()?;
        region::entries(&self.layout, self.stamp, footer, &summary)
    }

    /// Walk the records of a region from its start, whole and verified, to the first place where there is none.
    fn scan_region(&self, region: Place) -> Result<(u64, Vec<SummaryEntry>), Unreadable> {
        let first = self.read(self.layout.device_offset(region), self.device.geometry().block_bytes)?;
        let Some(opening) = self.stamp.header(&first, region).map(|header| header.opening) else {
            return Ok((0, Vec::new()));
        };
        let bytes = self.read(self.layout.device_offset(region), self.layout.region_bytes)?;
        let whole_at = |at: u64| {
            let place = Place(region.0 + at);
            let header = self.stamp.header(bytes.get(at as usize..)?, place).filter(|it| it.opening == opening)?;
            let payload = bytes.get(at as usize + HEADER_BYTES..)?.get(..header.payload_bytes())?;
            self.stamp.verifies(&header, payload).then_some(header)
        };
        let (mut at, mut entries) = (0, Vec::new());
        // Records follow each other, or begin anew where a batch does.
        while let Some(header) = whole_at(at).or_else(|| {
            at = round_up(at, self.layout.align);
            whole_at(at)
        }) {
            if header.kind != Kind::Extent {
                entries.push(SummaryEntry { id_low: header.id.low(), place: header.place, kind: header.kind });
            }
            at = round_up(at + header.record_bytes() as u64, self.layout.unit);
        }
        Ok((round_up(at, self.layout.align), entries))
    }

    /// Write summaries for regions that lacked them. Errors: the device's, as text.
    pub fn seal(&self, unsealed: &[(Place, u64, Vec<SummaryEntry>)]) -> Result<(), String> {
        for (region, used, entries) in unsealed {
            let summary = region::encode(&self.layout, self.stamp, *region, *used, entries);
            let at = self.layout.device_offset(*region) + self.layout.region_bytes - summary.len() as u64;
            blocking::write(self.device, at, summary).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
