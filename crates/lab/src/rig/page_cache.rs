//! The kernel's page cache in front of a device, as a model: small writes gather in it, and go out later.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tinaja_store::device::{Counters, Device, Geometry, Op, Outcome, Request};
use tinaja_store::memory::AlignedBuf;

use super::Clock;
use super::emmc::carry_out;

/// A page's bytes.
pub const PAGE: usize = 4096;

/// How a page cache works.
#[derive(Clone, Copy, Debug)]
pub struct PageCacheOptions {
    /// Pages are kept up to so many; those written and not yet out are not counted.
    pub clean_pages: usize,
    /// With more pages than this to be written, all go out at once.
    pub dirty_pages: usize,
    /// A page goes out this long after it was written first...
    pub expires: Duration,
    /// ...when the writer wakes next, which it does this often. Not 0; 0 is taken for a millisecond.
    pub wakes: Duration,
    /// Pages beside each other go out, and come in, in requests of up to so many.
    pub request_pages: usize,
}

impl PageCacheOptions {
    /// As on a phone of 1 GiB. Pages expire after 2 s and with 5 % of memory to be written all go out, as Android's public start-up settings have
    /// it; the writer wakes every 5 s and requests have up to 512 KiB, as the kernel has it by default. 64 MiB of pages for the cache
    /// are chosen.
    pub fn phone() -> Self {
        PageCacheOptions {
            clean_pages: (64 << 20) / PAGE,
            dirty_pages: (51 << 20) / PAGE,
            expires: Duration::from_secs(2),
            wakes: Duration::from_secs(5),
            request_pages: (512 << 10) / PAGE,
        }
    }
}

/// A page cache. What lies in it costs nothing to read, writes cost nothing until they go out, and nobody is slowed down who writes much: less
/// than a kernel asks. A part of a page that is not there is read before it is written. It waits for the device below, and so is for
/// the laboratory only. Memory: 4 KiB and some 100 bytes a page.
pub struct PageCache {
    below: Arc<dyn Device>,
    clock: Clock,
    options: PageCacheOptions,
    state: Arc<Mutex<PageCacheState>>,
}

#[derive(Default)]
struct PageCacheState {
    pages: HashMap<u64, Page>,
    /// Pages that may be forgotten, by when they were used last.
    clean: BTreeMap<u64, u64>,
    /// Pages to be written, by their number.
    dirty: BTreeMap<u64, Duration>,
    uses: u64,
    woke: Duration,
    failed: Option<String>,
}

struct Page {
    bytes: Box<[u8]>,
    used: u64,
    /// On its way to the device.
    leaving: bool,
}

impl PageCache {
    /// In front of a device, by a clock.
    pub fn new(below: Arc<dyn Device>, options: PageCacheOptions, clock: Clock) -> Self {
        PageCache { below, clock, options, state: Arc::default() }
    }

    /// Bytes from a place on. Errors: those of the device.
    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        for (page, within, part) in parts(at, into.len()) {
            self.load(page, pages(at, into.len()).end)?;
            let mut state = self.state.lock();
            let bytes = state.use_page(page).and_then(|page| page.bytes.get(within));
            match (bytes, into.get_mut(part)) {
                (Some(bytes), Some(into)) => into.copy_from_slice(bytes),
                _ => return Err(io::Error::other("a page was lost")),
            }
        }
        self.forget();
        Ok(())
    }

    /// Write bytes; of pages at `fresh` and beyond nothing is there that would have to be read first. Errors: those of the device.
    pub fn write(&self, at: u64, from: &[u8], fresh: u64) -> io::Result<()> {
        for (page, within, part) in parts(at, from.len()) {
            if within.len() < PAGE && page * (PAGE as u64) < fresh {
                self.load(page, page + 1)?;
            }
            let (mut state, now) = (self.state.lock(), self.clock.now());
            state.make(page, || vec![0; PAGE].into());
            state.dirty.entry(page).or_insert(now);
            let to = state.use_page(page).and_then(|page| page.bytes.get_mut(within));
            if let (Some(to), Some(from)) = (to, from.get(part)) {
                to.copy_from_slice(from);
            }
        }
        if self.state.lock().dirty.len() > self.options.dirty_pages {
            self.write_out(Duration::MAX);
        }
        self.forget();
        Ok(())
    }

    /// Let the writer work as often as it wakes until a time; the clock goes along.
    pub fn work_until(&self, time: Duration) {
        let step = self.options.wakes.max(Duration::from_millis(1));
        loop {
            let next = {
                let mut state = self.state.lock();
                // With nothing to be written it may as well sleep on.
                if state.dirty.is_empty() && time > state.woke + step {
                    let steps = (time - state.woke).as_nanos() / step.as_nanos();
                    state.woke += step.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
                }
                if state.woke + step > time {
                    break;
                }
                state.woke += step;
                state.woke
            };
            self.clock.reach(next);
            self.write_out(next.saturating_sub(self.options.expires));
        }
        self.clock.reach(time);
        self.forget();
    }

    /// Send out all pages that were written at a time or before. Errors: what failed since this was asked last.
    pub fn flush(&self) -> io::Result<()> {
        self.write_out(Duration::MAX);
        carry_out(&*self.below, Request::Sync)?;
        self.forget();
        self.state.lock().failed.take().map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    /// Send out what was written first no later than this, neighbours together.
    fn write_out(&self, written: Duration) {
        let runs = self.state.lock().take_runs(written, self.options.request_pages.max(1));
        for (first, from) in runs {
            let (state, len) = (self.state.clone(), from.len());
            let done = move |outcome: Outcome| state.lock().left(first..first + (len / PAGE) as u64, outcome.result);
            let request = Request::Write { at: first * PAGE as u64, from: Arc::new(from), part: 0..len };
            self.below.submit(Op { request, done: Box::new(done) });
        }
    }

    /// Bring in a page and those behind it that are not there either, up to `end`.
    fn load(&self, page: u64, end: u64) -> io::Result<()> {
        let missing = {
            let state = self.state.lock();
            let end = end.min(page + self.options.request_pages.max(1) as u64);
            (page..end).take_while(|page| !state.pages.contains_key(page)).count()
        };
        if missing == 0 {
            return Ok(());
        }
        let into = AlignedBuf::zeroed(missing * PAGE);
        let read = carry_out(&*self.below, Request::Read { at: page * PAGE as u64, into })?;
        let read = read.ok_or_else(|| io::Error::other("a read without its bytes"))?;
        let mut state = self.state.lock();
        for (number, bytes) in (page..).zip(read.chunks(PAGE)) {
            state.make(number, || bytes.into());
        }
        Ok(())
    }

    /// Forget the pages used longest ago, down to what is kept.
    fn forget(&self) {
        let mut state = self.state.lock();
        while state.clean.len() > self.options.clean_pages {
            let Some((_, page)) = state.clean.pop_first() else { return };
            state.pages.remove(&page);
        }
    }
}

impl PageCacheState {
    /// A page that is there now; it keeps what it had.
    fn make(&mut self, page: u64, bytes: impl FnOnce() -> Box<[u8]>) {
        // Uses are counted from 1.
        self.pages.entry(page).or_insert_with(|| Page { bytes: bytes(), used: 0, leaving: false });
        self.use_page(page);
    }

    fn use_page(&mut self, number: u64) -> Option<&mut Page> {
        let page = self.pages.get_mut(&number)?;
        self.uses += 1;
        self.clean.remove(&page.used);
        page.used = self.uses;
        if !page.leaving && !self.dirty.contains_key(&number) {
            self.clean.insert(self.uses, number);
        }
        Some(page)
    }

    /// Pages to be written, in runs of neighbours; those on their way already stay for the next time.
    fn take_runs(&mut self, written: Duration, most: usize) -> Vec<(u64, AlignedBuf)> {
        let due = self.dirty.iter().filter(|(_, since)| **since <= written).map(|(page, _)| *page);
        let due: Vec<u64> = due.filter(|page| self.pages.get(page).is_some_and(|page| !page.leaving)).collect();
        let mut runs: Vec<(u64, usize)> = Vec::new();
        for page in due {
            match runs.last_mut() {
                Some((first, count)) if *first + *count as u64 == page && *count < most => *count += 1,
                _ => runs.push((page, 1)),
            }
        }
        let mut filled = |(first, count): (u64, usize)| {
            let mut from = AlignedBuf::zeroed(count * PAGE);
            for (number, part) in (first..).zip(from.chunks_mut(PAGE)) {
                self.dirty.remove(&number);
                if let Some(page) = self.pages.get_mut(&number) {
                    page.leaving = true;
                    part.copy_from_slice(&page.bytes);
                    self.clean.remove(&page.used);
                }
            }
            (first, from)
        };
        runs.into_iter().map(&mut filled).collect()
    }

    /// Pages have arrived, or failed to: then that is said at the next flush.
    fn left(&mut self, pages: Range<u64>, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error.to_string());
        }
        for number in pages {
            if let Some(page) = self.pages.get_mut(&number) {
                page.leaving = false;
                if !self.dirty.contains_key(&number) {
                    self.clean.insert(page.used, number);
                }
            }
        }
    }
}

fn pages(at: u64, len: usize) -> Range<u64> {
    let page = PAGE as u64;
    at / page..(at + len as u64).div_ceil(page)
}

/// For each page of an extent: its number, which part of it, and which part of the extent that is.
fn parts(at: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let (page_bytes, end) = (PAGE as u64, at + len as u64);
    pages(at, len).filter(move |_| len > 0).map(move |page| {
        let (from, to) = (at.max(page * page_bytes), end.min((page + 1) * page_bytes));
        let within = (from - page * page_bytes) as usize..(to - page * page_bytes) as usize;
        (page, within, (from - at) as usize..(to - at) as usize)
    })
}

impl Device for PageCache {
    fn geometry(&self) -> Geometry {
        Geometry { direct: false, ..self.below.geometry() }
    }

    fn clock(&self) -> &tinaja_store::Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        let outcome = match op.request {
            Request::Read { at, mut into } => {
                let result = self.read(at, &mut into);
                Outcome { buffer: Some(into), result }
            }
            Request::Write { at, from, part } => {
                Outcome { buffer: None, result: self.write(at, from.get(part).unwrap_or_default(), 0) }
            }
            Request::Sync => Outcome { buffer: None, result: self.flush() },
        };
        (op.done)(outcome);
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.below.stop();
    }
}

#[cfg(test)]
#[path = "page_cache_tests.rs"]
mod tests;
