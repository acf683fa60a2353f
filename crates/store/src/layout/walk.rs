//! A region without a summary, walked record by record when the store is opened.

use std::collections::BTreeSet;

use super::reach::Reach;
use super::record::{HEADER_BYTES, Header, Stamp};
use super::region::{LogLayout, SummaryEntry};
use super::table::Table;
use super::take::take_u64;
use crate::memory::aligned::round_up;
use crate::terms::{Kind, Place, inside};

/// What was found in a region.
#[derive(Debug)]
pub struct Walked {
    /// Which.
    pub region: Place,
    /// Where its last whole record ends, up to the next block; 0 if it holds none.
    pub used: u64,
    /// Its records that an index needs, in the order of their places.
    pub entries: Vec<SummaryEntry>,
    /// Places of all its records, extents included.
    pub records: Vec<Place>,
    /// For each record of a large object the places that its body lies at.
    pub bodies: Vec<(Place, Vec<Place>)>,
    /// Offsets in the region at which a record is damaged or lost that others were written behind.
    pub damaged: BTreeSet<u64>,
}

/// Walks regions.
#[derive(Clone, Copy)]
pub struct Walk {
    /// How they are cut.
    pub layout: LogLayout,
    /// How their records are stamped.
    pub stamp: Stamp,
}

impl Walk {
    /// Who wrote the region that begins with these bytes, or whether what is there was once a record of it.
    pub fn opening(&self, region: Place, first: &[u8]) -> Result<Option<u32>, Damaged> {
        match self.stamp.header(first, region) {
            Some(header) => Ok(Some(header.opening)),
            None if self.was_record(first, region) => Err(Damaged),
            None => Ok(None),
        }
    }

    /// Walk a region that a process of this `opening` wrote; `bytes` are all of it.
    ///
    /// A record that does not verify is passed over, and those of other openings: they were left further on by a
    /// process before. Behind a hole the walk goes on where the next batch may begin: on the next block. What is found
    /// there was written later than what is missing, and nothing that is missing was acknowledged, unless the disk lied.
    pub fn region(&self, region: Place, opening: u32, bytes: &[u8]) -> Walked {
        let mut walked = Walked {
            region,
            used: 0,
            entries: Vec::new(),
            records: Vec::new(),
            bodies: Vec::new(),
            damaged: BTreeSet::new(),
        };
        let (mut at, mut hole, mut noticed) = (0, None, false);
        while let Some(rest) = bytes.get(at as usize..).filter(|rest| rest.len() >= HEADER_BYTES) {
            let place = Place(region.0 + at);
            let header = self.stamp.header(rest, place).filter(|header| header.opening == opening);
            let Some(header) = header else {
                if self.was_record(rest, place) {
                    // What lies behind it in its batch cannot be found, and is not noticed once more.
                    noticed = true;
                    walked.damaged.insert(at);
                } else if !noticed && at.is_multiple_of(self.layout.align) {
                    // Nothing, or a batch that was lost: whether something follows will tell.
                    hole.get_or_insert(at);
                }
                at = round_up(at + 1, self.layout.align);
                continue;
            };
            let payload = rest.get(header.header_bytes..header.record_bytes()).unwrap_or_default();
            walked.damaged.extend(hole.take());
            noticed = false;
            if self.stamp.verifies(&header, payload) {
                walked.add(&header, payload);
                walked.used = round_up(at + header.record_bytes() as u64, self.layout.align);
            } else {
                walked.damaged.insert(at);
            }
            at = round_up(at + header.record_bytes() as u64, self.layout.unit);
        }
        walked
    }

    /// Whether the record of this place was here, though it does not verify: its place is in its place, or all of it but
    /// one bit. A sound record of another lap or opening is none.
    fn was_record(&self, bytes: &[u8], place: Place) -> bool {
        if bytes.iter().take(HEADER_BYTES).all(|&byte| byte == 0) {
            return false;
        }
        let found = bytes.get(16..24).and_then(|mut field| take_u64(&mut field));
        let near = found.filter(|found| (found ^ place.0).count_ones() <= 1);
        near.is_some_and(|found| self.stamp.header(bytes, Place(found)).is_none())
    }
}

/// Something was written here, and is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Walked {
    fn add(&mut self, header: &Header, payload: &[u8]) {
        self.records.push(header.place);
        if header.kind != Kind::Extent {
            let (id_low, place, kind, number) = (header.id.low(), header.place, header.kind, header.number);
            // What it is related to was known to the process that wrote it.
            self.entries.push(SummaryEntry { id_low, place, kind, reach: Reach::default(), number });
        }
        if header.kind == Kind::Large {
            let body = payload.get(header.name_bytes + header.head_bytes..).unwrap_or_default();
            self.bodies.push((header.place, Table::places(body).into_iter().map(inside).collect()));
        }
    }

    /// Forget the large objects of whose bodies a part is `lost`.
    pub fn forget_bodiless(&mut self, lost: impl Fn(Place) -> bool) {
        let bodies = self.bodies.iter().filter(|(_, extents)| extents.iter().copied().any(&lost));
        let bodiless: BTreeSet<_> = bodies.map(|(place, _)| *place).collect();
        self.entries.retain(|entry| !bodiless.contains(&entry.place));
    }
}
