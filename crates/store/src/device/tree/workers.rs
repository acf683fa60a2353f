//! Threads that make an engine's calls for it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};
use tinaja_clock::Clock;

use super::Tree;
use crate::fuse::Fuse;

/// What a thread is to do. It may block.
pub(crate) type Job = Box<dyn FnOnce(&dyn Tree) + Send>;

/// How many there are: enough to keep a disk busy, and a file system's locks not too much.
pub(crate) const WORKERS: usize = 8;

/// Which jobs are done first where both kinds wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Somebody waits for the answer.
    Read,
    /// Writes, removals and syncs. One thread does these first, so that they come to their end however much is read.
    Write,
}

/// A pool of threads over one tree. A job that panics blows the engine's fuse, and what waits then is dropped.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Queue {
    tree: Arc<dyn Tree>,
    fuse: Arc<Fuse>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    reads: VecDeque<Job>,
    writes: VecDeque<Job>,
    stopped: bool,
}

impl Workers {
    /// Start them. Errors: the system has no more threads.
    pub(crate) fn start(clock: &Clock, tree: Arc<dyn Tree>, fuse: Arc<Fuse>) -> io::Result<Workers> {
        let queue = Arc::new(Queue { tree, fuse, waiting: Mutex::default(), arrived: Condvar::new() });
        let workers = Workers { queue, threads: Mutex::default() };
        for number in 0..WORKERS {
            let queue = workers.queue.clone();
            let first = if number == 0 { Urgency::Write } else { Urgency::Read };
            let thread = clock.spawn(&format!("tinaja-file-{number}"), move || queue.work(first))?;
            workers.threads.lock().push(thread);
        }
        Ok(workers)
    }

    /// Have a job done. After [`Workers::stop`] it is dropped.
    pub(crate) fn submit(&self, urgency: Urgency, job: Job) {
        let mut waiting = self.queue.waiting.lock();
        if waiting.stopped {
            return;
        }
        match urgency {
            Urgency::Read => waiting.reads.push_back(job),
            Urgency::Write => waiting.writes.push_back(job),
        }
        drop(waiting);
        // Any of them does any job, so it does not matter which one wakes.
        self.queue.arrived.notify_one();
    }

    /// Do what waits, then end the threads. Idempotent; on one of these threads it does not wait for that one.
    pub(crate) fn stop(&self) {
        self.queue.waiting.lock().stopped = true;
        self.queue.arrived.notify_all();
        let me = thread::current().id();
        let threads: Vec<_> = self.threads.lock().drain(..).collect();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != me) {
            let _ = thread.join();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Queue {
    fn work(&self, first: Urgency) {
        while let Some(job) = self.next(first) {
            self.fuse.guard(|| job(&*self.tree));
        }
    }

    fn next(&self, first: Urgency) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        loop {
            let Waiting { reads, writes, stopped } = &mut *waiting;
            let (mine, others) = if first == Urgency::Read { (reads, writes) } else { (writes, reads) };
            if let Some(job) = mine.pop_front().or_else(|| others.pop_front()) {
                return Some(job);
            }
            if *stopped {
                return None;
            }
            self.arrived.wait(&mut waiting);
        }
    }
}
