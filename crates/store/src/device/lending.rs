//! A disk whose reads a program may carry out itself: the read that would be made is handed out, and its bytes are
//! handed in.
//!
//! An engine finds a record by reading, judging what it read, and perhaps reading on. Who wants the place of a record
//! and not the record wants the same steps with the reading left to him. So inside [`catch`] the first read that this
//! thread submits to a [`Lending`] is not carried out: it comes back as a [`Handed`], with where it would have read.
//! [`Handed::answer`] ends it with the program's bytes, and the engine goes on as if its disk had read them: with the
//! same checks, the same counters, and perhaps a further read, which a `catch` around the answer hands out in turn. What
//! an engine submits on another thread is read as always.

use std::cell::RefCell;
use std::fs::File;
use std::sync::Arc;

use tinaja_clock::Clock;

use super::{Counters, Device, Geometry, Op, Outcome, Request};
use crate::memory::AlignedBuf;

thread_local! {
    /// Whether a read of this thread is to be caught, and the one that was.
    static CATCH: RefCell<Option<Option<Handed>>> = const { RefCell::new(None) };
}

/// A device over another, which knows the file that it reads. One look at a thread's own variable a request.
pub struct Lending {
    below: Arc<dyn Device>,
    file: Arc<File>,
}

/// A read to be carried out by whoever has it. Dropped, it was never made, and whoever asked for it is told nothing.
/// Memory: what the engine remembers of the request, some hundred bytes; no buffer.
pub struct Handed {
    file: Arc<File>,
    at: u64,
    bytes: usize,
    block_bytes: u64,
    done: Box<dyn FnOnce(Outcome) + Send>,
}

impl Lending {
    /// Hand out reads of `below` as reads of `file`, which holds the same bytes at the same places.
    pub fn over(below: Arc<dyn Device>, file: Arc<File>) -> Self {
        Lending { below, file }
    }

    fn handed(&self, at: u64, bytes: usize, done: Box<dyn FnOnce(Outcome) + Send>) -> Handed {
        let Geometry { block_bytes, direct, .. } = self.below.geometry();
        let block_bytes = if direct { block_bytes } else { 1 };
        Handed { file: self.file.clone(), at, bytes, block_bytes, done }
    }
}

impl Handed {
    /// The file to read, open for reading only and, where the store reads so itself, past the page cache.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Where in the file, in bytes.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the memory to read into must be aligned to: 1 where the page cache is used.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// End the read with what is in `bytes`, as many as [`Handed::bytes`] says.
    pub fn answer(self, bytes: &[u8]) {
        let mut buffer = AlignedBuf::zeroed(self.bytes);
        buffer.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        (self.done)(Outcome { buffer: Some(buffer), result: Ok(()) });
    }
}

/// Do `work`, and return with its result the first read that it submitted to a [`Lending`] on this thread, if any.
pub fn catch<T>(work: impl FnOnce() -> T) -> (T, Option<Handed>) {
    /// Puts back what was before, whatever happens.
    struct Restore(Option<Option<Option<Handed>>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            CATCH.with(|catch| before.map(|before| catch.replace(before)));
        }
    }
    let before = CATCH.with(|catch| catch.replace(Some(None)));
    let restore = Restore(Some(before));
    let result = work();
    let caught = CATCH.with(|catch| catch.borrow_mut().take());
    drop(restore);
    (result, caught.flatten())
}

/// Whether the next read that this thread submits will be handed out: a [`catch`] is under way on it that has nothing yet.
/// Such a read may never end, so nobody else may be made to wait for it.
pub fn is_wanted() -> bool {
    // A thread that ends has no variables any more, and catches nothing.
    CATCH.try_with(|catch| matches!(*catch.borrow(), Some(None))).unwrap_or(false)
}

impl Device for Lending {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        match op.request {
            Request::Read { at, into } if is_wanted() => {
                let handed = self.handed(at, into.len(), op.done);
                CATCH.with(|catch| catch.replace(Some(Some(handed))));
            }
            request => self.below.submit(Op { request, ..op }),
        }
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.below.stop();
    }

    fn release(&self) {
        self.below.release();
    }
}
