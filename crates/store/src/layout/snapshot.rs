//! Snapshots of an index: checksummed pages in two areas, written in turn, so that one is always whole.
//!
//! ```text
//! area:    page 0 | page 1 | ... | header block (4 KiB)
//! page:    [32] stamp: u32 magic "TjI1", u32 page, u64 snapshot number, u64 checksum of the content, u64 of the stamp
//!          content, zeroes up to a multiple of 4 KiB
//! header:  u32 magic "TjI0", u32 pages, u64 snapshot number, u64 place up to which the log is covered, u64 checksum,
//!          u64 epoch, u64 checksum of all before it
//! ```
//!
//! A snapshot may be taken while the index changes (it is *fuzzy*): whoever loads it drops what lies at or past its
//! place, and replays the log from there. The header is written when all pages are durable, and all records they speak
//! of. The number is part of
//! every checksum, so a half-written snapshot over an older one never verifies.
//!
//! The epoch has a checksum of its own: where that is wrong the snapshot is sound, and of no epoch. So it is where a release
//! wrote it that knows of none, and leaves zeroes there.

use std::io;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::record::Stamp;
use super::take::{take_u32, take_u64};
use super::walk::Damaged;
use crate::device::{Device, blocking};
use crate::memory::AlignedBuf;
use crate::memory::aligned::round_up;
use crate::terms::Place;

const PAGE_MAGIC: u32 = u32::from_le_bytes(*b"TjI1");
const HEADER_MAGIC: u32 = u32::from_le_bytes(*b"TjI0");
const STAMP_BYTES: usize = 32;
const STAMP_CHECKED_BYTES: usize = 24;
const HEADER_BLOCK_BYTES: u64 = 4096;
const HEADER_CHECKED_BYTES: usize = 24;
/// Where the epoch stands, and bytes of what its checksum is of.
const EPOCH_AT: usize = 32;
const EPOCH_CHECKED_BYTES: usize = EPOCH_AT + 8;
/// Bytes of pages that are read or written together: on a spinning disk each request between others is a seek.
const RUN_BYTES: u64 = 1 << 20;

/// Where the two areas lie. Fixed when the store is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLayout {
    /// Where on the device the first area begins.
    pub base: u64,
    /// Bytes of content in every page; shorter content is padded with zeroes.
    pub page_content_bytes: u64,
    /// Pages of a snapshot.
    pub pages: u64,
}

impl SnapshotLayout {
    /// Bytes of one page on disk.
    pub fn page_bytes(&self) -> u64 {
        round_up(self.page_content_bytes + STAMP_BYTES as u64, HEADER_BLOCK_BYTES)
    }

    /// Bytes of one area on disk.
    pub fn area_bytes(&self) -> u64 {
        self.pages * self.page_bytes() + HEADER_BLOCK_BYTES
    }

    fn area(&self, number: u64) -> u64 {
        self.base + number % 2 * self.area_bytes()
    }

    /// Where on the device a page of the snapshot of this number lies.
    pub fn page_at(&self, snapshot: u64, page: u64) -> u64 {
        self.area(snapshot) + page * self.page_bytes()
    }

    /// What a page holds that was read from there; `None` if it is not as it was written for this snapshot.
    pub fn content<'a>(&self, stamp: Stamp, snapshot: u64, page: u64, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (stamped, content) = bytes.split_at_checked(STAMP_BYTES)?;
        let content = content.get(..self.page_content_bytes as usize)?;
        (stamped == page_stamp(stamp, snapshot, page, content)).then_some(content)
    }

    fn header_at(&self, number: u64) -> u64 {
        self.area(number) + self.pages * self.page_bytes()
    }

    /// Pages of a run that begins with this one.
    fn run(&self, first: u64) -> u64 {
        (RUN_BYTES / self.page_bytes()).clamp(1, self.pages.saturating_sub(first).max(1))
    }
}

/// Pages that were read together, from the first to behind the last; without bytes if they could not be. Memory: 1 MiB, or one page.
#[derive(Default)]
pub struct Run(Range<u64>, Option<AlignedBuf>);

fn page_stamp(stamp: Stamp, snapshot: u64, page: u64, content: &[u8]) -> [u8; STAMP_BYTES] {
    let mut bytes = Vec::with_capacity(STAMP_BYTES);
    bytes.extend_from_slice(&PAGE_MAGIC.to_le_bytes());
    bytes.extend_from_slice(&(page as u32).to_le_bytes());
    bytes.extend_from_slice(&snapshot.to_le_bytes());
    bytes.extend_from_slice(&xxh3_64_with_seed(content, stamp.seed).to_le_bytes());
    debug_assert_eq!(bytes.len(), STAMP_CHECKED_BYTES);
    bytes.extend_from_slice(&xxh3_64_with_seed(&bytes, stamp.seed).to_le_bytes());
    bytes.try_into().unwrap_or([0; STAMP_BYTES])
}

/// A whole snapshot's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// Snapshots are numbered from 1; the later has the higher number.
    pub number: u64,
    /// Everything in the log before this place is covered.
    pub up_to: Place,
    /// What was forgotten before this epoch began is not in it; 0 for none.
    pub epoch: u64,
}

/// The two areas on a device.
pub struct Snapshots<'a> {
    /// Where they are.
    pub device: &'a dyn Device,
    /// How they are cut.
    pub layout: SnapshotLayout,
    /// Seeds the checksums.
    pub stamp: Stamp,
}

impl Snapshots<'_> {
    /// Write a snapshot: `page` gives the content of each. `settle` makes last all that was written so far, and first
    /// what the pages speak of: without that, they would lead to records that a cut of the power took. Memory: 1 MiB, or one page.
    /// Errors: the device's; the other area is then as it was.
    pub fn write(
        &self,
        header: SnapshotHeader,
        mut page: impl FnMut(u64) -> Vec<u8>,
        settle: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let page_bytes = self.layout.page_bytes() as usize;
        let mut first = 0;
        while first < self.layout.pages {
            let pages = self.layout.run(first);
            let mut run = AlignedBuf::with_own_pages(pages as usize * page_bytes);
            for (number, stamped) in (first..).zip(run.chunks_exact_mut(page_bytes)) {
                let mut content = page(number);
                content.resize(self.layout.page_content_bytes as usize, 0);
                let stamp = page_stamp(self.stamp, header.number, number, &content);
                if let Some((to_stamp, rest)) = stamped.split_first_chunk_mut()
                    && let Some((to_content, _)) = rest.split_at_mut_checked(content.len())
                {
                    *to_stamp = stamp;
                    to_content.copy_from_slice(&content);
                }
            }
            blocking::write(self.device, self.layout.page_at(header.number, first), run)?;
            first += pages;
        }
        settle()?;
        self.write_header(header)?;
        settle()
    }

    /// Write a header alone: for a snapshot without pages, or one that is to make those before it void. It lasts after
    /// the next sync. Errors: the device's.
    pub fn write_header(&self, header: SnapshotHeader) -> io::Result<()> {
        let mut block = AlignedBuf::zeroed(HEADER_BLOCK_BYTES as usize);
        for (to, from) in block.iter_mut().zip(self.header_bytes(header)) {
            *to = from;
        }
        blocking::write(self.device, self.layout.header_at(header.number), block)
    }

    /// Make the snapshot void that the area of this number holds, if it holds one. That lasts after the next sync. Errors: the
    /// device's.
    pub fn void(&self, area: u64) -> io::Result<()> {
        blocking::write(self.device, self.layout.header_at(area), AlignedBuf::zeroed(HEADER_BLOCK_BYTES as usize))
    }

    /// Headers of the snapshots that may be whole, newest first, and how many headers are damaged.
    pub fn headers(&self) -> (Vec<SnapshotHeader>, u64) {
        let read = [0, 1].map(|area| self.header(area));
        let damaged = read.iter().filter(|header| **header == Err(Damaged)).count();
        let mut headers: Vec<_> = read.into_iter().filter_map(Result::ok).flatten().collect();
        headers.sort_by_key(|header| std::cmp::Reverse(header.number));
        (headers, damaged as u64)
    }

    /// Read every page of a snapshot into `page`; false if one is not as it was written.
    pub fn read(&self, header: SnapshotHeader, mut page: impl FnMut(u64, &[u8])) -> bool {
        let mut run = Run::default();
        (0..self.layout.pages).all(|number| {
            self.page_of_run(&mut run, header.number, number).map(|content| page(number, &content)).is_some()
        })
    }

    /// Read one page of the snapshot of this number with those behind it, which are asked for next, or from those that were read so. If
    /// that failed, each of them alone: a part of the disk may be bad, or have failed for a moment. `None` if it is not as it was written.
    pub fn page_of_run(&self, run: &mut Run, snapshot: u64, page: u64) -> Option<Vec<u8>> {
        let page_bytes = self.layout.page_bytes();
        if !run.0.contains(&page) {
            let pages = self.layout.run(page);
            let into = AlignedBuf::with_own_pages((pages * page_bytes) as usize);
            let bytes = blocking::read_into(self.device, self.layout.page_at(snapshot, page), into);
            *run = Run(page..page + pages, bytes.ok());
        }
        let in_run = || {
            let from = (page.checked_sub(run.0.start)? * page_bytes) as usize;
            let bytes = run.1.as_ref()?.get(from..from.checked_add(page_bytes as usize)?)?;
            Some(self.layout.content(self.stamp, snapshot, page, bytes)?.to_vec())
        };
        in_run().or_else(|| (0..2).find_map(|_| self.page(snapshot, page)))
    }

    /// Read one page of the snapshot of this number, and wait for it; `None` if it is not as it was written.
    pub fn page(&self, snapshot: u64, page: u64) -> Option<Vec<u8>> {
        let bytes = blocking::read(self.device, self.layout.page_at(snapshot, page), self.layout.page_bytes() as usize);
        Some(self.layout.content(self.stamp, snapshot, page, &bytes.ok()?)?.to_vec())
    }

    fn header_bytes(&self, header: SnapshotHeader) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&HEADER_MAGIC.to_le_bytes());
        bytes.extend_from_slice(&(self.layout.pages as u32).to_le_bytes());
        bytes.extend_from_slice(&header.number.to_le_bytes());
        bytes.extend_from_slice(&header.up_to.0.to_le_bytes());
        bytes.extend_from_slice(&xxh3_64_with_seed(&bytes, self.stamp.seed).to_le_bytes());
        debug_assert_eq!(bytes.len(), EPOCH_AT);
        if header.epoch > 0 {
            bytes.extend_from_slice(&header.epoch.to_le_bytes());
            bytes.extend_from_slice(&xxh3_64_with_seed(&bytes, self.stamp.seed).to_le_bytes());
        }
        bytes
    }

    fn header(&self, area: u64) -> Result<Option<SnapshotHeader>, Damaged> {
        let block = blocking::read(self.device, self.layout.header_at(area), HEADER_BLOCK_BYTES as usize);
        let Ok(block) = block else { return Ok(None) };
        match self.sound_header(area, &block) {
            Some(header) => Ok(Some(header)),
            // The magic is there, or all of it but one bit.
            None if take_u32(&mut &block[..]).is_some_and(|magic| (magic ^ HEADER_MAGIC).count_ones() <= 1) => {
                Err(Damaged)
            }
            None => Ok(None),
        }
    }

    fn sound_header(&self, area: u64, block: &[u8]) -> Option<SnapshotHeader> {
        let (checked, mut rest) = block.split_at_checked(HEADER_CHECKED_BYTES)?;
        let sum = take_u64(&mut rest)?;
        let mut fields = checked;
        let magic = take_u32(&mut fields)?;
        let pages = take_u32(&mut fields)?;
        let (number, up_to) = (take_u64(&mut fields)?, Place(take_u64(&mut fields)?));
        let header = SnapshotHeader { number, up_to, epoch: self.epoch(block).unwrap_or(0) };
        let right = magic == HEADER_MAGIC
            && u64::from(pages) == self.layout.pages
            && header.number < u64::MAX
            && header.up_to.0 < super::region::PLACES
            && header.number % 2 == area
            && sum == xxh3_64_with_seed(checked, self.stamp.seed);
        right.then_some(header)
    }

    fn epoch(&self, block: &[u8]) -> Option<u64> {
        let (checked, mut sum) = block.split_at_checked(EPOCH_CHECKED_BYTES)?;
        let epoch = take_u64(&mut checked.get(EPOCH_AT..)?)?;
        (take_u64(&mut sum)? == xxh3_64_with_seed(checked, self.stamp.seed)).then_some(epoch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::device::wrap::{Fault, Faulty};
    use crate::device::{Medium, Memory, Request};

    /// The run over a bad sector fails, and its other pages are read alone. Each of those began a run over the sector once more, which on a
    /// spinning disk takes seconds each time.
    #[test]
    fn a_bad_sector_is_run_into_once() {
        let layout = SnapshotLayout { base: 4096, page_content_bytes: 4048, pages: 600 };
        let medium = Medium::zeroed((4096 + 2 * layout.area_bytes()) as usize);
        let (stamp, header) = (Stamp { seed: 7 }, SnapshotHeader { number: 2, up_to: Place(1), epoch: 0 });
        let content = |page: u64| vec![page as u8; 4048];
        let sound = Memory::over(&medium);
        Snapshots { device: &sound, layout, stamp }.write(header, content, || Ok(())).unwrap();
        assert_eq!(sound.counters().writes, 3 + 1, "runs of 1 MiB, and the header");

        let (bad, requests) = (layout.page_at(2, 300), Arc::new(AtomicU64::new(0)));
        let counted = requests.clone();
        let faults = move |_, request: &Request| {
            counted.fetch_add(1, Relaxed);
            let is_over = request.extent().is_some_and(|(at, bytes)| (at..at + bytes).contains(&bad));
            is_over.then_some(Fault::Error)
        };
        let device = Faulty::new(Arc::new(Memory::over(&medium)), faults);
        let (snapshots, mut run) = (Snapshots { device: &device, layout, stamp }, Run::default());
        for page in 0..600 {
            let expected = (page != 300).then(|| content(page));
            assert_eq!(snapshots.page_of_run(&mut run, 2, page), expected, "page {page}");
        }
        // Three runs, 255 pages alone, and the bad one twice.
        assert_eq!(requests.load(Relaxed), 3 + 255 + 2);
    }
}
