//! A device in memory, for tests and for the laboratory: its bytes outlive it, as a platter outlives the power.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use tinaja_clock::Clock;

use super::tally::Tally;
use super::{Counters, Device, Geometry, Op, Outcome, Request};

/// Small enough that a record copies little of a shared medium, large enough that a copy of the medium is quick.
const PAGE_BYTES: usize = 16 << 10;

/// A block: what a power cut leaves whole.
const BLOCK_BYTES: usize = 512;

/// The bytes under a [`Memory`]. A clone is the same medium; [`Medium::copy`] is another with the same bytes.
///
/// Pages are shared until one of the media writes to them, so a copy costs a pointer for every 16 KiB. A test that looks at
/// tens of thousands of states of one disk spends its time on the states, not on copying the disk.
#[derive(Clone, Default)]
pub struct Medium(Arc<Mutex<Pages>>);

#[derive(Clone, Default)]
struct Pages {
    /// All of them whole but the last.
    pages: Vec<Arc<[u8]>>,
    len: usize,
}

impl Pages {
    /// What `range` is made of: for each page its number, the bytes of it, and where they lie in the range.
    fn parts(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        let first = range.start / PAGE_BYTES;
        (first..range.end.div_ceil(PAGE_BYTES)).map(move |page| {
            let start = range.start.max(page * PAGE_BYTES);
            let end = range.end.min((page + 1) * PAGE_BYTES);
            let within = start - page * PAGE_BYTES..end - page * PAGE_BYTES;
            (page, within, start - range.start..end - range.start)
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len);
        self.pages.iter().for_each(|page| all.extend_from_slice(page));
        all
    }

    /// `None` if the medium ends before.
    fn read(&self, at: usize, into: &mut [u8]) -> Option<()> {
        let range = at..at.checked_add(into.len()).filter(|end| *end <= self.len)?;
        for (page, within, of) in Pages::parts(range) {
            into.get_mut(of)?.copy_from_slice(self.pages.get(page)?.get(within)?);
        }
        Some(())
    }

    /// `None` if the medium ends before: nothing is written then.
    fn write(&mut self, at: usize, from: &[u8]) -> Option<()> {
        let range = at..at.checked_add(from.len()).filter(|end| *end <= self.len)?;
        for (page, within, of) in Pages::parts(range) {
            Arc::make_mut(self.pages.get_mut(page)?).get_mut(within)?.copy_from_slice(from.get(of)?);
        }
        Some(())
    }
}

impl Medium {
    /// A medium of so many zero bytes. It takes memory only for what is written to.
    pub fn zeroed(bytes: usize) -> Self {
        let zeros: Arc<[u8]> = vec![0; PAGE_BYTES].into();
        let mut pages = vec![zeros; bytes / PAGE_BYTES];
        if !bytes.is_multiple_of(PAGE_BYTES) {
            pages.push(vec![0; bytes % PAGE_BYTES].into());
        }
        Medium(Arc::new(Mutex::new(Pages { pages, len: bytes })))
    }

    /// Another medium that holds the same bytes now.
    pub fn copy(&self) -> Self {
        Medium(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// Another medium that holds the same bytes, with these writes over them as far as their blocks of 512 bytes survive a power cut:
    /// `survives` is given the number of a write, and that of a block in it. A write beyond the end is none.
    pub fn after(&self, writes: &[(u64, Vec<u8>)], survives: impl Fn(usize, usize) -> bool) -> Self {
        let medium = self.copy();
        for (write, (at, new)) in writes.iter().enumerate() {
            for (block, bytes) in new.chunks(BLOCK_BYTES).enumerate().filter(|(block, _)| survives(write, *block)) {
                medium.write(*at as usize + block * BLOCK_BYTES, bytes);
            }
        }
        medium
    }

    /// How many bytes it holds.
    pub fn size(&self) -> usize {
        self.0.lock().len
    }

    /// The bytes it holds now.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().bytes()
    }

    /// Look at all bytes in one piece or change them, while no request can. It copies the whole medium twice.
    pub fn with<T>(&self, act: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut held = self.0.lock();
        let mut bytes = held.bytes();
        let result = act(&mut bytes);
        *held = Pages::from(&bytes[..]);
        result
    }

    /// Read from `at`; `false`, and nothing is read, if the medium ends before.
    pub fn read(&self, at: usize, into: &mut [u8]) -> bool {
        self.0.lock().read(at, into).is_some()
    }

    /// Write from `at` on; `false`, and nothing is written, if the medium ends before.
    pub fn write(&self, at: usize, from: &[u8]) -> bool {
        self.0.lock().write(at, from).is_some()
    }
}

impl From<&[u8]> for Pages {
    fn from(bytes: &[u8]) -> Self {
        Pages { pages: bytes.chunks(PAGE_BYTES).map(Arc::from).collect(), len: bytes.len() }
    }
}

impl From<Vec<u8>> for Medium {
    fn from(bytes: Vec<u8>) -> Self {
        Medium(Arc::new(Mutex::new(Pages::from(&bytes[..]))))
    }
}

/// A device over a [`Medium`]. Requests end at once, on the thread that submits them, in the order of submission; what
/// is out of range or not on a block's edge fails as it does on a disk opened past the page cache.
pub struct Memory {
    medium: Medium,
    geometry: Geometry,
    tally: Tally,
    stopped: AtomicBool,
}

impl Memory {
    /// A device of the medium's size with blocks of 512 bytes.
    pub fn over(medium: &Medium) -> Self {
        Memory::by(Clock::system(), medium)
    }

    /// The same by a clock of the caller's.
    pub fn by(clock: Clock, medium: &Medium) -> Self {
        let bytes = medium.size() as u64;
        let geometry = Geometry { bytes, block_bytes: BLOCK_BYTES as u64, direct: false };
        Memory { medium: medium.clone(), geometry, tally: Tally::by(clock), stopped: AtomicBool::new(false) }
    }

    fn range(&self, at: u64, len: usize) -> io::Result<Range<usize>> {
        let block = self.geometry.block_bytes;
        if !at.is_multiple_of(block) || !(len as u64).is_multiple_of(block) {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{len} bytes at {at} are not whole blocks")));
        }
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        Ok(start..start.saturating_add(len))
    }

    fn carry_out(&self, request: Request) -> Outcome {
        let ends = |at| io::Error::new(ErrorKind::UnexpectedEof, format!("the device ends before offset {at}"));
        match request {
            Request::Read { at, mut into } => {
                let result = self.range(at, into.len()).and_then(|range| {
                    self.medium.read(range.start, &mut into).then_some(()).ok_or_else(|| ends(range.end))?;
                    self.tally.read(into.len());
                    Ok(())
                });
                Outcome { buffer: Some(into), result }
            }
            Request::Write { at, from, part } => {
                let new = from.get(part).unwrap_or_default();
                let result = self.range(at, new.len()).and_then(|range| {
                    self.medium.write(range.start, new).then_some(()).ok_or_else(|| ends(range.end))?;
                    self.tally.wrote(new.len());
                    Ok(())
                });
                Outcome { buffer: None, result }
            }
            Request::Sync => Outcome { buffer: None, result: Ok(()) },
        }
    }
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn clock(&self) -> &Clock {
        self.tally.clock()
    }

    fn submit(&self, op: Op) {
        if self.stopped.load(SeqCst) {
            return op.fail(io::Error::other("the device was stopped"));
        }
        let accepted = self.tally.accepted(&op.request);
        let outcome = self.carry_out(op.request);
        self.tally.ended(accepted);
        (op.done)(outcome);
    }

    fn counters(&self) -> Counters {
        self.tally.get()
    }

    fn stop(&self) {
        self.stopped.store(true, SeqCst);
    }
}
