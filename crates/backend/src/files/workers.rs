//! The threads that read and write files, so that no caller waits for one.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tinaja_store::Clock;
use tinaja_store::wait::{Turns, promise};

use crate::limits::{FILE_THREADS, MAX_FILE_JOBS};

type Job = Box<dyn FnOnce() + Send>;

/// The pool. Dropped, it ends when nothing is left to do.
pub(super) struct Workers {
    queue: Arc<Queue>,
    gate: Turns,
}

#[derive(Default)]
struct Queue {
    state: Mutex<(VecDeque<Job>, bool)>,
    changed: Condvar,
}

impl Workers {
    /// Start the threads. Errors: the system has no more.
    pub(super) fn start(clock: &Clock) -> io::Result<Self> {
        let workers = Workers { queue: Arc::default(), gate: Turns::new(MAX_FILE_JOBS) };
        for _ in 0..FILE_THREADS {
            let queue = workers.queue.clone();
            clock.spawn("tinaja-files", move || work(&queue))?;
        }
        Ok(workers)
    }

    /// What `work` answers, done by one of the threads; `None` if it panicked. It is done even if nobody waits.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let turn = self.gate.enter().await;
        let (done, answer) = promise();
        let job = move || {
            let result = work();
            drop(turn);
            done.keep(result);
        };
        self.push(job);
        answer.await
    }

    /// Do this some time soon: for what must not wait, and of which there is no more than there are files.
    pub(super) fn push(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.state.lock().0.push_back(Box::new(job));
        self.queue.changed.notify_one();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.state.lock().1 = true;
        self.queue.changed.notify_all();
    }
}

fn work(queue: &Queue) {
    loop {
        let mut state = queue.state.lock();
        while state.0.is_empty() && !state.1 {
            queue.changed.wait(&mut state);
        }
        let Some(job) = state.0.pop_front() else { return };
        drop(state);
        job();
    }
}
