//! Requests carried out by a few threads, one request a thread at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::progress::{Progress, explain};
use super::tally::{Accepted, Tally};
use super::{Op, Outcome, Request};
use crate::device::limits::MAX_QUEUED_REQUESTS;

/// A pool of threads over one file.
pub(super) struct Threads {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Queue {
    file: File,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    counters: Arc<Tally>,
}

#[derive(Default)]
struct Waiting {
    ops: VecDeque<(Op, Accepted)>,
    stopped: bool,
}

impl Threads {
    /// `count` threads, at least one, named after what they do. Errors: the system has no more threads.
    pub(super) fn start(file: File, count: usize, counters: Arc<Tally>) -> io::Result<Self> {
        let clock = counters.clock().clone();
        let queue = Arc::new(Queue { file, waiting: Mutex::default(), arrived: Condvar::new(), counters });
        let start = |n| {
            let queue = queue.clone();
            clock.spawn(&format!("tinaja-disk-{n}"), move || queue.work())
        };
        let threads = (0..count.max(1)).map(start).collect::<io::Result<_>>()?;
        Ok(Threads { queue, threads: Mutex::new(threads) })
    }

    pub(super) fn submit(&self, op: Op) {
        let mut waiting = self.queue.waiting.lock();
        if waiting.stopped || waiting.ops.len() >= MAX_QUEUED_REQUESTS {
            let why = if waiting.stopped { "the device was stopped" } else { "the device's queue is full" };
            drop(waiting);
            return op.fail(io::Error::other(why));
        }
        let accepted = self.queue.counters.accepted(&op.request);
        waiting.ops.push_back((op, accepted));
        drop(waiting);
        self.queue.arrived.notify_one();
    }

    pub(super) fn stop(&self) {
        self.queue.waiting.lock().stopped = true;
        self.queue.arrived.notify_all();
        let me = thread::current().id();
        for thread in self.threads.lock().drain(..) {
            // A completion may drop the last owner of the device on one of the device's own threads.
            if thread.thread().id() != me {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Queue {
    fn work(&self) {
        while let Some((op, accepted)) = self.next() {
            let outcome = self.carry_out(op.request);
            self.counters.ended(accepted);
            (op.done)(outcome);
        }
    }

    fn next(&self) -> Option<(Op, Accepted)> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(op) = waiting.ops.pop_front() {
                return Some(op);
            }
            if waiting.stopped {
                return None;
            }
            self.arrived.wait(&mut waiting);
        }
    }

    fn carry_out(&self, request: Request) -> Outcome {
        match request {
            Request::Read { at, mut into } => {
                let result = whole(into.len(), |done| Some(self.file.read_at(into.get_mut(done..)?, at + done as u64)));
                if result.is_ok() {
                    self.counters.read(into.len());
                }
                Outcome { result: result.map_err(|error| explain(error, "read", into.len(), at)), buffer: Some(into) }
            }
            Request::Write { at, from, part } => {
                let bytes = from.get(part).unwrap_or_default();
                let result = whole(bytes.len(), |done| Some(self.file.write_at(bytes.get(done..)?, at + done as u64)));
                if result.is_ok() {
                    self.counters.wrote(bytes.len());
                }
                Outcome { result: result.map_err(|error| explain(error, "write", bytes.len(), at)), buffer: None }
            }
            Request::Sync => {
                let result = self.file.sync_data().map_err(|error| explain(error, "sync", 0, 0));
                Outcome { result, buffer: None }
            }
        }
    }
}

/// Repeat a system call that may do part of the work, or be interrupted, until all of it is done.
fn whole(len: usize, mut call: impl FnMut(usize) -> Option<io::Result<usize>>) -> io::Result<()> {
    let mut progress = Progress::of(len);
    while let Some(returned) = call(progress.done()) {
        if let Some(outcome) = progress.after(returned) {
            return outcome;
        }
    }
    Ok(())
}
