//! A disk in virtual time that goes on only when it is told to: for drivers that have many clients wait for one disk on one
//! thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tinaja_store::device::wrap::Model;
use tinaja_store::device::{Counters, Device, Geometry, Op};
use tinaja_store::limits::MAX_QUEUED_REQUESTS;
use tinaja_store::{Clock, ManualClock};

/// A device as slow as a [`Model`] says, by a clock that moves in [`Stepped::step`] alone. Requests begin in the order in
/// which they came, as many at a time as the model has lanes. Unlike `Limited` in virtual time, which takes the disk to be
/// always busy, it knows who waits for what: a client that waits for a reply sends nothing meanwhile.
///
/// Requests beyond [`MAX_QUEUED_REQUESTS`] end at once with an error.
pub struct Stepped {
    below: Arc<dyn Device>,
    model: Model,
    whole_bytes: u64,
    hands: Box<dyn Fn(Duration) + Send + Sync>,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Duration,
    busy: Duration,
    /// Where the last request that began ends.
    head_at: u64,
    begun: u64,
    waiting: VecDeque<Op>,
    under_way: Vec<UnderWay>,
    is_started: bool,
    is_stopped: bool,
}

struct UnderWay {
    ends: Duration,
    number: u64,
    op: Op,
}

impl Stepped {
    /// A slow disk of which `below` is the beginning, and which has `whole_bytes` in all: a seek across the device below is
    /// the shorter, the larger the disk. `below` must end requests at once, as devices in memory do.
    pub fn over(below: Arc<dyn Device>, model: Model, whole_bytes: u64) -> Stepped {
        let hands = ManualClock::new();
        Stepped::by(below, model, whole_bytes, hands.clock(), move |passed| hands.advance(passed))
    }

    /// The same by a clock that others go by too, which `hands` move on; it stands at zero.
    pub fn by(
        below: Arc<dyn Device>,
        model: Model,
        whole_bytes: u64,
        clock: Clock,
        hands: impl Fn(Duration) + Send + Sync + 'static,
    ) -> Stepped {
        Stepped { below, model, whole_bytes, hands: Box::new(hands), clock, state: Mutex::default() }
    }

    /// From now on requests take time, and wait for [`Stepped::step`].
    pub fn start(&self) {
        self.state.lock().is_started = true;
    }

    /// From now on requests end at once again, and so do those that wait.
    pub fn be_prompt(&self) {
        self.state.lock().is_started = false;
        while self.step() {}
    }

    /// When the next request ends, if any is there.
    pub fn next(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        state.begin_all(&self.model, self.whole_bytes);
        state.under_way.iter().map(|request| request.ends).min()
    }

    /// Let time pass until then, unless it is later already. No request is to end before.
    pub fn pass_until(&self, time: Duration) {
        let mut state = self.state.lock();
        let passed = time.saturating_sub(state.now);
        state.now += passed;
        drop(state);
        (self.hands)(passed);
    }

    /// The virtual time since it was made.
    pub fn now(&self) -> Duration {
        self.state.lock().now
    }

    /// How many requests are carried out at once.
    pub fn lanes(&self) -> u32 {
        u32::try_from(self.model.lanes).unwrap_or(u32::MAX).max(1)
    }

    /// The times of all requests begun so far, added up.
    pub fn busy(&self) -> Duration {
        self.state.lock().busy
    }

    /// Let time pass until the next request ends, and end it. `false` if there is none: then no time passes.
    pub fn step(&self) -> bool {
        let mut state = self.state.lock();
        state.begin_all(&self.model, self.whole_bytes);
        let first = state.under_way.iter().enumerate().min_by_key(|(_, request)| (request.ends, request.number));
        let Some(first) = first.map(|(at, _)| at) else { return false };
        let UnderWay { ends, op, .. } = state.under_way.swap_remove(first);
        let passed = ends.saturating_sub(state.now);
        state.now = ends;
        drop(state);
        (self.hands)(passed);
        self.below.submit(op);
        true
    }
}

impl State {
    fn begin_all(&mut self, model: &Model, whole_bytes: u64) {
        while self.under_way.len() < model.lanes.max(1)
            && let Some(op) = self.waiting.pop_front()
        {
            self.begin(op, model, whole_bytes);
        }
    }

    fn begin(&mut self, op: Op, model: &Model, whole_bytes: u64) {
        let time = match op.request.extent() {
            None => model.sync,
            Some((at, bytes)) => {
                let distance = self.head_at.abs_diff(at);
                self.head_at = at.saturating_add(bytes);
                model.time(distance, bytes, whole_bytes)
            }
        };
        self.busy += time;
        self.under_way.push(UnderWay { ends: self.now + time, number: self.begun, op });
        self.begun += 1;
    }
}

impl Device for Stepped {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn submit(&self, op: Op) {
        let mut state = self.state.lock();
        if state.is_stopped || state.waiting.len() >= MAX_QUEUED_REQUESTS {
            let why = if state.is_stopped { "the device was stopped" } else { "the device's queue is full" };
            drop(state);
            return op.fail(io::Error::other(why));
        }
        if !state.is_started {
            drop(state);
            return self.below.submit(op);
        }
        state.waiting.push_back(op);
    }

    fn counters(&self) -> Counters {
        let state = self.state.lock();
        let waiting = state.waiting.len() + state.under_way.len();
        Counters { waiting: waiting as u64, ..self.below.counters() }
    }

    fn stop(&self) {
        self.state.lock().is_stopped = true;
        while self.step() {}
        self.below.stop();
    }
}

#[cfg(test)]
mod tests {
    use tinaja_store::AlignedBuf;
    use tinaja_store::device::{Medium, Memory, Outcome, Request};

    use super::*;

    const WHOLE: u64 = 1 << 30;

    fn disk(model: Model) -> Arc<Stepped> {
        let disk = Stepped::over(Arc::new(Memory::over(&Medium::zeroed(1 << 20))), model, WHOLE);
        disk.start();
        Arc::new(disk)
    }

    /// Names of requests and when they ended, in that order.
    type Ended = Arc<Mutex<Vec<(u64, Duration)>>>;

    fn read(disk: &Arc<Stepped>, at: u64, ended: &Ended, then: Option<u64>) {
        let (clock, ended) = (disk.clone(), ended.clone());
        let done = Box::new(move |outcome: Outcome| {
            assert!(outcome.result.is_ok());
            ended.lock().push((at, clock.now()));
            if let Some(next) = then {
                read(&clock, next, &ended, None);
            }
        });
        disk.submit(Op { request: Request::Read { at, into: AlignedBuf::zeroed(4096) }, done });
    }

    #[test]
    fn requests_take_turns_and_the_models_time() {
        let (model, ended) = (Model::sata_7200(), Ended::default());
        let disk = disk(model.clone());
        [8192, 0, 12_288].iter().for_each(|at| read(&disk, *at, &ended, None));
        assert!(ended.lock().is_empty() && disk.counters().waiting == 3, "nothing goes on by itself");
        let began = disk.clock().now();
        while disk.step() {}
        let times = [8192, 12_288, 8192].map(|distance| model.time(distance, 4096, WHOLE));
        let expected = [(8192, times[0]), (0, times[0] + times[1]), (12_288, times.iter().sum())];
        assert_eq!(*ended.lock(), expected);
        assert_eq!(disk.clock().since(began), disk.now(), "whoever asks for the time is told this one");
        assert_eq!((disk.busy(), disk.counters().waiting), (disk.now(), 0));
    }

    #[test]
    fn as_many_are_under_way_as_there_are_lanes() {
        let (model, ended) = (Model { lanes: 2, ..Model::flash() }, Ended::default());
        let (disk, each) = (disk(model.clone()), model.time(1, 4096, WHOLE));
        // The third begins when the first has ended, and so does the one that is asked for then.
        [4096, 16_384, 32_768].iter().for_each(|at| read(&disk, *at, &ended, (*at == 4096).then_some(65_536)));
        while disk.step() {}
        let expected = [(4096, each), (16_384, each), (32_768, each * 2), (65_536, each * 2)];
        assert_eq!(*ended.lock(), expected);
        assert_eq!(disk.busy(), each * 4);
    }

    #[test]
    fn before_it_is_started_nobody_waits() {
        let ended = Ended::default();
        let disk = Arc::new(Stepped::over(Arc::new(Memory::over(&Medium::zeroed(1 << 20))), Model::flash(), WHOLE));
        read(&disk, 4096, &ended, None);
        assert_eq!(*ended.lock(), [(4096, Duration::ZERO)]);
        disk.start();
        read(&disk, 4096, &ended, None);
        assert!(ended.lock().len() == 1 && disk.step() && ended.lock().len() == 2);
    }

    #[test]
    fn what_waits_at_a_stop_ends_and_nothing_is_accepted_after_it() {
        let (disk, ended) = (disk(Model::sata_7200()), Ended::default());
        (0..5).for_each(|n| read(&disk, n * 4096, &ended, None));
        disk.stop();
        assert_eq!(ended.lock().len(), 5);
        let refused = Arc::new(Mutex::new(None));
        let to = refused.clone();
        disk.submit(Op { request: Request::Sync, done: Box::new(move |outcome| *to.lock() = Some(outcome.result)) });
        assert!(refused.lock().take().unwrap().is_err() && !disk.step());
    }
}
