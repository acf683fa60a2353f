//! An engine on a modelled disk in virtual time, and many clients that wait for it on one thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tinaja_store::Store;
use tinaja_store::device::wrap::Model;

use super::load::{Asked, Load};
use super::watch::{Seen, Watch, Work};
use crate::error::LabError;
use crate::rig::{Rig, Sparse, Spec, Stepped, Turns};
use crate::times::Times;

/// Rounds of turns at one moment, at the most: more, and threads do nothing but wake each other.
const MOST_ROUNDS: usize = 10_000;

/// An engine, its disk and its time. The turns are let go of first: the engine's threads end by themselves.
pub struct World {
    turns: Turns,
    disk: Arc<Stepped>,
    watch: Arc<Watch>,
    /// The engine.
    pub rig: Rig,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Times of hits while the engine did nothing by itself, while it merged, and while it cleaned and did not merge.
    pub hits: [Times; 3],
    /// Lookups that found nothing.
    pub misses: u64,
    /// Objects that were stored, and that were not.
    pub stored: [u64; 2],
    /// Bytes of bodies that were stored.
    pub stored_bytes: u64,
    /// What the disk did.
    pub seen: Seen,
    /// How long it took, and how long the disk was busy: each of its lanes, in the mean.
    pub took: Duration,
    /// See there.
    pub busy: Duration,
}

enum Ended {
    Found,
    Missed(u64),
    Stored(u64),
    Refused,
    Flushed,
}

/// Something that a client waits for.
type Waited<'a> = Pin<Box<dyn Future<Output = Result<Ended, LabError>> + 'a>>;

struct Task<'a> {
    work: Waited<'a>,
    bell: Arc<Bell>,
    began: Duration,
    seen: Seen,
}

/// Says of which task it is worth to be looked at again.
struct Bell {
    number: usize,
    is_rung: AtomicBool,
    rung: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if !self.is_rung.swap(true, SeqCst) {
            self.rung.lock().push(self.number);
        }
    }
}

/// Clients that wait.
#[derive(Default)]
struct Tasks<'a> {
    all: Vec<Option<Task<'a>>>,
    unused: Vec<usize>,
    rung: Arc<Mutex<Vec<usize>>>,
}

impl<'a> Tasks<'a> {
    fn add(&mut self, work: Waited<'a>, began: Duration, seen: Seen) {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        let bell = Arc::new(Bell { number, is_rung: AtomicBool::new(false), rung: self.rung.clone() });
        bell.clone().wake();
        if let Some(place) = self.all.get_mut(number) {
            *place = Some(Task { work, bell, began, seen });
        }
    }

    fn waiting(&self) -> usize {
        self.all.len() - self.unused.len()
    }

    /// Look at a task that is worth it; how it ended, if it did.
    fn look(&mut self, number: usize) -> Option<(Task<'a>, Result<Ended, LabError>)> {
        let place = self.all.get_mut(number)?;
        let task = place.as_mut()?;
        task.bell.is_rung.store(false, SeqCst);
        let waker = Waker::from(task.bell.clone());
        let Poll::Ready(ended) = task.work.as_mut().poll(&mut Context::from_waker(&waker)) else { return None };
        self.unused.push(number);
        Some((place.take()?, ended))
    }
}

impl World {
    /// An empty cache on a disk that answers at once until it is told otherwise. Its log begins at `log_at`. Errors: as [`Rig::new`].
    pub fn new(spec: &Spec, model: Model, log_at: u64) -> Result<World, LabError> {
        let turns = Turns::default();
        let below = Arc::new(Sparse::new(spec.disk_bytes));
        let disk = Arc::new(Stepped::by(below, model, spec.disk_bytes, turns.clock(), turns.hands()));
        let watch = Arc::new(Watch::over(disk.clone(), log_at));
        let rig = Rig::on(spec, watch.clone())?;
        Ok(World { turns, disk, watch, rig })
    }

    /// Have the disk answer at once, or take its time.
    pub fn be_prompt(&self, is_prompt: bool) {
        if is_prompt { self.disk.be_prompt() } else { self.disk.start() }
    }

    /// Put a load to the engine for so long, and wait for all answers. Errors: other bytes than were stored; somebody waits for ever.
    pub fn run(&self, load: &mut Load, time: Duration) -> Result<Measured, LabError> {
        let (began, before, busy) = (self.turns.now(), self.watch.seen(), self.disk.busy());
        let mut of = Measured::default();
        let mut tasks = Tasks::default();
        load.begins(began);
        loop {
            self.settle(&mut tasks, &mut of, load)?;
            let arrives = load.next().filter(|arrives| *arrives < began + time);
            if arrives.is_none() && tasks.waiting() == 0 {
                break;
            }
            let next = [arrives, self.disk.next(), self.turns.next()].into_iter().flatten().min();
            let next = next.ok_or_else(|| stuck("everybody waits, and nothing is due"))?.max(self.turns.now());
            if self.disk.next().is_some_and(|ends| ends <= next) {
                self.disk.step();
                continue;
            }
            self.disk.pass_until(next);
            if arrives.is_some_and(|arrives| arrives <= next) {
                tasks.add(self.ask(load.take()), self.turns.now(), self.watch.seen());
            }
        }
        of.seen = self.watch.seen().since(&before);
        (of.took, of.busy) = (self.turns.now() - began, (self.disk.busy() - busy) / self.disk.lanes());
        Ok(of)
    }

    fn ask(&self, asked: Asked) -> Waited<'_> {
        let rig = &self.rig;
        match asked {
            Asked::Get(object) => Box::pin(async move {
                let found = rig.get_part_later(object, u64::MAX).await?;
                Ok(found.map_or(Ended::Missed(object), |_| Ended::Found))
            }),
            Asked::Put(object, bytes) => Box::pin(async move {
                let is_stored = rig.put_later(object, bytes, None).await;
                Ok(if is_stored { Ended::Stored(bytes) } else { Ended::Refused })
            }),
            Asked::Flush => Box::pin(async move {
                rig.store.flush().await.map_err(|error| LabError::failed("flushing the store", error))?;
                Ok(Ended::Flushed)
            }),
        }
    }

    /// Everybody does what there is to do at this moment.
    fn settle<'a>(&'a self, tasks: &mut Tasks<'a>, of: &mut Measured, load: &Load) -> Result<(), LabError> {
        let mut requests = 0;
        for round in 0..MOST_ROUNDS {
            let rung = std::mem::take(&mut *tasks.rung.lock());
            let has_looked = !rung.is_empty();
            for number in rung {
                let Some((task, ended)) = tasks.look(number) else { continue };
                if let Some(object) = self.count(of, &task, &ended?) {
                    let put = self.ask(Asked::Put(object, load.bytes(object)));
                    tasks.add(put, self.turns.now(), self.watch.seen());
                }
            }
            // First all that clients can do: turns take time. But one that wakes itself again and again does not keep others from theirs.
            if round % 4 < 3 && !tasks.rung.lock().is_empty() {
                continue;
            }
            let seen = self.watch.seen();
            let begun = seen.reads.requests + seen.writes.requests;
            if !has_looked && begun == requests {
                return Ok(());
            }
            requests = begun;
            // With nobody waiting there is nothing to be done but what is due.
            if tasks.waiting() > 0 || self.turns.next().is_some_and(|due| due <= self.turns.now()) {
                self.turns.give().map_err(|why| stuck(&why))?;
            }
        }
        Err(stuck("threads wake each other and time stands still"))
    }

    /// What has ended is counted; what was missed is to be stored.
    fn count(&self, of: &mut Measured, task: &Task<'_>, ended: &Ended) -> Option<u64> {
        match ended {
            Ended::Found => {
                let now = self.watch.seen();
                let kind = match () {
                    () if now.overlaps(&task.seen, Work::Merge) => 1,
                    () if now.overlaps(&task.seen, Work::Cleaning) => 2,
                    () => 0,
                };
                let took = self.turns.now().saturating_sub(task.began);
                of.hits.get_mut(kind).into_iter().for_each(|times| times.add(took));
            }
            Ended::Missed(object) => {
                of.misses += 1;
                return Some(*object);
            }
            Ended::Stored(bytes) => {
                of.stored[0] += 1;
                of.stored_bytes += bytes;
            }
            Ended::Refused => of.stored[1] += 1,
            Ended::Flushed => {}
        }
        None
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.disk.be_prompt();
    }
}

fn stuck(why: &str) -> LabError {
    LabError::failed("driving an engine in virtual time", why)
}
