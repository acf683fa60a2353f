//! Calls that go on whether or not their caller still waits: a caller that gives up leaves no entry half-changed and no key
//! taken.
//!
//! A call is begun on the thread that first polls it, and mostly ends there, since it mostly needs memory alone. What has to
//! wait, for the disk or for a turn, is gone on with by one thread of the backend's.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::{Condvar, Mutex};
use tinaja_store::Clock;
use tinaja_store::wait::promise;

/// The thread's queue. Memory: what the calls under way hold.
pub(super) struct Tasks(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<TasksState>,
    changed: Condvar,
}

#[derive(Default)]
struct TasksState {
    /// Those that may go on.
    ready: VecDeque<Arc<Task>>,
    ended: bool,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    /// `None` once it has ended.
    work: Mutex<Option<Work>>,
    queue: Arc<Queue>,
}

impl Task {
    fn go_on(self: &Arc<Self>) {
        let mut work = self.work.lock();
        let waker = Waker::from(self.clone());
        if work.as_mut().is_some_and(|work| work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()) {
            *work = None;
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.state.lock().ready.push_back(self);
        queue.changed.notify_one();
    }
}

impl Tasks {
    /// Start the thread; it ends when this is dropped and nothing is left to do. Errors: the system has no more threads.
    pub(super) fn start(clock: &Clock) -> io::Result<Self> {
        let queue = Arc::<Queue>::default();
        let tasks = queue.clone();
        clock.spawn("tinaja-entries", move || carry_on(&tasks))?;
        Ok(Tasks(queue))
    }

    /// Begin `work` now, on this thread, and see to it that it ends. The answer may be dropped.
    pub(super) fn spawn<T: Send + 'static, W: Future<Output = T> + Send + 'static>(
        &self,
        work: W,
    ) -> impl Future<Output = Option<T>> + Send + use<T, W> {
        let (done, answer) = promise();
        let work: Work = Box::pin(async move { done.keep(work.await) });
        Arc::new(Task { work: Mutex::new(Some(work)), queue: self.0.clone() }).go_on();
        answer
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.changed.notify_one();
    }
}

fn carry_on(queue: &Queue) {
    loop {
        let mut state = queue.state.lock();
        while state.ready.is_empty() && !state.ended {
            queue.changed.wait(&mut state);
        }
        let Some(task) = state.ready.pop_front() else { return };
        drop(state);
        task.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tinaja_store::block_on;
    use tinaja_store::wait::Turns;

    #[test]
    fn what_nobody_waits_for_is_done_all_the_same() {
        let (tasks, gate) = (Tasks::start(&Clock::system()).unwrap(), Turns::new(1));
        let turn = gate.try_enter().unwrap();
        let (done, told) = promise();
        let waiting = gate.enter();
        drop(tasks.spawn(async move {
            let _turn = waiting.await;
            done.keep(7);
        }));
        assert_eq!(block_on(tasks.spawn(async { 5 })), Some(5), "what need not wait ends at once");
        drop(turn);
        assert_eq!(block_on(told), Some(7));
    }
}
