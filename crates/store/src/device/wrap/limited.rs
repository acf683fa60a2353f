//! A device as slow as a model says, in real time or by a clock of its own.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tinaja_clock::Clock;

use super::Model;
use crate::device::limits::MAX_QUEUED_REQUESTS;
use crate::device::{Counters, Device, Geometry, Op, Outcome};

/// By which clock a [`Limited`] is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Requests end when the model says, or when the device below is done if that is later.
    Real,
    /// Requests end as soon as the device below is done, and a clock moves on by what the model says. The disk is
    /// taken to be always busy: a request begins as soon as a lane is free, and none waits for a reply to another.
    Virtual,
}

/// A device slowed down by a [`Model`]. In real time it has a thread for each lane, and refuses requests beyond
/// [`MAX_QUEUED_REQUESTS`]; in virtual time it has none.
pub struct Limited {
    shared: Arc<Shared>,
    time: Time,
    lanes: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    below: Arc<dyn Device>,
    model: Model,
    started: Instant,
    state: Mutex<LimitedState>,
    changed: Condvar,
}

struct LimitedState {
    /// Where the last request that began ends.
    head_at: u64,
    busy: Duration,
    /// When each lane is free, by the virtual clock.
    free_at: Vec<Duration>,
    waiting: Vec<Op>,
    stopped: bool,
}

impl Limited {
    /// Slow a device down. Errors: the system has no more threads.
    pub fn new(below: Arc<dyn Device>, model: Model, time: Time) -> io::Result<Self> {
        let count = model.lanes.max(1);
        let free_at = vec![Duration::ZERO; count];
        let state = LimitedState { head_at: 0, busy: Duration::ZERO, free_at, waiting: Vec::new(), stopped: false };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let limited = Limited {
            shared: Arc::new(Shared { started: below.clock().now(), below, model, state, changed }),
            time,
            lanes: Mutex::default(),
        };
        for _ in 0..if time == Time::Real { count } else { 0 } {
            let shared = limited.shared.clone();
            let lane = limited.clock().spawn("tinaja-slow", move || shared.work())?;
            limited.lanes.lock().push(lane);
        }
        Ok(limited)
    }

    /// The time since the device was made: by the wall in real time; in virtual time, when the last of all requests
    /// so far ends.
    pub fn now(&self) -> Duration {
        match self.time {
            Time::Real => self.clock().since(self.shared.started),
            Time::Virtual => self.shared.state.lock().free_at.iter().copied().max().unwrap_or_default(),
        }
    }

    /// The times of all requests begun so far, added up.
    pub fn busy(&self) -> Duration {
        self.shared.state.lock().busy
    }

    /// Let the virtual clock reach `now`, with the disk idle meanwhile. Does nothing to a clock that is later, nor in
    /// real time.
    pub fn idle_until(&self, now: Duration) {
        self.shared.state.lock().free_at.iter_mut().for_each(|free_at| *free_at = (*free_at).max(now));
    }
}

impl LimitedState {
    /// Begin a request: the time it takes.
    fn begin(&mut self, op: &Op, model: &Model, device_bytes: u64) -> Duration {
        let time = match op.request.extent() {
            None => model.sync,
            Some((at, bytes)) => {
                let distance = self.head_at.abs_diff(at);
                self.head_at = at.saturating_add(bytes);
                model.time(distance, bytes, device_bytes)
            }
        };
        self.busy += time;
        time
    }

    /// The nearest of the first few. A sync has no place; it goes when its turn comes.
    fn take_nearest(&mut self, depth: usize) -> Option<Op> {
        let distance = |op: &Op| op.request.extent().map(|(at, _)| self.head_at.abs_diff(at));
        let first = self.waiting.first()?;
        let nearest = match distance(first) {
            None => 0,
            Some(_) => {
                let placed = self.waiting.iter().take(depth.max(1)).enumerate();
                let nearest = placed.filter_map(|(n, op)| Some((distance(op)?, n))).min();
                nearest.map_or(0, |(_, n)| n)
            }
        };
        Some(self.waiting.remove(nearest))
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            let op = loop {
                if let Some(op) = state.take_nearest(self.model.queue_depth) {
                    break op;
                }
                if state.stopped {
                    return;
                }
                self.changed.wait(&mut state);
            };
            let ends = self.below.clock().now() + state.begin(&op, &self.model, self.below.geometry().bytes);
            drop(state);
            let (tell, told) = mpsc::sync_channel(1);
            let done = op.done;
            self.below.submit(Op { request: op.request, done: Box::new(move |outcome| drop(tell.send(outcome))) });
            let gone = |_| Outcome { buffer: None, result: Err(io::Error::other("the device dropped a request")) };
            let outcome = told.recv().unwrap_or_else(gone);
            self.sleep_until(ends);
            done(outcome);
        }
    }

    /// Sleep, unless the device is being stopped: then what waits ends as fast as it can.
    fn sleep_until(&self, ends: Instant) {
        let mut state = self.state.lock();
        let clock = self.below.clock();
        while !state.stopped && clock.now() < ends {
            clock.wait_until(&self.changed, &mut state, ends);
        }
    }
}

impl Device for Limited {
    fn geometry(&self) -> Geometry {
        self.shared.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.shared.below.clock()
    }

    fn submit(&self, op: Op) {
        let mut state = self.shared.state.lock();
        if state.stopped || state.waiting.len() >= MAX_QUEUED_REQUESTS {
            let why = if state.stopped { "the device was stopped" } else { "the device's queue is full" };
            drop(state);
            return op.fail(io::Error::other(why));
        }
        if self.time == Time::Real {
            state.waiting.push(op);
            drop(state);
            // All, since those asleep in mid-request hear this too.
            self.shared.changed.notify_all();
            return;
        }
        let time = state.begin(&op, &self.shared.model, self.geometry().bytes);
        if let Some(first) = state.free_at.iter_mut().min() {
            *first += time;
        }
        drop(state);
        self.shared.below.submit(op);
    }

    fn counters(&self) -> Counters {
        self.shared.below.counters()
    }

    fn stop(&self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_all();
        let me = thread::current().id();
        // Out of the lock: a completion may stop the device too.
        let lanes: Vec<_> = self.lanes.lock().drain(..).collect();
        for lane in lanes.into_iter().filter(|lane| lane.thread().id() != me) {
            let _ = lane.join();
        }
        self.shared.below.stop();
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.stop();
    }
}
