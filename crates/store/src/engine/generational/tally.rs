//! What is known of each segment beside what the index leads to: the policy goes by it.

use parking_lot::Mutex;

use crate::layout::LogLayout;
use crate::replace::generations::{Log, Segment, Shape};
use crate::terms::Place;

/// What is known of one segment since it was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// One more than where it begins; 0 if nothing was written to it.
    pub home: u64,
    /// Whose it is.
    pub log: u8,
    /// The policy's time when it was begun.
    pub born: u64,
    /// Objects written to it.
    pub objects: u32,
    /// Bytes of records.
    pub bytes: u64,
    /// The highest number of those of its records that an index needs.
    pub last_number: u64,
}

/// All segments. Memory: 56 bytes each.
pub struct Tally {
    layout: LogLayout,
    known: Box<[Mutex<Known>]>,
}

/// A record that was appended.
pub struct Appended {
    pub log: u8,
    pub place: Place,
    pub bytes: u64,
    /// Its number, if an index needs it.
    pub entry: Option<u64>,
    /// Whether lookups find it.
    pub is_object: bool,
    /// The policy's time.
    pub now: u64,
}

impl Tally {
    /// Nothing is known.
    pub fn new(layout: LogLayout) -> Self {
        Tally { layout, known: (0..layout.regions).map(|_| Mutex::default()).collect() }
    }

    /// A record was appended.
    pub fn appended(&self, appended: &Appended) {
        let region = self.layout.region_of(appended.place);
        let Some(known) = self.known.get(self.layout.region_number(region)) else { return };
        let mut known = known.lock();
        if known.home != region.0 + 1 {
            *known = Known { home: region.0 + 1, log: appended.log, born: appended.now, ..Known::default() };
        }
        known.objects += u32::from(appended.is_object);
        known.bytes += appended.bytes;
        known.last_number = known.last_number.max(appended.entry.unwrap_or(0));
    }

    /// What is known of the segment of this number.
    pub fn known(&self, number: usize) -> Known {
        self.known.get(number).map(|known| *known.lock()).unwrap_or_default()
    }

    /// Bytes that the record at a place likely takes, without bits in an index: no more than its class allows, and seldom more than three times
    /// the mean of its segment. `None` where the segment does not say: heads of large objects lie among their parts.
    pub fn likely_bytes(&self, place: Place, shape: Shape) -> Option<u64> {
        let known = self.known(self.layout.region_number(place));
        let is_known = known.home == self.layout.region_of(place).0 + 1 && !shape.is_large(Log(known.log));
        let mean = known.bytes.checked_div(known.objects.into()).filter(|_| is_known)?;
        Some((mean * 3).min(shape.most_bytes(Log(known.log))))
    }

    /// What was known of it before.
    pub fn put(&self, number: usize, known: Known) {
        if let Some(at) = self.known.get(number) {
            *at.lock() = known;
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

impl Known {
    /// As the policy sees it, where the index leads to so many of its objects. They are taken to be of one size.
    pub fn segment(&self, live: u32) -> Segment {
        let live_bytes = match self.objects {
            // Parts of large objects, whose heads lie elsewhere.
            0 => self.bytes,
            objects => (u128::from(self.bytes) * u128::from(live.min(objects)) / u128::from(objects)) as u64,
        };
        Segment { log: Log(self.log), born: self.born, live, live_bytes }
    }
}
