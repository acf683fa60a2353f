//! Requests carried out by io_uring: one ring and one thread a disk.
//!
//! The thread owns the ring. It takes what waits, hands it to the kernel in one system call together with waiting for
//! what is done, and calls the completions. While it sleeps, an eventfd that the ring polls wakes it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use io_uring::{IoUring, Probe, opcode, squeue, types};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;

use super::progress::{Progress, explain};
use super::tally::{Accepted, Tally};
use super::{Op, Outcome, Request};
use crate::device::limits::{MAX_IN_FLIGHT, MAX_QUEUED_REQUESTS};

/// Marks the completion of the poll that wakes the thread.
const WAKE: u64 = u64::MAX;

/// The most bytes of one submission; the kernel takes no more than 2 GiB.
const MAX_CALL_BYTES: usize = 1 << 30;

/// A ring over one file. Memory: 256 submissions and 512 completions, some 50 KiB.
pub(super) struct Uring {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    file: File,
    /// Eight bytes that the thread polls.
    wake: File,
    waiting: Mutex<Waiting>,
    tally: Arc<Tally>,
}

#[derive(Default)]
struct Waiting {
    ops: VecDeque<(Op, Accepted)>,
    /// The thread took all there was and sleeps until it is woken or something is done.
    asleep: bool,
    stopped: bool,
}

impl Uring {
    /// A ring and its thread. Errors: the kernel has no io_uring, not all of what is needed, or refuses it.
    pub(super) fn start(file: File, tally: Arc<Tally>) -> io::Result<Self> {
        let wake = File::from(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let clock = tally.clock().clone();
        let shared = Arc::new(Shared { file, wake, waiting: Mutex::default(), tally });
        let (tell, told) = mpsc::sync_channel(1);
        let of_thread = shared.clone();
        // The ring is made by the thread that uses it: the kernel is told that no other will.
        let work = move || match Reactor::new(of_thread) {
            Ok(mut reactor) => {
                let _ = tell.send(Ok(()));
                reactor.work();
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        let thread = clock.spawn("tinaja-uring", work)?;
        told.recv().map_err(io::Error::other)??;
        Ok(Uring { shared, thread: Mutex::new(Some(thread)) })
    }

    pub(super) fn submit(&self, op: Op) {
        let mut waiting = self.shared.waiting.lock();
        if waiting.stopped || waiting.ops.len() >= MAX_QUEUED_REQUESTS {
            let why = if waiting.stopped { "the device was stopped" } else { "the device's queue is full" };
            drop(waiting);
            return op.fail(io::Error::other(why));
        }
        let accepted = self.shared.tally.accepted(&op.request);
        waiting.ops.push_back((op, accepted));
        let asleep = std::mem::take(&mut waiting.asleep);
        drop(waiting);
        if asleep {
            self.shared.wake();
        }
    }

    pub(super) fn stop(&self) {
        self.shared.waiting.lock().stopped = true;
        self.shared.wake();
        let thread = self.thread.lock().take();
        // A completion may drop the last owner of the device on the device's own thread.
        if let Some(thread) = thread.filter(|other| other.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn wake(&self) {
        use std::io::Write;
        // It fails only when the count is full, and then the thread is being woken anyway.
        let _ = (&self.wake).write(&1_u64.to_ne_bytes());
    }

    fn woken(&self) {
        use std::io::Read;
        let _ = (&self.wake).read(&mut [0; 8]);
    }
}

/// A request that the kernel works on. It owns the memory that the kernel reads or writes.
struct InFlight {
    op: Op,
    accepted: Accepted,
    progress: Progress,
}

/// The thread's own: the ring, and what it works on.
struct Reactor {
    ring: IoUring,
    shared: Arc<Shared>,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<usize>,
    wake_is_polled: bool,
}

impl Reactor {
    fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let ring = build()?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::PollAdd::CODE];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::Error::new(ErrorKind::Unsupported, "this kernel's io_uring is too old"));
        }
        let in_flight = (0..MAX_IN_FLIGHT).map(|_| None).collect();
        Ok(Reactor { ring, shared, in_flight, free: (0..MAX_IN_FLIGHT).rev().collect(), wake_is_polled: false })
    }

    fn work(&mut self) {
        while self.take_what_waits() {
            self.poll_wake();
            if let Err(error) = self.ring.submit_and_wait(1) {
                // Interrupted, or short of memory for the moment: what was not submitted still is in the ring.
                let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
                if !Errno::from_io_error(&error).is_some_and(|errno| passing.contains(&errno)) {
                    tracing::error!("the disk's io_uring failed and is given up: {error}");
                    return;
                }
            }
            let completions: Vec<_> = self.ring.completion().map(|done| (done.user_data(), done.result())).collect();
            completions.into_iter().for_each(|(number, result)| self.completed(number, result));
        }
    }

    /// Begin as many requests as the ring takes; false when the device was stopped and all is done.
    fn take_what_waits(&mut self) -> bool {
        loop {
            let mut waiting = self.shared.waiting.lock();
            waiting.asleep = false;
            let Some(slot) = self.free.pop() else { return true };
            let Some((op, accepted)) = waiting.ops.pop_front() else {
                self.free.push(slot);
                waiting.asleep = !waiting.stopped;
                return !waiting.stopped || self.free.len() < MAX_IN_FLIGHT;
            };
            drop(waiting);
            let progress = Progress::of(op.request.extent().map_or(0, |(_, bytes)| bytes as usize));
            self.begin(slot, InFlight { op, accepted, progress });
        }
    }

    /// Hand a request, or the rest of it, to the kernel.
    fn begin(&mut self, slot: usize, mut request: InFlight) {
        let entry = request.entry(types::Fd(self.shared.file.as_raw_fd())).user_data(slot as u64);
        // SAFETY: the entry points into buffers that `request` owns. It stays in the table, untouched, until the
        // completion of this entry arrives, or for ever if it never does (see `Drop`).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        match pushed {
            Ok(()) => {
                if let Some(place) = self.in_flight.get_mut(slot) {
                    *place = Some(request);
                }
            }
            Err(full) => {
                self.free.push(slot);
                self.shared.tally.ended(request.accepted);
                request.op.fail(io::Error::other(full));
            }
        }
    }

    fn poll_wake(&mut self) {
        if !self.wake_is_polled {
            let fd = types::Fd(self.shared.wake.as_raw_fd());
            let poll = opcode::PollAdd::new(fd, PollFlags::IN.bits().into()).build().user_data(WAKE);
            // SAFETY: a poll points to no memory, and the eventfd is open as long as the ring's thread runs.
            self.wake_is_polled = unsafe { self.ring.submission().push(&poll) }.is_ok();
        }
    }

    fn completed(&mut self, number: u64, result: i32) {
        if number == WAKE {
            self.wake_is_polled = false;
            return self.shared.woken();
        }
        let slot = number as usize;
        let Some(mut request) = self.in_flight.get_mut(slot).and_then(Option::take) else { return };
        let call = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(result.saturating_neg()));
        match request.progress.after(call) {
            None => self.begin(slot, request),
            Some(result) => {
                self.free.push(slot);
                request.end(result, &self.shared.tally);
            }
        }
    }
}

impl Drop for Reactor {
    /// The kernel may still write to the buffers of what is in flight: wait for it. This is a thread that ends early,
    /// after a panic or a broken ring, so nothing may panic here and nobody is told but by dropping.
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting.lock();
        waiting.stopped = true;
        let left: Vec<_> = waiting.ops.drain(..).collect();
        drop(waiting);
        while self.in_flight.iter().any(Option::is_some) && self.ring.submit_and_wait(1).is_ok() {
            let done: Vec<_> = self.ring.completion().map(|done| done.user_data() as usize).collect();
            for slot in done {
                drop(self.in_flight.get_mut(slot).and_then(Option::take));
            }
        }
        // A ring that cannot even be waited for: better to leak the buffers than to free what the kernel writes to.
        self.in_flight.drain(..).flatten().for_each(|request| std::mem::forget(request.op.request));
        for (op, accepted) in left {
            self.shared.tally.ended(accepted);
            op.fail(io::Error::other("the disk's io_uring failed"));
        }
    }
}

/// A ring that delivers completions to its own thread when that asks for them (Linux 6.1), or else any.
fn build() -> io::Result<IoUring> {
    let entries = 2 * MAX_IN_FLIGHT as u32;
    let newest = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    newest.or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::INVAL) => IoUring::builder().build(entries),
        _ => Err(error),
    })
}

impl InFlight {
    /// The rest of the request as a submission.
    fn entry(&mut self, fd: types::Fd) -> squeue::Entry {
        let done = self.progress.done();
        let length = |bytes: usize| bytes.min(MAX_CALL_BYTES) as u32;
        match &mut self.op.request {
            Request::Read { at, into } => {
                let rest = into.get_mut(done..).unwrap_or_default();
                opcode::Read::new(fd, rest.as_mut_ptr(), length(rest.len())).offset(*at + done as u64).build()
            }
            Request::Write { at, from, part } => {
                let rest = from.get(part.clone()).and_then(|part| part.get(done..)).unwrap_or_default();
                opcode::Write::new(fd, rest.as_ptr(), length(rest.len())).offset(*at + done as u64).build()
            }
            Request::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        }
    }

    fn end(self, result: io::Result<()>, tally: &Tally) {
        tally.ended(self.accepted);
        let Op { request, done } = self.op;
        let (at, bytes) = request.extent().unwrap_or_default();
        let bytes = bytes as usize;
        let (what, buffer) = match request {
            Request::Read { into, .. } => ("read", Some(into)),
            // Given up before the completion is called: whoever shares the buffer may then have it to itself.
            Request::Write { from, .. } => {
                drop(from);
                ("write", None)
            }
            Request::Sync => ("sync", None),
        };
        match (what, &result) {
            ("read", Ok(())) => tally.read(bytes),
            ("write", Ok(())) => tally.wrote(bytes),
            _ => {}
        }
        done(Outcome { buffer, result: result.map_err(|error| explain(error, what, bytes, at)) });
    }
}
