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
use tinaja_ucx::{Address, Context, Key, Worker};

use crate::arena::WORD;
use crate::error::JoinError;
use crate::inbox::Inbox;
use crate::lent::{Lending, STILL};
use crate::links::{LENDS, Links, STILLS, Work};
use crate::members::NodeId;
use crate::over_http2::OverHttp2;
use crate::over_ucx::OverUcx;
use crate::table::BUCKET_BYTES;
use crate::transport::{Brought, Transport};

/// Numbers of the reads by which nodes are tried; a node's own begin at one.
const TRIALS: u64 = 1 << 63;
/// Reads by which a node that is still is tried.
const TRIAL_STEPS: usize = 3;
/// How often a first read is begun: connections are made meanwhile.
const FIRST_READS: u32 = 10;
/// A node whose memory is not read without help is tried again after so long, and later each time, up to the second of these.
const AGAIN: Duration = Duration::from_secs(10);
const MOST_AGAIN: Duration = Duration::from_secs(300);
/// One of which that was not certain is tried again after so long.
const SOON: Duration = Duration::from_secs(1);
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
        let at_most = self.near.as_ref().map_or(at_most, |near| at_most.min(near.due()));
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
    patience: Duration,
    /// What is read at once at most.
    most_bytes: usize,
    peers: HashMap<NodeId, Peer>,
    /// What nodes have answered, until the next turn.
    said: Arc<Mutex<Vec<Said>>>,
    /// Reads that are under way, and whose memory they read.
    reads: HashMap<u64, NodeId>,
    trials: u64,
    ended: Vec<Brought>,
    count: u64,
}

/// What one has answered: the number of the question, and what.
type Said = (NodeId, u64, Option<Box<[u8]>>);

struct Peer {
    address: SocketAddr,
    stage: Stage,
    /// The number of what it was asked last, or of the read by which it is tried: answers to anything before are too late.
    number: u64,
    /// When that has to have come to something.
    until: Instant,
    /// What it told, and is reached with.
    reached: Option<(Address, Key)>,
    /// After how long it is tried again.
    again: Duration,
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
    /// It does so, and so many of [`Near::trial_bytes`] were read.
    #[error("HTTP/2 over mutual TLS; UCX is tried")]
    IsStill(Instant, usize),
    #[error("UCX")]
    OneSided,
    /// Not, and why; it is tried again.
    #[error("HTTP/2 over mutual TLS: {0}")]
    Not(&'static str),
}

impl Peer {
    /// Whether something has to come of it now.
    fn is_due(&self, now: Instant) -> bool {
        now >= self.until && !matches!(self.stage, Stage::OneSided)
    }
}

impl<C: Send + 'static> Near<C> {
    /// Nobody is reached yet. Others are told of the memory with this key. A read that takes longer than `patience` is given up; none brings more than
    /// `most_bytes`.
    ///
    /// Errors: [`JoinError::System`].
    pub fn start(
        (context, key): (&Context, &Key),
        lending: Arc<Lending>,
        (links, inbox): (Links, Arc<Inbox<C>>),
        clock: Clock,
        (patience, most_bytes): (Duration, usize),
    ) -> Result<Near<C>, JoinError> {
        let system = |why: tinaja_ucx::Error| JoinError::System(why.to_string());
        let worker = Worker::start(context, clock.clone()).map_err(system)?;
        lending.tell(&worker.address().map_err(system)?, key);
        let ucx = OverUcx::new(worker, clock.clone(), patience);
        let (peers, said, reads, ended) = Default::default();
        let trials = TRIALS;
        Ok(Near {
            ucx,
            lending,
            links,
            inbox,
            clock,
            patience,
            most_bytes,
            peers,
            said,
            reads,
            trials,
            ended,
            count: 0,
        })
    }

    fn reach(&mut self, peers: &HashMap<NodeId, SocketAddr>) {
        let gone: Vec<NodeId> = self.peers.keys().filter(|node| !peers.contains_key(node)).copied().collect();
        for node in gone {
            self.peers.remove(&node);
            self.ucx.forget(node);
        }
        for (node, address) in peers {
            if !self.peers.contains_key(node) {
                let (stage, until) = (Stage::Asked, self.clock.now());
                let peer = Peer { address: *address, stage, number: 0, until, reached: None, again: AGAIN };
                self.peers.insert(*node, peer);
                self.ask(*node, LENDS, Stage::Asked);
            }
        }
    }

    fn is_one_sided(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| matches!(peer.stage, Stage::OneSided))
    }

    /// A peer that is in another stage now, and has so long for it; the number of what is begun with that.
    fn stage(&mut self, node: NodeId, stage: Stage, within: Duration) -> Option<(u64, SocketAddr)> {
        self.trials += 1;
        let peer = self.peers.get_mut(&node)?;
        (peer.stage, peer.number, peer.until) = (stage, self.trials, self.clock.now() + within);
        Some((self.trials, peer.address))
    }

    /// What it answers is in one of the next turns.
    fn ask(&mut self, node: NodeId, path: &'static str, stage: Stage) {
        let Some((number, address)) = self.stage(node, stage, 2 * ANSWER) else { return };
        let (said, inbox) = (self.said.clone(), self.inbox.clone());
        let tell = Box::new(move |answer| {
            said.lock().push((node, number, answer));
            inbox.wake();
        });
        self.links.send(address, Work::Ask { path, until: self.clock.now() + ANSWER, tell });
    }

    fn read(&mut self, call: u64, node: NodeId, at: u64, bytes: usize) {
        self.count += 1;
        self.reads.insert(call, node);
        self.ucx.read(call, node, at, bytes);
    }

    /// A read from the beginning, which says nothing but that it works.
    fn trial(&mut self, node: NodeId, bytes: usize, stage: Stage) {
        if let Some((number, _)) = self.stage(node, stage, 2 * self.patience) {
            self.reads.insert(number, node);
            self.ucx.read(number, node, 0, bytes);
        }
    }

    fn turn(&mut self, brought: &mut Vec<Brought>) {
        let said = std::mem::take(&mut *self.said.lock());
        for (node, number, answer) in said {
            if self.peers.get(&node).is_some_and(|peer| peer.number == number) {
                self.heard(node, answer.as_deref());
            }
        }
        let now = self.clock.now();
        let mut is_still = true;
        self.lending.unless_still(now, || {
            is_still = false;
            self.ucx.progress();
        });
        let mut ended = std::mem::take(&mut self.ended);
        self.ucx.collect(&mut ended);
        for one in ended.drain(..) {
            // Messages come by TLS alone.
            let Brought::Read { call, bytes } = one else { continue };
            let node = self.reads.remove(&call);
            if call >= TRIALS {
                let current = |node: &NodeId| self.peers.get(node).is_some_and(|peer| peer.number == call);
                node.filter(current).into_iter().for_each(|node| self.tried(node, bytes.is_some()));
                continue;
            }
            // What this node itself has held up says nothing of the other.
            if let (Some(node), None, false) = (node, &bytes, is_still) {
                self.not(node, "a read by UCX took too long");
            }
            brought.push(Brought::Read { call, bytes });
        }
        self.ended = ended;
        let due: Vec<NodeId> = self.peers.iter().filter(|(_, peer)| peer.is_due(now)).map(|(node, _)| *node).collect();
        for node in due {
            match self.peers.get(&node).map(|peer| &peer.stage) {
                Some(Stage::Not(_)) => self.ask(node, LENDS, Stage::Asked),
                _ => self.not(node, "it does not answer"),
            }
        }
    }

    /// A peer has answered what it was asked.
    fn heard(&mut self, node: NodeId, answer: Option<&[u8]>) {
        let Some(peer) = self.peers.get(&node) else { return };
        match (&peer.stage, answer) {
            (Stage::Asked, Some(told)) => match Lending::heard(told) {
                None => self.not(node, "it has no memory for UCX, or another version of it"),
                // Each way takes memory: one that was made before is used.
                Some(told) if peer.reached.as_ref() == Some(&told) => self.trial(node, WORD, Stage::Connects(1)),
                Some((address, key)) => match self.ucx.reach(node, &address, &key) {
                    Ok(()) => {
                        if let Some(peer) = self.peers.get_mut(&node) {
                            peer.reached = Some((address, key));
                        }
                        self.trial(node, WORD, Stage::Connects(1));
                    }
                    Err(why) => {
                        tracing::warn!(node = node.0, %why, "UCX does not reach a node of the cluster");
                        self.not(node, "UCX does not reach it");
                    }
                },
            },
            (Stage::IsToBeStill(asked), Some(_)) => {
                let asked = *asked;
                self.trial(node, self.trial_bytes(0), Stage::IsStill(asked, 0));
            }
            (_, None) => self.not(node, "it offers no reads by UCX"),
            _ => {}
        }
    }

    /// What is read while a node is still. UCX goes other ways for other sizes: a word, a bucket of the key-table, the largest object.
    fn trial_bytes(&self, step: usize) -> usize {
        [WORD, BUCKET_BYTES, self.most_bytes].get(step).copied().unwrap_or(WORD)
    }

    /// A part of a node's memory was read, or not.
    fn tried(&mut self, node: NodeId, works: bool) {
        let Some(peer) = self.peers.get(&node) else { return };
        let now = self.clock.now();
        match (&peer.stage, works) {
            (Stage::Connects(_), true) => self.ask(node, STILLS, Stage::IsToBeStill(now)),
            (Stage::Connects(tries), false) if *tries < FIRST_READS => {
                let tries = tries + 1;
                self.trial(node, WORD, Stage::Connects(tries));
            }
            // It was still for all of that time: it was asked after the beginning, and is for longer.
            (Stage::IsStill(asked, step), true) if now < *asked + STILL => {
                let (asked, step) = (*asked, *step + 1);
                if step < TRIAL_STEPS {
                    return self.trial(node, self.trial_bytes(step), Stage::IsStill(asked, step));
                }
                tracing::info!(node = node.0, "the memory of a node of the cluster is read without its help");
                self.stage(node, Stage::OneSided, Duration::ZERO);
            }
            (Stage::IsStill(..), true) => {
                self.stage(node, Stage::Not("whether UCX reads it without its help was not certain"), SOON);
            }
            _ => self.not(node, "UCX does not read its memory without its help"),
        }
    }

    fn not(&mut self, node: NodeId, why: &'static str) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let again = peer.again;
        peer.again = (2 * again).min(MOST_AGAIN);
        self.stage(node, Stage::Not(why), again);
    }

    /// When it has to be looked after again.
    fn due(&self) -> Duration {
        let now = self.clock.now();
        let due = self.peers.values().filter(|peer| !matches!(peer.stage, Stage::OneSided));
        let due = due.map(|peer| peer.until.saturating_duration_since(now)).min().unwrap_or(Duration::MAX);
        if self.ucx.has_ended() || !self.said.lock().is_empty() {
            Duration::ZERO
        } else if self.reads.keys().any(|call| *call < TRIALS) {
            READING.min(due)
        } else if self.lending.is_awake(now) || !self.reads.is_empty() {
            AWAKE.min(due)
        } else {
            due
        }
    }
}
