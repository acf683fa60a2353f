//! Content that `h2` has taken and the client's connection has not, counted for each connection.
//!
//! `h2` takes an answer's last bytes before the client does, and the request is over then: nobody would know that they still wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use bytes::{Buf, Bytes};

/// What waits on one connection over HTTP/2. Copies are the same queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicUsize,
    moved: AtomicU64,
}

impl Queue {
    /// Content on its way, in this queue until `h2` drops it: sent, or reset, or with its connection.
    pub fn put(&self, bytes: Bytes) -> Queued {
        let held = bytes.len();
        self.0.bytes.fetch_add(held, Relaxed);
        Queued { bytes, held, queue: self.clone() }
    }

    /// Bytes that are in memory for what waits: of a part, all until the last has gone.
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Relaxed)
    }

    /// Bytes that the client's connection has taken so far.
    pub fn moved(&self) -> u64 {
        self.0.moved.load(Relaxed)
    }
}

/// A part of an answer's content, as `h2` has it.
#[derive(Debug)]
pub(crate) struct Queued {
    bytes: Bytes,
    held: usize,
    queue: Queue,
}

impl Buf for Queued {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.queue.0.moved.fetch_add(count as u64, Relaxed);
        self.bytes.advance(count);
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.queue.0.bytes.fetch_sub(self.held, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_until_it_is_dropped() {
        let queue = Queue::default();
        let mut one = queue.put(Bytes::from_static(b"abcde"));
        let other = queue.clone().put(Bytes::from_static(b"fg"));
        assert_eq!((queue.bytes(), queue.moved()), (7, 0));
        one.advance(3);
        assert_eq!((queue.bytes(), queue.moved(), one.chunk()), (7, 3, &b"de"[..]));
        one.advance(2);
        drop(one);
        assert_eq!((queue.bytes(), queue.moved()), (2, 5));
        drop(other);
        assert_eq!((queue.bytes(), queue.moved()), (0, 5));
    }
}
