//! Reads and messages by UCX: one-sided over RDMA and shared memory.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use tinaja_clock::Clock;
use tinaja_ucx::{Address, Endpoint, Error, Get, Key, Remote, Worker};

use crate::members::NodeId;
use crate::transport::{Brought, Transport};

/// How much is made to go on before what has come is looked at.
const MAX_STEPS: usize = 1000;

/// A worker with the ways to all peers. It is used by the thread that made it.
pub struct OverUcx {
    worker: Worker,
    clock: Clock,
    patience: Duration,
    peers: HashMap<NodeId, Peer>,
    /// In the order in which they were begun, which is that of their deadlines.
    reads: VecDeque<Reading>,
    /// Reads that were over as soon as they were begun.
    ended: Vec<Brought>,
    unsent: u64,
}

struct Peer {
    endpoint: Endpoint,
    remote: Remote,
}

struct Reading {
    call: u64,
    get: Get,
    until: Instant,
}

impl OverUcx {
    /// Nobody is reached yet. A read that takes longer than `patience` is given up.
    pub fn new(worker: Worker, clock: Clock, patience: Duration) -> OverUcx {
        let (peers, reads, ended) = Default::default();
        OverUcx { worker, clock, patience, peers, reads, ended, unsent: 0 }
    }

    /// From now on a node is reached there, and its memory read with this key. Errors: as [`Worker::connect`] and [`Endpoint::remote`].
    pub fn reach(&mut self, node: NodeId, address: &Address, key: &Key) -> Result<(), Error> {
        let endpoint = self.worker.connect(address)?;
        let remote = endpoint.remote(key)?;
        self.peers.insert(node, Peer { endpoint, remote });
        Ok(())
    }

    /// A node is gone.
    pub fn forget(&mut self, node: NodeId) {
        self.peers.remove(&node);
    }

    /// Make everything go on, until nothing moves, and no longer than that: the next call is for what comes later.
    pub fn progress(&self) {
        let _ = (0..MAX_STEPS).find(|_| self.worker.progress() == 0);
    }

    /// Tell what has come, without making anything go on.
    pub fn collect(&mut self, brought: &mut Vec<Brought>) {
        brought.extend(std::iter::from_fn(|| self.worker.message()).map(Brought::Message));
        brought.append(&mut self.ended);
        if self.reads.is_empty() {
            return;
        }
        let now = self.clock.now();
        self.reads.retain_mut(|reading| match reading.get.poll() {
            Some(result) => {
                brought.push(Brought::Read { call: reading.call, bytes: result.ok() });
                false
            }
            None if now >= reading.until => {
                brought.push(Brought::Read { call: reading.call, bytes: None });
                false
            }
            None => true,
        });
    }

    /// Whether reads were over as soon as they were begun, and have not been told.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Messages that could not be sent, as too many were waiting or the node is not known.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }
}

impl Transport for OverUcx {
    fn read(&mut self, call: u64, node: NodeId, at: u64, bytes: usize) {
        let peer = self.peers.get(&node);
        let Some(mut get) = peer.and_then(|peer| peer.endpoint.get(&peer.remote, at, bytes).ok()) else {
            return self.ended.push(Brought::Read { call, bytes: None });
        };
        // Of shared memory it is over by now.
        match get.poll() {
            Some(result) => self.ended.push(Brought::Read { call, bytes: result.ok() }),
            None => self.reads.push_back(Reading { call, get, until: self.clock.now() + self.patience }),
        }
    }

    fn send(&mut self, node: NodeId, message: &[u8]) {
        match self.peers.get(&node).map(|peer| peer.endpoint.send(message)) {
            Some(Ok(sending)) => sending.go(),
            Some(Err(_)) | None => self.unsent += 1,
        }
    }

    fn turn(&mut self, brought: &mut Vec<Brought>) {
        self.progress();
        self.collect(brought);
    }

    fn sleep(&mut self, at_most: Duration) {
        if !self.ended.is_empty() {
            return;
        }
        let now = self.clock.now();
        let at_most =
            self.reads.front().map_or(at_most, |first| at_most.min(first.until.saturating_duration_since(now)));
        self.worker.sleep(at_most);
    }
}
