//! A queue of requests that is ordered by place: the elevator of Dámelo (sections 4 and 6).
//!
//! A disk with an arm is quick if the arm goes on in its direction. The thesis keeps its queue sorted by place and names the
//! elevator that turns round as future work; here it is the default. The other orders are there so that it can be measured what it
//! is worth. On flash it is worth nothing: use the disk as it is.

mod queue;

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tinaja_clock::Clock;

use self::queue::{Begun, Queue};
use super::limits::MAX_QUEUED_REQUESTS;
use super::{Counters, Device, Geometry, Kind, Op, lending};

/// In which order requests go that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// In which they came.
    InTurn,
    /// Upwards, each time from the lowest to the highest: the thesis's elevator.
    OneWay,
    /// The nearest in the direction in which the head goes; it turns round when there is none.
    #[default]
    TwoWay,
}

/// A device that is given a few requests at a time, by default one, and keeps the others until their turn comes.
///
/// - A sync goes as soon as every write that came before it has ended; the writes that came after it need not wait for it.
/// - Nothing waits for ever: each request moves the head on in its direction, so a request may have to wait for two
///   sweeps over the device, whatever comes meanwhile.
/// - Requests that overlap and begin at different places go in any order, as with every device.
/// - A read that [`lending`] hands out goes below at once: somebody else carries it out, and it may never end.
///
/// Requests beyond [`MAX_QUEUED_REQUESTS`], or as many as it was told, those under way included, end at once with an error.
/// Memory: what these hold, and some hundred bytes each.
pub struct Elevator {
    shared: Arc<Shared>,
}

struct Shared {
    below: Arc<dyn Device>,
    state: Mutex<State>,
}

struct State {
    queue: Queue<Op>,
    /// Requests that there may be, those below included.
    most: usize,
    /// Requests below at once.
    depth: usize,
    under_way: usize,
    /// Somebody hands requests down, and looks for more before he is done.
    is_pumped: bool,
    is_stopped: bool,
}

/// A request below. Dropped when it has ended, or when the device below has dropped it, as a blown fuse does.
struct UnderWay {
    shared: Arc<Shared>,
    begun: Begun,
}

/// Whatever happens, somebody else may hand requests down after this.
struct Pumping<'a>(&'a Shared);

impl Elevator {
    /// A queue over a device, which is given up to `depth` requests at a time; 0 is taken for 1.
    pub fn over(below: Arc<dyn Device>, order: Order, depth: usize) -> Arc<Elevator> {
        Elevator::with_room(below, order, depth, MAX_QUEUED_REQUESTS)
    }

    /// The same with room for as many requests as are said, where these are bounded elsewhere: by the frames that there are in
    /// memory, for example.
    pub fn with_room(below: Arc<dyn Device>, order: Order, depth: usize, most: usize) -> Arc<Elevator> {
        let queue = Queue::new(order, below.geometry().bytes);
        let depth = depth.clamp(1, MAX_QUEUED_REQUESTS);
        let state = State { queue, most, depth, under_way: 0, is_pumped: false, is_stopped: false };
        Arc::new(Elevator { shared: Arc::new(Shared { below, state: Mutex::new(state) }) })
    }
}

impl Shared {
    /// Hand down what may go. A device that ends requests while it is given them comes back here from within: it is told that
    /// somebody is at it, so the stack does not grow with the queue.
    fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.is_pumped {
            return;
        }
        state.is_pumped = true;
        let pumping = Pumping(self);
        while let Some((begun, op)) = state.take() {
            drop(state);
            let under_way = UnderWay { shared: self.clone(), begun };
            let done = op.done;
            let ended = move |outcome| {
                // First: the disk has its next request before somebody thinks about this one.
                drop(under_way);
                done(outcome);
            };
            self.below.submit(Op { request: op.request, done: Box::new(ended) });
            state = self.state.lock();
        }
        // In the same lock as the last look: who comes now finds nobody here.
        state.is_pumped = false;
        std::mem::forget(pumping);
    }
}

impl State {
    fn take(&mut self) -> Option<(Begun, Op)> {
        if self.under_way >= self.depth {
            return None;
        }
        let next = self.queue.next()?;
        self.under_way += 1;
        Some(next)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.under_way -= 1;
        state.queue.ended(self.begun);
        drop(state);
        self.shared.pump();
    }
}

impl Drop for Pumping<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_pumped = false;
    }
}

impl Device for Elevator {
    fn geometry(&self) -> Geometry {
        self.shared.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.shared.below.clock()
    }

    fn submit(&self, op: Op) {
        if op.request.kind() == Kind::Read && lending::is_wanted() {
            return self.shared.below.submit(op);
        }
        let mut state = self.shared.state.lock();
        if state.is_stopped || state.queue.len() + state.under_way >= state.most {
            let why = if state.is_stopped { "the device was stopped" } else { "the device's queue is full" };
            drop(state);
            return op.fail(io::Error::other(why));
        }
        let (kind, extent) = (op.request.kind(), op.request.extent());
        state.queue.add(kind, extent, op);
        drop(state);
        self.shared.pump();
    }

    /// Those of the device below, and among those that wait the ones in the queue. So times are those from when a request went
    /// below.
    fn counters(&self) -> Counters {
        let queued = self.shared.state.lock().queue.len() as u64;
        let below = self.shared.below.counters();
        Counters { waiting: below.waiting + queued, ..below }
    }

    /// All that waits goes below at once, in any number, and the device below finishes it. A sync that waits for a write then
    /// comes too late, and ends with an error.
    fn stop(&self) {
        let mut state = self.shared.state.lock();
        state.is_stopped = true;
        state.depth = usize::MAX;
        drop(state);
        self.shared.pump();
        self.shared.below.stop();
    }

    fn give_up(&self, found: &str) {
        self.shared.below.give_up(found);
    }

    /// Writes that wait go below later, and are refused there.
    fn release(&self) {
        self.shared.below.release();
    }
}
