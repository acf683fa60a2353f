//! Reads by UCX of those nodes whose memory can be read without their help, and all else by HTTP/2.
//!
//! UCX does not say how it reads, and some of its ways need the other process. So each node is tried once: it is asked to leave UCX alone for a moment, and its
//! memory is read meanwhile. If that works, reads go that way from then on. Messages go by mutual TLS in any case: UCX believes everybody.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tinaja_clock::Clock;
use tinaja_ucx::{Context, Key, Worker};

use crate::error::JoinError;
use crate::inbox::Inbox;
use crate::lent::{Lending, STILL};
use crate::links::{LENDS, Links, STILLS, Work};
use crate::members::NodeId;
use crate::over_http2::OverHttp2;
use crate::over_ucx::OverUcx;
use crate::transport::{Brought, Transport};

/// Numbers of the reads by which nodes are tried; a node's own begin at one.
const TRIALS: u64 = 1 << 63;
/// How often a first read is begun: connections are made meanwhile.
const FIRST_READS: u32 = 10;
/// A node whose memory is not read without help is tried again after so long.
const AGAIN: Duration = Duration::from_secs(10);
/// How often UCX is looked after while another node makes a connection, and while a read is under way.
const AWAKE: Duration = Duration::from_millis(5);
const READING: Duration = Duration::from_micros(50);
/// How long another node may take to say something.
const ANSWER: Duration = Duration::from_secs(2);

/// See the module.
pub struct OverBoth<C> {
    http2: OverHttp2<C>,
    near: Option<Near<C>>,
}

impl<C: Send + 'static> OverBoth<C> {
    /// Nobody is reached yet. `near` is for reads without help.
    pub fn new(http2: OverHttp2<C>, near: Option<Near<C>>) -> OverBoth<C> {
        OverBoth { http2, near }
    }

    /// These are reached from now on, and nobody else.
    pub fn reach(&mut self, peers: HashMap<NodeId, SocketAddr>) {
        if let Some(near) = &mut self.near {
            near.reach(&peers);
        }
        self.http2.reach(peers);
    }

    /// How each node's memory is read, and whether that is without its help.
    pub fn ways(&self) -> HashMap<NodeId, (String, bool)> {
        let ways = self.near.iter().flat_map(|near| &near.peers);
        ways.map(|(node, peer)| (*node, (peer.stage.to_string(), matches!(peer.stage, Stage::OneSided)))).collect()
    }

    /// Reads that were done without the help of other nodes.
    pub fn one_sided_reads(&self) -> u64 {
        self.near.as_ref().map_or(0, |near| near.count)
    }
}

impl<C: Send + 'static> Transport for OverBoth<C> {
    fn read(&mut self, call: u64, node: NodeId, at: u64, bytes: usize) {
        match &mut self.near {
            Some(near) if near.is_one_sided(node) => near.read(call, node, at, bytes),
            _ => self.http2.read(call, node, at, bytes),
        }
    }

    fn send(&mut self, node: NodeId, message: &[u8]) {
        self.http2.send(node, message);
    }

    fn turn(&mut self, brought: &mut Vec<Brought>) {
        if let Some(near) = &mut self.near {
            near.turn(brought);
        }
        self.http2.turn(brought);
    }

    fn sleep(&mut self, at_most: Duration) {
        let at_most = self.near.as_ref().map_or(at_most, |near| at_most.min(near.patience()));
        if !at_most.is_zero() {
            self.http2.sleep(at_most);
        }
    }
}

/// Nodes whose memory may be read without their help. It is used by the thread that made it.
pub struct Near<C> {
    ucx: OverUcx,
    lending: Arc<Lending>,
    links: Links,
    inbox: Arc<Inbox<C>>,
    clock: Clock,
    peers: HashMap<NodeId, Peer>,
    /// What nodes have answered, until the next turn.
    said: Arc<Mutex<Vec<Said>>>,
    /// Reads that are under way, and whose memory they read.
    reads: HashMap<u64, NodeId>,
    trials: u64,
    ended: Vec<Brought>,
    count: u64,
}

/// What one has answered: which question, and what.
type Said = (NodeId, &'static str, Option<Box<[u8]>>);

struct Peer {
    address: SocketAddr,
    stage: Stage,
}

/// How far it is known whether a node's memory is read without its help. `Display` is for the status.
#[derive(Debug, thiserror::Error)]
enum Stage {
    /// It was asked what it lends.
    #[error("HTTP/2 over mutual TLS; UCX is tried")]
    Asked,
    /// Its memory is read for the first time, so often so far.
    #[error("HTTP/2 over mutual TLS; UCX connects")]
    Connects(u32),
    /// It was asked at that time to leave UCX alone.
    #[error("HTTP/2 over mutual TLS; UCX is tried")]
    IsToBeStill(Instant),
    /// It does so, and its memory is read.
    #[error("HTTP/2 over mutual TLS; UCX is tried")]
    IsStill(Instant),
    #[error("UCX")]
    OneSided,
    /// Not, why, and when it is tried again.
    #[error("HTTP/2 over mutual TLS: {0}")]
    Not(&'static str, Instant),
}

impl<C: Send + 'static> Near<C> {
    /// Nobody is reached yet. Others are told of the memory with this key. A read that takes longer than `patience` is given up.
    ///
    /// Errors: [`JoinError::System`].
    pub fn start(
        (context, key): (&Context, &Key),
        lending: Arc<Lending>,
        (links, inbox): (Links, Arc<Inbox<C>>),
        clock: Clock,
        patience: Duration,
    ) -> Result<Near<C>, JoinError> {
        let system = |why: tinaja_ucx::Error| JoinError::System(why.to_string());
        let worker = Worker::start(context, clock.clone()).map_err(system)?;
        lending.tell(&worker.address().map_err(system)?, key);
        let ucx = OverUcx::new(worker, clock.clone(), patience);
        let (peers, said, reads, ended) = Default::default();
        Ok(Near { ucx, lending, links, inbox, clock, peers, said, reads, trials: TRIALS, ended, count: 0 })
    }

    fn reach(&mut self, peers: &HashMap<NodeId, SocketAddr>) {
        let gone: Vec<NodeId> = self.peers.keys().filter(|node| !peers.contains_key(node)).copied().collect();
        for node in gone {
            self.peers.remove(&node);
            self.ucx.forget(node);
        }
        for (node, address) in peers {
            if !self.peers.contains_key(node) {
                self.peers.insert(*node, Peer { address: *address, stage: Stage::Asked });
                self.ask(*node, *address, LENDS);
            }
        }
    }

    fn is_one_sided(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| matches!(peer.stage, Stage::OneSided))
    }

    /// What it answers is in one of the next turns.
    fn ask(&self, node: NodeId, address: SocketAddr, path: &'static str) {
        let (said, inbox) = (self.said.clone(), self.inbox.clone());
        let tell = Box::new(move |answer| {
            said.lock().push((node, path, answer));
            inbox.wake();
        });
        self.links.send(address, Work::Ask { path, until: self.clock.now() + ANSWER, tell });
    }

    fn read(&mut self, call: u64, node: NodeId, at: u64, bytes: usize) {
        self.count += 1;
        self.reads.insert(call, node);
        self.ucx.read(call, node, at, bytes);
    }

    /// A read of the first word, which says nothing but that it works.
    fn trial(&mut self, node: NodeId) {
        self.trials += 1;
        self.reads.insert(self.trials, node);
        self.ucx.read(self.trials, node, 0, 8);
    }

    fn turn(&mut self, brought: &mut Vec<Brought>) {
        let said = std::mem::take(&mut *self.said.lock());
        for (node, path, answer) in said {
            self.heard(node, path, answer.as_deref());
        }
        self.lending.unless_still(self.clock.now(), || self.ucx.progress());
        let mut ended = std::mem::take(&mut self.ended);
        self.ucx.collect(&mut ended);
        for one in ended.drain(..) {
            // Messages come by TLS alone.
            let Brought::Read { call, bytes } = one else { continue };
            let node = self.reads.remove(&call);
            if call >= TRIALS {
                node.into_iter().for_each(|node| self.tried(node, bytes.is_some()));
                continue;
            }
            if let (Some(node), None) = (node, &bytes) {
                self.not(node, "a read by UCX took too long");
            }
            brought.push(Brought::Read { call, bytes });
        }
        self.ended = ended;
        let now = self.clock.now();
        let again =
            self.peers.iter_mut().filter(|(_, peer)| matches!(peer.stage, Stage::Not(_, again) if now >= again));
        let again: Vec<(NodeId, SocketAddr)> = again
            .map(|(node, peer)| {
                peer.stage = Stage::Asked;
                (*node, peer.address)
            })
            .collect();
        again.into_iter().for_each(|(node, address)| self.ask(node, address, LENDS));
    }

    fn heard(&mut self, node: NodeId, path: &'static str, answer: Option<&[u8]>) {
        let Some(peer) = self.peers.get(&node) else { return };
        match (path, &peer.stage, answer) {
            (LENDS, Stage::Asked, Some(told)) => match Lending::heard(told) {
                None => self.not(node, "it has no memory for UCX, or another version of it"),
                Some((address, key)) => match self.ucx.reach(node, &address, &key) {
                    Ok(()) => {
                        self.stage(node, Stage::Connects(1));
                        self.trial(node);
                    }
                    Err(why) => {
                        tracing::warn!(node = node.0, %why, "UCX does not reach a node of the cluster");
                        self.not(node, "UCX does not reach it");
                    }
                },
            },
            (STILLS, Stage::IsToBeStill(asked), Some(_)) => {
                let asked = *asked;
                self.stage(node, Stage::IsStill(asked));
                self.trial(node);
            }
            (_, Stage::Asked | Stage::IsToBeStill(_), None) => self.not(node, "it offers no reads by UCX"),
            _ => {}
        }
    }

    /// The first word of a node's memory was read, or not.
    fn tried(&mut self, node: NodeId, works: bool) {
        let Some(peer) = self.peers.get(&node) else { return };
        let (address, now) = (peer.address, self.clock.now());
        match (&peer.stage, works) {
            (Stage::Connects(_), true) => {
                self.stage(node, Stage::IsToBeStill(now));
                self.ask(node, address, STILLS);
            }
            (Stage::Connects(tries), false) if *tries < FIRST_READS => {
                let tries = tries + 1;
                self.stage(node, Stage::Connects(tries));
                self.trial(node);
            }
            // It was still for all of that time: it was asked after the beginning, and is for longer.
            (Stage::IsStill(asked), true) if now < *asked + STILL => {
                tracing::info!(node = node.0, "the memory of a node of the cluster is read without its help");
                self.stage(node, Stage::OneSided);
            }
            (Stage::IsStill(_), true) => self.not(node, "whether UCX reads it without its help was not certain"),
            _ => self.not(node, "UCX does not read its memory without its help"),
        }
    }

    fn stage(&mut self, node: NodeId, stage: Stage) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.stage = stage;
        }
    }

    fn not(&mut self, node: NodeId, why: &'static str) {
        self.stage(node, Stage::Not(why, self.clock.now() + AGAIN));
    }

    /// When it has to be looked after again.
    fn patience(&self) -> Duration {
        let now = self.clock.now();
        let again = self.peers.values().filter_map(|peer| match peer.stage {
            Stage::Not(_, again) => Some(again.saturating_duration_since(now)),
            _ => None,
        });
        if self.ucx.has_ended() || !self.said.lock().is_empty() {
            Duration::ZERO
        } else if !self.reads.is_empty() {
            READING
        } else if self.lending.is_awake(now) {
            AWAKE
        } else {
            again.min().unwrap_or(Duration::MAX)
        }
    }
}
