//! A disk in memory that takes little of it: blocks that were never written take none, and a run of one byte takes two.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use tinaja_store::Clock;
use tinaja_store::device::{Counters, Device, Geometry, Op, Outcome, Request};

const BLOCK: usize = 4096;
/// What runs are measured in: bytes that are compared at once.
const WORD: usize = 16;
/// Set in the length of a run of one byte.
const SAME: u16 = 1 << 15;

/// A disk of any size. Requests end at once, on the thread that submits them. Memory: some 40 bytes for each block
/// written, and what of it is not one byte over and over; the laboratory's bodies are.
pub struct Sparse {
    geometry: Geometry,
    blocks: Mutex<HashMap<u64, Box<[u8]>>>,
    stopped: AtomicBool,
}

impl Sparse {
    /// A disk of so many zero bytes, in blocks of 4 KiB.
    pub fn new(bytes: u64) -> Self {
        let geometry = Geometry { bytes, block_bytes: BLOCK as u64, direct: false };
        Sparse { geometry, blocks: Mutex::default(), stopped: AtomicBool::new(false) }
    }

    /// As if its power was cut: it takes nothing any more, and what was written to it is on the disk that is returned.
    pub fn cut(&self) -> Self {
        self.stopped.store(true, SeqCst);
        let blocks = std::mem::take(&mut *self.blocks.lock());
        Sparse { geometry: self.geometry, blocks: Mutex::new(blocks), stopped: AtomicBool::new(false) }
    }

    fn check(&self, at: u64, len: usize) -> io::Result<()> {
        let block = BLOCK as u64;
        if !at.is_multiple_of(block) || !(len as u64).is_multiple_of(block) {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{len} bytes at {at} are not whole blocks")));
        }
        match at.checked_add(len as u64) {
            Some(end) if end <= self.geometry.bytes => Ok(()),
            _ => Err(io::Error::new(ErrorKind::UnexpectedEof, format!("the device ends before {len} bytes at {at}"))),
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.check(at, into.len())?;
        let blocks = self.blocks.lock();
        for (number, part) in (at / BLOCK as u64..).zip(into.chunks_mut(BLOCK)) {
            match blocks.get(&number) {
                Some(packed) => unpack(packed, part),
                None => part.fill(0),
            }
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
        self.check(at, from.len())?;
        let packed: Vec<_> = from.chunks(BLOCK).map(pack).collect();
        self.blocks.lock().extend((at / BLOCK as u64..).zip(packed));
        Ok(())
    }
}

/// Runs of words: two bytes for how many words, and then the one byte that they consist of, or all of them.
fn pack(block: &[u8]) -> Box<[u8]> {
    let mut packed = Vec::with_capacity(64);
    let mut words = block.chunks(WORD).map(|word| (word, same(word))).peekable();
    while let Some((word, byte)) = words.next() {
        let start = packed.len();
        let mut count = 1_u16;
        packed.extend_from_slice(&[0, 0]);
        match byte {
            Some(byte) => {
                packed.push(byte);
                while words.next_if(|(_, other)| *other == Some(byte)).is_some() {
                    count += 1;
                }
                count |= SAME;
            }
            None => {
                packed.extend_from_slice(word);
                while let Some((word, _)) = words.next_if(|(_, other)| other.is_none()) {
                    packed.extend_from_slice(word);
                    count += 1;
                }
            }
        }
        if let Some(to) = packed.get_mut(start..start + 2) {
            to.copy_from_slice(&count.to_le_bytes());
        }
    }
    packed.into()
}

/// The byte that a word consists of.
fn same(word: &[u8]) -> Option<u8> {
    let first = *word.first()?;
    let word = u128::from_le_bytes(word.try_into().ok()?);
    (word == u128::from_le_bytes([first; WORD])).then_some(first)
}

fn unpack(mut packed: &[u8], mut block: &mut [u8]) {
    while let Some((head, rest)) = packed.split_first_chunk::<2>() {
        let count = u16::from_le_bytes(*head);
        let bytes = (usize::from(count & !SAME) * WORD).min(block.len());
        let (part, behind) = block.split_at_mut(bytes);
        let taken = if count & SAME != 0 {
            part.fill(rest.first().copied().unwrap_or_default());
            1
        } else {
            part.copy_from_slice(rest.get(..bytes).unwrap_or(&[0; BLOCK]).get(..bytes).unwrap_or_default());
            bytes
        };
        packed = rest.get(taken..).unwrap_or_default();
        block = behind;
    }
}

impl Device for Sparse {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn clock(&self) -> &Clock {
        static SYSTEM: Clock = Clock::system();
        &SYSTEM
    }

    fn submit(&self, op: Op) {
        if self.stopped.load(SeqCst) {
            return op.fail(io::Error::other("the device was stopped"));
        }
        let outcome = match op.request {
            Request::Read { at, mut into } => {
                let result = self.read(at, &mut into);
                Outcome { buffer: Some(into), result }
            }
            Request::Write { at, from, part } => {
                Outcome { buffer: None, result: self.write(at, from.get(part).unwrap_or_default()) }
            }
            Request::Sync => Outcome { buffer: None, result: Ok(()) },
        };
        (op.done)(outcome);
    }

    /// Nothing: what goes through is counted by the wrapper above.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn stop(&self) {
        self.stopped.store(true, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Blocks of runs, of noise, and of both, against a plain array.
    #[test]
    fn what_is_read_is_what_was_written() {
        let (disk, mut random) = (Sparse::new(64 * BLOCK as u64), Random::new(11));
        let mut model = vec![0_u8; 64 * BLOCK];
        for _ in 0..400 {
            let (at, blocks) = (random.below(60) as usize, 1 + random.below(4) as usize);
            let mut bytes = vec![random.bits() as u8; blocks * BLOCK];
            for _ in 0..random.below(6) {
                let from = random.below(bytes.len() as u64) as usize;
                let len = random.below((bytes.len() - from) as u64 + 1) as usize;
                let noise = random.chance(0.5);
                let byte = random.bits() as u8;
                bytes[from..from + len].iter_mut().for_each(|to| *to = if noise { random.bits() as u8 } else { byte });
            }
            disk.write((at * BLOCK) as u64, &bytes).unwrap();
            model[at * BLOCK..][..bytes.len()].copy_from_slice(&bytes);
            let (from, blocks) = (random.below(60) as usize, 1 + random.below(4) as usize);
            let mut read = vec![1; blocks * BLOCK];
            disk.read((from * BLOCK) as u64, &mut read).unwrap();
            assert!(read == model[from * BLOCK..][..read.len()]);
        }
    }

    #[test]
    fn what_was_written_before_a_power_cut_is_there_and_nothing_that_came_after_it() {
        let disk = Sparse::new(2 * BLOCK as u64);
        disk.write(0, &[7; BLOCK]).unwrap();
        let after = disk.cut();
        let (tell, told) = std::sync::mpsc::channel();
        let from = std::sync::Arc::new(tinaja_store::AlignedBuf::zeroed(BLOCK));
        let request = Request::Write { at: 0, from, part: 0..BLOCK };
        disk.submit(Op { request, done: Box::new(move |outcome| tell.send(outcome.result.is_err()).unwrap()) });
        let mut read = [1; BLOCK];
        after.read(0, &mut read).unwrap();
        assert!(told.recv().unwrap() && read == [7; BLOCK]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let disk = Sparse::new(2 * BLOCK as u64);
        assert!(disk.write(100, &[0; BLOCK]).is_err());
        assert!(disk.write(2 * BLOCK as u64, &[0; BLOCK]).is_err());
        assert!(disk.read(u64::MAX - 4095, &mut [0; BLOCK]).is_err());
        assert!(pack(&[7; BLOCK]).len() == 3);
    }
}
