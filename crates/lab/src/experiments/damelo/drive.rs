//! Several clients on one thread, over a disk in virtual time: each has one operation under way, and the disk goes on once all
//! of them wait.
//!
//! What the processor does takes no time here: an operation that needs no disk ends at the moment at which it began.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use super::load::Stage;
use crate::error::LabError;
use crate::rig::Stepped;
use crate::times::Times;

/// How an operation ended; the text says what was wrong.
pub type Ended = Result<(), String>;

/// What clients put their operations to. None waits; what cannot end at once ends in a step of the disk.
pub trait Subject {
    /// Keep an object. Pending until there is room; the waker is called then.
    fn poll_create(&self, cx: &mut Context<'_>, object: u32) -> Poll<Ended>;

    /// Read all of an object, and see that it is the right one. `done` is called once.
    fn read(&self, object: u32, done: Box<dyn FnOnce(Ended) + Send>);

    /// Remove an object. Pending as above.
    fn poll_delete(&self, cx: &mut Context<'_>, object: u32) -> Poll<Ended>;

    /// Write out all that is in memory, and forget it. `done` is called once.
    fn flush(&self, done: Box<dyn FnOnce(Ended) + Send>);

    /// Do what threads in the background would do now.
    fn work(&self);
}

/// What was measured of a stage.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Of each operation, by the clock of the disk.
    pub latencies: Times,
    /// From the first operation to the end of the last.
    pub took: Duration,
}

/// An operation that waits.
enum Waits {
    /// To be tried again once somebody has called its waker.
    Tried(u32),
    /// For an answer.
    Asked,
}

struct Client {
    /// The number of its operation that is under way, or of its next one.
    number: usize,
    /// Under way, and since when.
    waits: Option<(Waits, Duration)>,
    bell: Arc<Bell>,
    answer: Arc<Mutex<Option<Ended>>>,
}

/// Says that an operation is worth another try.
#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Have so many clients do what a stage asks for, dealt out in turn. Errors: an operation's; that all wait and the disk has
/// nothing to do.
pub fn drive(
    subject: &dyn Subject,
    disk: &Stepped,
    stage: Stage,
    requests: &[u32],
    clients: usize,
) -> Result<Measured, LabError> {
    let clients = clients.max(1);
    let new = |number| Client { number, waits: None, bell: Arc::default(), answer: Arc::default() };
    let mut all: Vec<Client> = (0..clients).map(new).collect();
    let (mut latencies, began) = (Times::default(), disk.now());
    let mut left = requests.len();
    while left > 0 {
        let mut has_progressed = false;
        // One operation each, and who has waited longest first: so that the order is kept, and nobody is passed over.
        all.sort_unstable_by_key(|client| client.number);
        for client in &mut all {
            let progress = client.go_on(subject, disk, stage, requests, clients);
            let Some(latency) = progress.map_err(|why| LabError::failed(stage.doing(), why))? else { continue };
            latencies.add(latency);
            (left, has_progressed) = (left - 1, true);
        }
        if !has_progressed && left > 0 {
            step(subject, disk, || all.iter().any(Client::is_woken))
                .map_err(|why| LabError::failed(stage.doing(), why))?;
        }
    }
    Ok(Measured { latencies, took: disk.now().saturating_sub(began) })
}

/// Write out all that is in memory and forget it; how long that took. Errors: as [`drive`].
pub fn flush(subject: &dyn Subject, disk: &Stepped) -> Result<Duration, LabError> {
    let (began, ended) = (disk.now(), Arc::new(Mutex::new(None)));
    let tell = ended.clone();
    subject.flush(Box::new(move |how| *tell.lock() = Some(how)));
    let failed = |why| LabError::failed("writing out what is in memory", why);
    loop {
        if let Some(how) = ended.lock().take() {
            return how.map(|()| disk.now().saturating_sub(began)).map_err(failed);
        }
        step(subject, disk, || ended.lock().is_some()).map_err(failed)?;
    }
}

/// Everybody waits: what would be done in the background is done, and the disk goes on. Errors: neither leads anywhere.
fn step(subject: &dyn Subject, disk: &Stepped, is_over: impl Fn() -> bool) -> Result<(), String> {
    subject.work();
    if disk.step() || is_over() { Ok(()) } else { Err("everybody waits, and the disk has nothing to do".to_owned()) }
}

impl Client {
    fn is_woken(&self) -> bool {
        self.bell.0.load(SeqCst) || self.answer.lock().is_some()
    }

    /// Begin what is next, or see how far what is under way has come: how long it took, if it has ended.
    fn go_on(
        &mut self,
        subject: &dyn Subject,
        disk: &Stepped,
        stage: Stage,
        requests: &[u32],
        clients: usize,
    ) -> Result<Option<Duration>, String> {
        let (since, ended) = match self.waits.take() {
            None => {
                let Some(&object) = requests.get(self.number) else { return Ok(None) };
                let since = disk.now();
                if stage == Stage::Read {
                    let answer = self.answer.clone();
                    subject.read(object, Box::new(move |how| *answer.lock() = Some(how)));
                    self.waits = Some((Waits::Asked, since));
                    (since, self.answer.lock().take())
                } else {
                    (since, self.try_it(subject, stage, object, since))
                }
            }
            Some((Waits::Asked, since)) => {
                self.waits = Some((Waits::Asked, since));
                (since, self.answer.lock().take())
            }
            Some((Waits::Tried(object), since)) if self.bell.0.swap(false, SeqCst) => {
                (since, self.try_it(subject, stage, object, since))
            }
            waits => {
                self.waits = waits;
                return Ok(None);
            }
        };
        let Some(how) = ended else { return Ok(None) };
        self.waits = None;
        self.number += clients;
        how.map(|()| Some(disk.now().saturating_sub(since)))
    }

    fn try_it(&mut self, subject: &dyn Subject, stage: Stage, object: u32, since: Duration) -> Option<Ended> {
        let waker = Waker::from(self.bell.clone());
        let mut cx = Context::from_waker(&waker);
        let poll = match stage {
            Stage::Delete => subject.poll_delete(&mut cx, object),
            Stage::Create | Stage::Read => subject.poll_create(&mut cx, object),
        };
        match poll {
            Poll::Ready(how) => Some(how),
            Poll::Pending => {
                self.waits = Some((Waits::Tried(object), since));
                None
            }
        }
    }
}

impl Stage {
    /// For an error.
    pub fn doing(self) -> &'static str {
        match self {
            Stage::Create => "creating objects",
            Stage::Read => "reading objects",
            Stage::Delete => "deleting objects",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tinaja_store::AlignedBuf;
    use tinaja_store::device::wrap::Model;
    use tinaja_store::device::{Device, Op, Outcome, Request};

    use super::*;
    use crate::rig::Sparse;

    /// Objects of a block each, of which one may be on its way to the disk; deleted in memory.
    struct Blocks {
        disk: Arc<Stepped>,
        state: Arc<Mutex<State>>,
    }

    #[derive(Default)]
    struct State {
        kept: HashMap<u32, u64>,
        is_writing: bool,
        waits: Vec<Waker>,
        order: Vec<u32>,
        worked: u64,
    }

    fn bench(model: Model) -> (Arc<Stepped>, Blocks) {
        let disk = Arc::new(Stepped::over(Arc::new(Sparse::new(1 << 20)), model, 1 << 30));
        disk.start();
        (disk.clone(), Blocks { disk, state: Arc::default() })
    }

    impl Subject for Blocks {
        fn poll_create(&self, cx: &mut Context<'_>, object: u32) -> Poll<Ended> {
            let mut state = self.state.lock();
            if state.is_writing {
                state.waits.push(cx.waker().clone());
                return Poll::Pending;
            }
            let at = u64::from(object) * 4096;
            state.is_writing = true;
            state.order.push(object);
            state.kept.insert(object, at);
            drop(state);
            let state = self.state.clone();
            let written = move |outcome: Outcome| {
                outcome.result.unwrap();
                let mut state = state.lock();
                state.is_writing = false;
                std::mem::take(&mut state.waits).into_iter().for_each(Waker::wake);
            };
            let from = Arc::new(AlignedBuf::zeroed(4096));
            let request = Request::Write { at, from, part: 0..4096 };
            self.disk.submit(Op { request, done: Box::new(written) });
            Poll::Ready(Ok(()))
        }

        fn read(&self, object: u32, done: Box<dyn FnOnce(Ended) + Send>) {
            let Some(at) = self.state.lock().kept.get(&object).copied() else { return done(Err("gone".to_owned())) };
            let request = Request::Read { at, into: AlignedBuf::zeroed(4096) };
            let read = |outcome: Outcome| done(outcome.result.map_err(|why| why.to_string()));
            self.disk.submit(Op { request, done: Box::new(read) });
        }

        fn poll_delete(&self, _: &mut Context<'_>, object: u32) -> Poll<Ended> {
            let gone = self.state.lock().kept.remove(&object);
            Poll::Ready(gone.map(drop).ok_or_else(|| format!("{object} is not there")))
        }

        fn flush(&self, done: Box<dyn FnOnce(Ended) + Send>) {
            self.disk.submit(Op { request: Request::Sync, done: Box::new(|_| done(Ok(()))) });
        }

        fn work(&self) {
            self.state.lock().worked += 1;
        }
    }

    #[test]
    fn operations_take_what_the_disk_takes_and_keep_their_order() {
        let model = Model { lanes: 1, ..Model::flash() };
        let each = model.time(1, 4096, 1 << 30);
        let (disk, blocks) = bench(model.clone());
        let objects: Vec<u32> = (0..20).rev().collect();
        let mut created = drive(&blocks, &disk, Stage::Create, &objects, 4).unwrap();
        assert_eq!(blocks.state.lock().order, objects, "dealt out in turn");
        assert_eq!(created.latencies.count(), 20);
        // The first waits for nobody, the last for the write of the one before; three others were before it in the queue.
        assert_eq!(created.latencies.percentile(0.0), Some(Duration::ZERO));
        assert!(created.latencies.percentile(0.5).unwrap() >= each * 3);
        assert!(flush(&blocks, &disk).unwrap() >= model.sync);

        let before = disk.now();
        let mut read = drive(&blocks, &disk, Stage::Read, &[3, 9, 7, 1, 5, 11], 2).unwrap();
        assert_eq!((disk.now() - before, read.took), (each * 6, each * 6));
        // Two at a time on one lane: each but the first waits for the other's.
        assert_eq!(read.latencies.percentile(0.0), Some(each));
        assert_eq!(read.latencies.percentile(1.0), Some(each * 2));

        let deleted = drive(&blocks, &disk, Stage::Delete, &objects, 4).unwrap();
        assert_eq!((deleted.latencies.count(), deleted.took), (20, Duration::ZERO), "in memory");
        assert!(blocks.state.lock().worked > 0);
    }

    #[test]
    fn what_goes_wrong_is_said() {
        let (disk, blocks) = bench(Model::flash());
        let why = drive(&blocks, &disk, Stage::Read, &[1], 4).unwrap_err().to_string();
        assert_eq!(why, "reading objects: gone");
        blocks.state.lock().is_writing = true;
        let why = drive(&blocks, &disk, Stage::Create, &[1], 4).unwrap_err().to_string();
        assert_eq!(why, "creating objects: everybody waits, and the disk has nothing to do");
    }
}
