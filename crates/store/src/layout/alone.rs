//! What one region holds, found without the others: in a disk whose regions several logs share, nothing follows from where a
//! region lies.

use super::region::{Footer, SummaryEntry};
use super::scan::{Scan, Unreadable};
use super::take::take_u64;
use super::walk::Walked;
use crate::terms::Place;

/// What a region holds.
#[derive(Debug)]
pub struct Alone {
    /// Where it was begun.
    pub region: Place,
    /// Bytes of it that hold records.
    pub used: u64,
    /// Records that an index needs; none are read of a region that is known.
    pub entries: Vec<SummaryEntry>,
    /// What was found in it, if it has no summary.
    pub walked: Option<Walked>,
    /// Whatever it held has left.
    pub is_void: bool,
}

impl Scan<'_> {
    /// What lies in the region of this number; `None` if that is nothing. Of a region that `is_known` its entries are not
    /// read. Two small reads, a third where the summary is longer than a block, and the whole of a region without one.
    /// Errors: its beginning cannot be read, and it has no end; or what lies between them cannot.
    pub fn alone(&self, number: usize, is_known: impl Fn(Place) -> bool) -> Result<Option<Alone>, Unreadable> {
        let (footer, begun) = (self.footer(number), self.begun(number));
        let (end, beginning) = (footer.ok().flatten(), begun.ok().flatten());
        let sealed = end.filter(|footer| beginning.is_none_or(|begun| begun <= footer.region));
        if let Some(footer) = sealed.filter(Footer::is_void) {
            return Ok(Some(Alone {
                region: footer.region,
                used: 0,
                entries: Vec::new(),
                walked: None,
                is_void: true,
            }));
        }
        if let Some(footer) = sealed {
            let entries = if is_known(footer.region) { Some(Vec::new()) } else { self.entries(&footer) };
            if let Some(entries) = entries {
                let (region, used) = (footer.region, footer.used);
                return Ok(Some(Alone { region, used, entries, walked: None, is_void: false }));
            }
        }
        let Some(region) = beginning.or(sealed.map(|footer| footer.region)) else {
            // Where a first record would be is nothing, or it cannot be known.
            return begun.map(|_| None);
        };
        let walked = self.walk(region)?;
        Ok(walked.map(|walked| Alone {
            region,
            used: walked.used,
            entries: walked.entries.clone(),
            walked: Some(walked),
            is_void: false,
        }))
    }

    /// The place at which the region of this number was begun, as its first record has it.
    fn begun(&self, number: usize) -> Result<Option<Place>, Unreadable> {
        let at = self.layout.base + number as u64 * self.layout.region_bytes;
        let first = self.read(at, self.device.geometry().block_bytes)?;
        let place = first.get(16..24).and_then(|mut field| take_u64(&mut field)).map(Place);
        let fits = |place: &Place| {
            place.0.is_multiple_of(self.layout.region_bytes)
                && self.layout.region_number(*place) == number
                && self.stamp.header(&first, *place).is_some()
        };
        Ok(place.filter(fits))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::sync::Arc;

    use super::*;
    use crate::device::{Device, Medium, Memory};
    use crate::layout::frontier::Begin;
    use crate::layout::{Frontier, LogLayout, Stamp};
    use crate::terms::{Digest, Kind, Record};
    use crate::wait::block_on;

    #[test]
    fn of_a_region_that_was_left_nothing_counts_until_it_is_begun_anew() {
        let device: Arc<dyn Device> = Arc::new(Memory::over(&Medium::zeroed(4 << 20)));
        let layout = LogLayout { is_numbered: true, ..LogLayout::new(4096, 2 << 20, 4096).unwrap() };
        let stamp = Stamp { seed: 7 };
        let first = Place(layout.log_bytes());
        let fill = |at: Place, records: u64| {
            let begin = Begin { at, logs: 1, number: 1 };
            let frontier = Frontier::start(device.clone(), layout, stamp, begin, None, None).unwrap();
            let body = vec![7; layout.region_bytes as usize / 16];
            for n in 0..records {
                let id = Digest([n as u8 + 1; 16]);
                let record = Record { id, kind: Kind::Whole, name: b"a", head: &[], body: &body, related_bytes: 0 };
                block_on(poll_fn(|cx| frontier.poll_append(cx, &record))).unwrap();
            }
            let (tell, told) = std::sync::mpsc::channel();
            frontier.close(Box::new(move |result| tell.send(result).unwrap()));
            told.recv().unwrap().unwrap();
        };
        fill(first, 20);
        let scan = Scan { device: &*device, layout, stamp, damaged: RefCell::default() };
        let alone = || scan.alone(0, |_| false).unwrap().unwrap();
        assert_eq!((alone().region, alone().is_void), (first, false));
        assert!(alone().entries.len() > 3);
        scan.void(first).unwrap();
        assert_eq!((alone().region, alone().is_void, alone().entries.len()), (first, true, 0));
        assert!(scan.alone(0, |_| true).unwrap().unwrap().is_void, "whatever a snapshot knows of it");
        // Begun anew, a lap later: what is said at its end is said of the region before.
        let again = Place(first.0 + layout.log_bytes());
        fill(again, 3);
        assert_eq!((alone().region, alone().is_void, alone().entries.len()), (again, false, 3));
        assert!(scan.damaged.borrow().is_empty());
    }
}
