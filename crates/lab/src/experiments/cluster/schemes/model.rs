//! What the schemes would do on machines of their own: the very nodes that the processes have, in virtual time, with what things cost on this machine.
//!
//! Each node has one processor, which does one thing after the other. What the node's own code takes of it is measured as it runs; reads, messages and HTTP take
//! what was measured of them before ([`Costs`]); a miss takes as many times an answer's cost as is said. Clients ask again as soon as they have their answer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tinaja_cluster::members::{Member, Members, NodeId, Role};
use tinaja_cluster::message::Message;
use tinaja_cluster::node::{Answer, Effect, Node, Options, Ticket};

use super::super::other::processor_time;
use super::super::reads::Costs;
use super::member::{Part, content, key};
use super::spent::{On, Spent, Sums, Throughput};
use crate::random::Random;

type Memory = Arc<Vec<AtomicU64>>;

/// From a message's being sent until it is there. Where processors are busy it changes little.
const LATENCY_NS: u64 = 5000;
/// The cluster's secret.
const SEED: u64 = 42;
/// Clients of each proxy.
const CLIENTS: u64 = 16;

/// A cluster. Memory: all that its nodes lend.
pub struct Model {
    stations: BTreeMap<u64, Station>,
    events: BinaryHeap<Reverse<(u64, u64, u64)>>,
    /// What happens, by its number.
    works: HashMap<u64, (u64, Work)>,
    last: u64,
    now: u64,
    random: Random,
    working_set: u64,
    bytes: u32,
    miss_costs: f64,
    ended: u64,
    fetching: HashMap<(u64, u64), u64>,
    wrong: u64,
    free: Free,
}

struct Station {
    node: Node<Memory>,
    memory: Memory,
    is_proxy: bool,
    free_at: u64,
    spent: Spent,
    ticks_at: u64,
}

enum Work {
    Request,
    Message(Vec<u8>),
    ReadEnded { call: u64, from: NodeId, at: u64, bytes: usize, on: On },
    Origin { object: u64, ticket: Ticket },
    Tick { at: u64 },
}

/// What is taken to cost nothing, to see what it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    pub messages: bool,
    /// All of [`On::Others`].
    pub others: bool,
}

impl Model {
    /// Nodes that begin with nothing.
    pub fn new(parts: &[Part], seed: u64, free: Free) -> Model {
        let first = parts.first();
        let member = |part: &Part| {
            (NodeId(part.id), Member { name: format!("node {}", part.id), role: part.role, lends: part.lends().0 })
        };
        let members = Members::new(parts.iter().map(member).collect());
        let station = |part: &Part| {
            let (lends, bytes) = part.lends();
            let memory: Memory = Arc::new((0..bytes / 8).map(|_| AtomicU64::new(0)).collect());
            let options = Options { scheme: part.scheme, seed: SEED, ..Options::default() };
            let mut node = Node::new(NodeId(part.id), &memory, &lends, options, 2);
            node.set_members(members.clone());
            let is_proxy = part.role == Role::Proxy;
            (part.id, Station { node, memory, is_proxy, free_at: 0, spent: Spent::default(), ticks_at: u64::MAX })
        };
        let mut model = Model {
            stations: parts.iter().map(station).collect(),
            events: BinaryHeap::new(),
            works: HashMap::new(),
            last: 0,
            now: 0,
            random: Random::new(seed),
            working_set: first.map_or(1, |part| part.working_set),
            bytes: first.map_or(0, |part| part.bytes),
            miss_costs: 1.0,
            ended: 0,
            fetching: HashMap::new(),
            wrong: 0,
            free,
        };
        for part in parts.iter().filter(|part| part.role == Role::Proxy) {
            (0..CLIENTS).for_each(|_| model.at(0, part.id, Work::Request));
        }
        model
    }

    fn at(&mut self, time: u64, station: u64, work: Work) {
        self.last += 1;
        self.works.insert(self.last, (station, work));
        self.events.push(Reverse((time, self.last, station)));
    }

    /// Let so many requests come to their end, with misses that cost so many times an answer.
    pub fn run(&mut self, requests: u64, miss_costs: f64, costs: &Costs) -> Throughput {
        self.miss_costs = miss_costs;
        let (began, until) = (self.now, self.ended + requests);
        let before = self.sums();
        while self.ended < until {
            let Some(Reverse((time, number, station))) = self.events.pop() else { break };
            // The processor does something else until then; of what waits, what was begun first is done first.
            let free_at = self.stations.get(&station).map_or(0, |station| station.free_at);
            if free_at > time {
                self.events.push(Reverse((free_at, number, station)));
                continue;
            }
            self.now = time;
            if let Some((station, work)) = self.works.remove(&number) {
                self.happens(station, work, costs);
            }
        }
        let after = self.sums();
        after.since(&before).throughput(requests, self.now - began)
    }

    /// What its proxies have done since it was made.
    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for Station { node, spent, .. } in self.stations.values().filter(|station| station.is_proxy) {
            sums.proxies += 1;
            sums.spent.add(spent);
            sums.found += node.counts().local + node.counts().remote;
            sums.swapped += node.counts().swapped;
        }
        sums
    }

    /// Objects that had other bytes than they should.
    pub fn wrong(&self) -> u64 {
        self.wrong
    }

    fn happens(&mut self, id: u64, work: Work, costs: &Costs) {
        let object = self.random.below(self.working_set);
        // Made before the processor's time is looked at: an origin makes it, not this node.
        let stored = match &work {
            Work::Origin { object, .. } => content(*object, self.bytes),
            _ => Vec::new(),
        };
        let read = match &work {
            Work::ReadEnded { from, at, bytes, .. } => self.memory(*from, *at, *bytes),
            _ => None,
        };
        let (mut messages_us, mut reads_us, mut miss_us, mut on) = (0.0, 0.0, 0.0, On::Requests);
        let message_us = |us: f64| if self.free.messages { 0.0 } else { us };
        let Some(station) = self.stations.get_mut(&id) else { return };
        // An earlier one has taken its place.
        if matches!(work, Work::Tick { at } if at != station.ticks_at) {
            return;
        }
        let began = processor_time();
        station.node.tick(Duration::from_nanos(self.now));
        match work {
            Work::Request => {
                let call = station.node.fetch(&key(object));
                self.fetching.insert((id, call), object);
            }
            Work::Message(message) => {
                messages_us += message_us(costs.receive_us);
                match Message::from_bytes(&message, SEED) {
                    Ok((from, message)) => {
                        on = On::message(&message);
                        station.node.received(from, message);
                    }
                    Err(_) => station.node.count_garbage(),
                }
            }
            Work::ReadEnded { call, bytes, on: whose, .. } => {
                on = whose;
                reads_us += costs.read_us(bytes);
                station.node.read_ended(call, read.as_deref());
            }
            Work::Origin { object, ticket } => {
                miss_us += self.miss_costs * costs.serve_us(self.bytes as usize);
                station.node.store(&key(object), &stored, ticket);
            }
            Work::Tick { .. } => (on, station.ticks_at) = (On::Tables, u64::MAX),
        }
        let effects: Vec<Effect> = std::iter::from_fn(|| station.node.effect()).collect();
        let messages = effects.iter().filter_map(|effect| match effect {
            Effect::Send(to, message) => Some((*to, message.to_bytes(NodeId(id), SEED))),
            _ => None,
        });
        let messages: Vec<(NodeId, Vec<u8>)> = messages.collect();
        let code_us = (processor_time() - began).as_secs_f64() * 1e6;
        messages_us += message_us(costs.send_us * messages.len() as f64);
        let found = effects.iter().filter(|effect| matches!(effect, Effect::Answer(_, Answer::Found { .. }))).count();
        let answers_us = costs.serve_us(self.bytes as usize) * found as f64;
        if self.free.others && on == On::Others {
            (messages_us, reads_us) = (0.0, 0.0);
        }
        let own_us = if self.free.others && on == On::Others { 0.0 } else { code_us + messages_us + reads_us };
        let took = |us: f64| (us * 1e3) as u64;
        let work = [(On::Answers, took(answers_us)), (On::Misses, took(miss_us)), (on, took(own_us))];
        let all: u64 = work.iter().map(|(_, ns)| ns).sum();
        station.spent.add(&Spent::of(work, took(messages_us), took(reads_us)));
        station.free_at = self.now + all;
        let (free_at, wakes_at) = (station.free_at, station.node.wakes_at().map(|at| at.as_nanos() as u64));
        if let Some(at) = wakes_at.filter(|at| *at < station.ticks_at) {
            station.ticks_at = at;
            self.at(at.max(free_at), id, Work::Tick { at });
        }
        for (to, message) in messages {
            self.at(free_at + LATENCY_NS, to.0, Work::Message(message));
        }
        for effect in effects {
            match effect {
                Effect::Send(..) => {}
                Effect::Read { call, node, at, bytes } => {
                    self.at(free_at, id, Work::ReadEnded { call, from: node, at, bytes, on });
                }
                Effect::Answer(call, answer) => self.answered(id, call, answer, free_at),
            }
        }
    }

    fn answered(&mut self, id: u64, call: u64, answer: Answer, at: u64) {
        let Some(object) = self.fetching.remove(&(id, call)) else { return };
        match answer {
            Answer::Found { payload, .. } => {
                self.wrong += u64::from(payload.get(..8) != content(object, 8).get(..8));
                self.ended += 1;
                self.at(at, id, Work::Request);
            }
            Answer::Absent(ticket) => {
                self.ended += 1;
                self.at(at, id, Work::Origin { object, ticket });
                self.at(at, id, Work::Request);
            }
            Answer::Older(_) | Answer::Valid(_) | Answer::Invalidated(_) => {}
        }
    }

    fn memory(&self, node: NodeId, at: u64, bytes: usize) -> Option<Vec<u8>> {
        let words = self.stations.get(&node.0)?.memory.get(at as usize / 8..(at as usize + bytes) / 8)?;
        let mut copy = Vec::with_capacity(bytes);
        words.iter().for_each(|word| copy.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()));
        Some(copy)
    }
}
