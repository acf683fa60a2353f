//! Reads and messages by HTTP/2 over mutual TLS, for networks without anything better: the neighbour's processor takes part in each read.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tinaja_clock::Clock;

use crate::inbox::{Came, Inbox};
use crate::links::{Links, Work};
use crate::members::NodeId;
use crate::transport::{Brought, Transport};

/// The neighbours' addresses, and the reads that are under way.
pub struct OverHttp2<C> {
    links: Links,
    inbox: Arc<Inbox<C>>,
    clock: Clock,
    patience: Duration,
    peers: HashMap<NodeId, SocketAddr>,
    /// The calls that wait for a read, by the read's number: one call may read several times.
    reads: HashMap<u64, u64>,
    /// In the order in which they were begun, which is that of their deadlines.
    deadlines: VecDeque<(Instant, u64)>,
    last: u64,
    ended: Vec<Brought>,
    came: Vec<Came>,
}

impl<C: Send + 'static> OverHttp2<C> {
    /// Nobody is reached yet. A read that takes longer than `patience` is given up.
    pub fn new(links: Links, inbox: Arc<Inbox<C>>, clock: Clock, patience: Duration) -> OverHttp2<C> {
        let (peers, reads, deadlines, ended, came) = Default::default();
        OverHttp2 { links, inbox, clock, patience, peers, reads, deadlines, last: 0, ended, came }
    }

    /// These are reached from now on, and nobody else.
    pub fn reach(&mut self, peers: HashMap<NodeId, SocketAddr>) {
        for (node, address) in &self.peers {
            if !peers.values().any(|other| other == address) {
                self.links.forget(*address);
            }
            tracing::debug!(node = node.0, %address, "no longer a node of the cluster, or another life of it");
        }
        self.peers = peers;
    }
}

impl<C: Send + 'static> Transport for OverHttp2<C> {
    fn read(&mut self, call: u64, node: NodeId, at: u64, bytes: usize) {
        let Some(address) = self.peers.get(&node) else {
            return self.ended.push(Brought::Read { call, bytes: None });
        };
        self.last += 1;
        let (number, until) = (self.last, self.clock.now() + self.patience);
        self.reads.insert(number, call);
        self.deadlines.push_back((until, number));
        let inbox = self.inbox.clone();
        let tell = Box::new(move |brought| {
            // There is always room for what was asked for.
            let _ = inbox.put(Came::Read(number, brought));
        });
        self.links.send(*address, Work::Read { at, bytes, until, tell });
    }

    fn send(&mut self, node: NodeId, message: &[u8]) {
        if let Some(address) = self.peers.get(&node) {
            self.links.send(*address, Work::Message(message.to_vec()));
        }
    }

    fn turn(&mut self, brought: &mut Vec<Brought>) {
        brought.append(&mut self.ended);
        self.inbox.take(&mut self.came);
        for came in self.came.drain(..) {
            match came {
                Came::Message(message) => brought.push(Brought::Message(message)),
                Came::Read(number, bytes) => {
                    // Those that came too late are over already.
                    brought.extend(self.reads.remove(&number).map(|call| Brought::Read { call, bytes }));
                }
            }
        }
        let now = self.clock.now();
        while let Some((_, number)) = self.deadlines.pop_front_if(|(until, _)| *until <= now) {
            brought.extend(self.reads.remove(&number).map(|call| Brought::Read { call, bytes: None }));
        }
    }

    fn sleep(&mut self, at_most: Duration) {
        if !self.ended.is_empty() {
            return;
        }
        let now = self.clock.now();
        let next = self.deadlines.front().map_or(at_most, |(until, _)| until.saturating_duration_since(now));
        self.inbox.wait(at_most.min(next));
    }
}
