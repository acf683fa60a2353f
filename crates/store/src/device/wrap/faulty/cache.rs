//! The write cache of a disk: writes that were reported done and that a cut of the power would lose.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;

use super::{Done, Tear, copied};
use crate::device::{Device, Op, Outcome, Request};
use crate::memory::AlignedBuf;

/// A write not yet on the disk.
struct Held {
    number: u64,
    at: u64,
    bytes: Arc<AlignedBuf>,
}

impl Held {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes.len() as u64)
    }
}

#[derive(Default)]
struct WriteCacheState {
    held: VecDeque<Held>,
    next_number: u64,
}

/// What lies between the plan and the device below.
pub(super) struct WriteCache {
    below: Arc<dyn Device>,
    state: Mutex<WriteCacheState>,
    off: AtomicBool,
}

/// Called when the writes held back have reached the disk, or one has failed.
type WrittenOut = Box<dyn FnOnce(io::Result<()>) + Send>;

impl WriteCache {
    pub(super) fn over(below: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(WriteCache { below, state: Mutex::default(), off: AtomicBool::new(false) })
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().held.len()
    }

    pub(super) fn copies(&self) -> Vec<(u64, Vec<u8>)> {
        self.state.lock().held.iter().map(|held| (held.at, held.bytes.to_vec())).collect()
    }

    pub(super) fn is_off(&self) -> bool {
        self.off.load(SeqCst)
    }

    /// Report a write done and keep it here. What it overlaps goes out first: a disk keeps the order of one place.
    pub(super) fn hold(self: &Arc<Self>, at: u64, bytes: AlignedBuf, done: Done) {
        let cache = self.clone();
        self.clear(at, bytes.len() as u64, move |cleared| {
            if cleared.is_ok() && !cache.is_off() {
                let mut state = cache.state.lock();
                let number = state.next_number;
                state.next_number += 1;
                state.held.push_back(Held { number, at, bytes: Arc::new(bytes) });
            }
            done(Outcome { buffer: None, result: cleared });
        });
    }

    /// Carry out a request as a sound disk with a write cache does.
    pub(super) fn submit(self: &Arc<Self>, op: Op) {
        let Op { request, done } = op;
        let cache = self.clone();
        match request {
            Request::Read { at, into } => {
                let patched = move |mut outcome: Outcome| {
                    if let (Ok(()), Some(buffer)) = (&outcome.result, &mut outcome.buffer) {
                        cache.patch(at, buffer);
                    }
                    done(outcome);
                };
                self.below.submit(Op { request: Request::Read { at, into }, done: Box::new(patched) });
            }
            Request::Write { at, from, part } => self.clear(at, part.len() as u64, move |cleared| match cleared {
                Ok(()) => cache.below.submit(Op { request: Request::Write { at, from, part }, done }),
                result => done(Outcome { buffer: None, result }),
            }),
            Request::Sync => self.write_out(Box::new(move |written| match written {
                Ok(()) => cache.below.submit(Op { request: Request::Sync, done }),
                result => done(Outcome { buffer: None, result }),
            })),
        }
    }

    /// Write the blocks of `new` that the tear keeps over what is on the disk.
    pub(super) fn write_torn(self: &Arc<Self>, at: u64, new: &[u8], tear: Tear, done: Done) {
        let (new, cache) = (copied(new), self.clone());
        let into = AlignedBuf::zeroed(new.len());
        let merge = move |outcome: Outcome| match (outcome.result, outcome.buffer) {
            (Ok(()), Some(mut old)) => {
                cache.merge(&mut old, &new, tear);
                let part = 0..old.len();
                cache.submit(Op { request: Request::Write { at, from: Arc::new(old), part }, done });
            }
            (result, _) => done(Outcome { buffer: None, result }),
        };
        self.submit(Op { request: Request::Read { at, into }, done: Box::new(merge) });
    }

    fn merge(&self, old: &mut [u8], new: &[u8], tear: Tear) {
        let block = self.below.geometry().block_bytes as usize;
        let blocks = old.chunks_mut(block).zip(new.chunks(block)).enumerate();
        blocks.filter(|(n, _)| tear.keeps(*n as u64)).for_each(|(_, (old, new))| old.copy_from_slice(new));
    }

    /// Everything held back so far goes to the disk, in its order.
    pub(super) fn write_out(self: &Arc<Self>, then: WrittenOut) {
        let before = self.state.lock().next_number;
        self.write_out_before(before, then);
    }

    fn write_out_before(self: &Arc<Self>, before: u64, then: WrittenOut) {
        let state = self.state.lock();
        let Some(first) = state.held.front().filter(|held| held.number < before) else {
            drop(state);
            return then(Ok(()));
        };
        let (number, at, from) = (first.number, first.at, first.bytes.clone());
        drop(state);
        let cache = self.clone();
        let part = 0..from.len();
        let done = Box::new(move |outcome: Outcome| match outcome.result {
            Ok(()) => {
                cache.state.lock().held.retain(|held| held.number != number);
                cache.write_out_before(before, then);
            }
            result => then(result),
        });
        self.below.submit(Op { request: Request::Write { at, from, part }, done });
    }

    /// Write everything out if something held back overlaps these bytes.
    fn clear(self: &Arc<Self>, at: u64, bytes: u64, then: impl FnOnce(io::Result<()>) + Send + 'static) {
        let overlaps = |held: &Held| held.at < at.saturating_add(bytes) && at < held.end();
        let any = self.state.lock().held.iter().any(overlaps);
        if any { self.write_out(Box::new(then)) } else { then(Ok(())) }
    }

    /// Lay what is held back over what was read.
    fn patch(&self, at: u64, buffer: &mut [u8]) {
        for held in &self.state.lock().held {
            let start = held.at.max(at);
            let end = held.end().min(at.saturating_add(buffer.len() as u64));
            if start >= end {
                continue;
            }
            let new = held.bytes.get((start - held.at) as usize..(end - held.at) as usize);
            let old = buffer.get_mut((start - at) as usize..(end - at) as usize);
            if let (Some(old), Some(new)) = (old, new) {
                old.copy_from_slice(new);
            }
        }
    }

    /// See [`super::Faulty::cut`].
    pub(super) fn cut(self: &Arc<Self>, mut survives: impl FnMut(usize) -> Option<Tear>) {
        self.off.store(true, SeqCst);
        let held: Vec<_> = self.state.lock().held.drain(..).collect();
        for (number, held) in held.into_iter().enumerate() {
            if let Some(tear) = survives(number) {
                let (tell, told) = std::sync::mpsc::sync_channel(1);
                self.write_torn(held.at, &held.bytes, tear, Box::new(move |outcome| drop(tell.send(outcome))));
                let _ = told.recv();
            }
        }
    }
}
