//! A disk that takes its time, fails now and then, and loses what was not synced when its power is cut.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use tinaja_clock::Clock;
use tinaja_store::device::wrap::{Fault, Faulty, Tear};
use tinaja_store::device::{Counters, Device, Geometry, Medium, Memory, Op, Outcome, Request};
use tokio::runtime::Handle;

use crate::events::Events;
use crate::house::is_turn;
use crate::random::Random;

/// How a disk is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Requests in a thousand that end with an error, as reads, writes and syncs.
    pub errors: [u64; 3],
    /// Reads in a thousand that bring a wrong bit.
    pub flips: u64,
    /// Requests in a thousand that take seconds.
    pub stalls: u64,
    /// Syncs are reported done and are not.
    pub forgets: bool,
}

impl Manner {
    /// Whether anything may fail that is asked of it.
    pub fn fails(&self) -> bool {
        self.errors != [0; 3] || self.flips > 0 || self.stalls > 0
    }
}

/// A device over a medium, which outlives it.
pub struct Disk {
    below: Arc<Faulty>,
    clock: Clock,
    runtime: Handle,
    events: Events,
    random: Mutex<Random>,
    manner: Manner,
    /// Whether it does what it is asked at once and without a fault.
    prompt: Arc<AtomicBool>,
    waiting: Arc<Mutex<BTreeMap<u64, Op>>>,
    next: AtomicU64,
    /// Faults so far.
    failed: Arc<AtomicU64>,
}

impl Disk {
    /// Prompt until it is told otherwise.
    pub fn over(medium: &Medium, clock: &Clock, manner: Manner, events: &Events, mut random: Random) -> Arc<Disk> {
        let memory = Arc::new(Memory::by(clock.clone(), medium));
        let (prompt, failed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let plan = plan(manner, random.fork(), (prompt.clone(), failed.clone()), events.clone());
        Arc::new(Disk {
            below: Arc::new(Faulty::volatile(memory, plan)),
            clock: clock.clone(),
            runtime: Handle::current(),
            events: events.clone(),
            random: Mutex::new(random),
            manner,
            prompt,
            waiting: Arc::default(),
            next: AtomicU64::new(0),
            failed,
        })
    }

    /// Whether it works as a good disk does, at once; what waits is carried out.
    pub fn be_prompt(&self, prompt: bool) {
        self.prompt.store(prompt, SeqCst);
        if prompt {
            self.carry_out();
        }
    }

    /// Faults so far.
    pub fn failed(&self) -> u64 {
        self.failed.load(SeqCst)
    }

    /// Cuts the power: of what was not synced each write is on the medium, or is not, or a part of it.
    pub fn cut(&self) {
        let mut random = self.random.lock().fork();
        self.events.note("power cut", &[self.below.held() as u64]);
        // All that is under way is lost, or it has reached the disk's cache.
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let mut lost = Vec::new();
        for op in waiting.into_values() {
            if random.per_mille(500) { self.below.submit(op) } else { lost.push(op) }
        }
        let all_or_nothing = random.below(3);
        self.below.cut(|_| match (all_or_nothing, random.below(4)) {
            (0, _) => None,
            (1, _) | (_, 0 | 1) => Some(Tear::Suffix(0)),
            (_, 2) => Some(*random.one(&[Tear::Prefix(1), Tear::Suffix(1), Tear::Alternating])),
            _ => None,
        });
        lost.into_iter().for_each(|op| op.fail(std::io::Error::other("the power was cut")));
    }

    fn carry_out(&self) {
        loop {
            let first = self.waiting.lock().pop_first();
            let Some((_, op)) = first else { return };
            self.below.submit(op);
        }
    }

    /// How long a request takes, in milliseconds.
    fn takes(&self) -> u64 {
        let mut random = self.random.lock();
        match random.per_mille(self.manner.stalls) {
            true => random.within(500..40_000),
            false if random.per_mille(400) => 0,
            false => random.within(1..25),
        }
    }
}

/// What goes wrong with which request.
fn plan(
    manner: Manner,
    random: Random,
    (prompt, failed): (Arc<AtomicBool>, Arc<AtomicU64>),
    events: Events,
) -> impl Fn(u64, &Request) -> Option<Fault> + Send + Sync + 'static {
    let random = Mutex::new(random);
    move |_, request| {
        if matches!(request, Request::Sync) && manner.forgets {
            return Some(Fault::Lost);
        }
        if prompt.load(SeqCst) {
            return None;
        }
        let (kind, mut random) = (request.kind() as usize, random.lock());
        let fault = match request {
            Request::Read { .. } if random.per_mille(manner.flips) => Fault::Flipped(random.next()),
            Request::Write { .. } if random.per_mille(manner.errors[kind]) && random.per_mille(300) => Fault::Full,
            _ if random.per_mille(manner.errors[kind]) => Fault::Error,
            _ => return None,
        };
        failed.fetch_add(1, SeqCst);
        events.note("disk fault", &[kind as u64]);
        Some(fault)
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn submit(&self, op: Op) {
        let number = self.next.fetch_add(1, SeqCst);
        let (at, bytes) = op.request.extent().unwrap_or_default();
        let kind = op.request.kind() as u64;
        let (events, done) = (self.events.clone(), op.done);
        self.events.note("disk", &[number, kind, at, bytes]);
        let op = Op {
            request: op.request,
            done: Box::new(move |outcome: Outcome| {
                events.note("disk done", &[number, u64::from(outcome.result.is_ok())]);
                done(outcome);
            }),
        };
        // A thread of the store's may hold what the others need while it waits for the disk.
        let millis = if self.prompt.load(SeqCst) || is_turn() { 0 } else { self.takes() };
        if millis == 0 {
            return self.below.submit(op);
        }
        self.waiting.lock().insert(number, op);
        let (waiting, below) = (self.waiting.clone(), self.below.clone());
        self.runtime.spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
            let op = waiting.lock().remove(&number);
            if let Some(op) = op {
                below.submit(op);
            }
        });
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.carry_out();
        self.below.stop();
    }
}
