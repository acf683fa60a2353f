//! A device in memory, for tests and for the laboratory: its bytes outlive it, as a platter outlives the power.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use tinaja_clock::Clock;

use super::tally::Tally;
use super::{Counters, Device, Geometry, Op, Outcome, Request};

/// The bytes under a [`Memory`]. A clone is the same medium; [`Medium::copy`] is another with the same bytes.
#[derive(Clone, Default)]
pub struct Medium(Arc<Mutex<Vec<u8>>>);

impl Medium {
    /// A medium of so many zero bytes.
    pub fn zeroed(bytes: usize) -> Self {
        Medium::from(vec![0; bytes])
    }

    /// Another medium that holds the same bytes now.
    pub fn copy(&self) -> Self {
        Medium::from(self.bytes())
    }

    /// The bytes it holds now.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }

    /// Look at the bytes or change them, while no request can.
    pub fn with<T>(&self, act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl From<Vec<u8>> for Medium {
    fn from(bytes: Vec<u8>) -> Self {
        Medium(Arc::new(Mutex::new(bytes)))
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
        let bytes = medium.with(|bytes| bytes.len() as u64);
        let geometry = Geometry { bytes, block_bytes: 512, direct: false };
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
                let copied = self.range(at, into.len()).and_then(|range| {
                    self.medium.with(|bytes| {
                        into.copy_from_slice(bytes.get(range.clone()).ok_or_else(|| ends(range.end))?);
                        self.tally.read(into.len());
                        Ok(())
                    })
                });
                Outcome { buffer: Some(into), result: copied }
            }
            Request::Write { at, from, part } => {
                let new = from.get(part).unwrap_or_default();
                let result = self.range(at, new.len()).and_then(|range| {
                    self.medium.with(|bytes| {
                        bytes.get_mut(range.clone()).ok_or_else(|| ends(range.end))?.copy_from_slice(new);
                        self.tally.wrote(new.len());
                        Ok(())
                    })
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
