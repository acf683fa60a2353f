//! A whole cluster in one process, with events in whatever order a seed says: messages and reads take their time, are lost or torn. What clients are given
//! is checked, and in the end what all nodes know of each other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::members::{Member, Role};
use crate::scheme::Small;

type Memory = Arc<Vec<AtomicU64>>;

const PAYLOAD: u32 = 64;

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

enum Event {
    Deliver {
        from: NodeId,
        to: NodeId,
        message: Vec<u8>,
    },
    /// The first half is read now, and the rest at the end.
    Read {
        by: NodeId,
        call: u64,
        node: NodeId,
        at: u64,
        bytes: usize,
    },
    ReadRest {
        by: NodeId,
        call: u64,
        node: NodeId,
        at: u64,
        first: Vec<u8>,
        bytes: usize,
    },
    ReadEnded {
        by: NodeId,
        call: u64,
        brought: Option<Vec<u8>>,
    },
    Members(NodeId, Members),
    Tick(NodeId),
    /// An origin has answered, with what it had when it was asked.
    Origin {
        by: NodeId,
        key: u64,
        version: u64,
        ticket: Ticket,
    },
}

struct Told {
    key: u64,
    began: u64,
}

struct World {
    nodes: BTreeMap<NodeId, Node<Memory>>,
    memories: HashMap<NodeId, Memory>,
    names: BTreeMap<NodeId, (String, Role)>,
    /// When what happens, by its number.
    events: BinaryHeap<Reverse<(u64, u64)>>,
    by_number: HashMap<u64, Event>,
    /// Messages between two nodes keep their order, as UCX's do.
    last_delivery: HashMap<(NodeId, NodeId), u64>,
    number: u64,
    now: u64,
    random: Random,
    /// Of a thousand messages and reads, so many are lost, or fail.
    loses: u64,
    /// The longest that one message or half of a read takes.
    delay: u64,
    /// The longest between two calls.
    pause: u64,
    origin: HashMap<u64, u64>,
    /// Versions that were made invalid everywhere, and when that was said.
    invalidated: HashMap<u64, Vec<(u64, u64)>>,
    fetches: HashMap<(NodeId, u64), Told>,
    invalidations: HashMap<(NodeId, u64), (u64, u64)>,
    answered: u64,
    objects: u32,
    log: Option<Vec<String>>,
}

fn key_of(key: u64) -> SlotKey {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&xxh3_64_with_seed(&key.to_le_bytes(), 5).to_le_bytes());
    bytes[8..].copy_from_slice(&key.to_le_bytes());
    bytes
}

fn content(key: u64, version: u64) -> Vec<u8> {
    let bytes = (key % 8 * 8 + 8) as usize;
    (key << 32 | version).to_le_bytes().into_iter().cycle().take(bytes).collect()
}

fn options(scheme: Scheme) -> Options {
    let ms = Duration::from_millis;
    Options { scheme, seed: 42, tells_room_every: ms(5), repeats_room_every: Duration::MAX, patience: ms(200) }
}

impl World {
    /// So many proxies and passive nodes, with room for so many objects each.
    fn of(scheme: Scheme, proxies: u64, passive: u64, objects: u32, seed: u64) -> World {
        let mut world = World {
            nodes: BTreeMap::new(),
            memories: HashMap::new(),
            names: BTreeMap::new(),
            events: BinaryHeap::new(),
            by_number: HashMap::new(),
            last_delivery: HashMap::new(),
            number: 0,
            now: 0,
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            loses: 0,
            delay: 10,
            pause: 4,
            origin: HashMap::new(),
            invalidated: HashMap::new(),
            fetches: HashMap::new(),
            invalidations: HashMap::new(),
            answered: 0,
            objects,
            log: None,
        };
        for n in 0..proxies + passive {
            let role = if n < proxies { Role::Proxy } else { Role::Passive };
            world.start(NodeId(n + 1), format!("node {n}"), role, scheme);
        }
        world.tell_members();
        // Until each has heard that the others know it.
        world.run(world.now + 100);
        world
    }

    fn lends(&self, role: Role) -> (Lends, u64) {
        Lends::cut(self.objects, PAYLOAD, if role == Role::Proxy { 200 } else { 0 })
    }

    fn start(&mut self, id: NodeId, name: String, role: Role, scheme: Scheme) {
        let (lends, bytes) = self.lends(role);
        let memory: Memory = Arc::new((0..bytes / 8).map(|_| AtomicU64::new(0)).collect());
        self.nodes.insert(id, Node::new(id, &memory, &lends, options(scheme), self.now * 2));
        self.memories.insert(id, memory);
        self.names.insert(id, (name, role));
    }

    /// The members now.
    fn members(&self) -> Members {
        let member = |(id, (name, role)): (&NodeId, &(String, Role))| {
            (*id, Member { name: name.clone(), role: *role, lends: self.lends(*role).0 })
        };
        Members::new(self.names.iter().map(member).collect())
    }

    /// Each node hears of the members at another moment.
    fn tell_members_by_and_by(&mut self) {
        let members = self.members();
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            let at = self.now + self.random.below(10 * self.delay);
            self.at(at, Event::Members(id, members.clone()));
        }
    }

    fn tell_members(&mut self) {
        let members = self.members();
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.nodes.get_mut(&id).unwrap().set_members(members.clone());
            self.carry_out(id);
        }
    }

    fn stop(&mut self, id: NodeId) {
        self.nodes.remove(&id);
        self.memories.remove(&id);
        self.names.remove(&id);
        self.fetches.retain(|(node, _), _| *node != id);
        self.invalidations.retain(|(node, _), _| *node != id);
    }

    fn later(&mut self, event: Event) -> u64 {
        let at = self.now + 1 + self.random.below(self.delay);
        self.at(at, event);
        at
    }

    fn at(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number)));
        self.by_number.insert(self.number, event);
    }

    fn carry_out(&mut self, id: NodeId) {
        while let Some(effect) = self.nodes.get_mut(&id).and_then(Node::effect) {
            if let (Some(log), Effect::Send(..) | Effect::Read { .. }) = (&mut self.log, &effect) {
                log.push(match &effect {
                    Effect::Send(to, message) => {
                        format!("{} tells {}: {}", id.0, to.0, crate::message::KINDS[message.kind()])
                    }
                    Effect::Read { node, bytes, .. } if *bytes == BUCKET_BYTES => {
                        format!("{} looks at {}", id.0, node.0)
                    }
                    Effect::Read { node, .. } => format!("{} reads from {}", id.0, node.0),
                    Effect::Answer(..) => String::new(),
                });
            }
            match effect {
                Effect::Send(to, message) => {
                    let is_lost = self.random.below(1000) < self.loses;
                    let message = message.to_bytes(id, 42);
                    if !is_lost {
                        let last = self.last_delivery.get(&(id, to)).copied().unwrap_or_default();
                        let at = last.max(self.now + 1 + self.random.below(self.delay));
                        self.last_delivery.insert((id, to), at);
                        self.at(at, Event::Deliver { from: id, to, message });
                    }
                }
                Effect::Read { call, node, at, bytes } => {
                    self.later(Event::Read { by: id, call, node, at, bytes });
                }
                Effect::Answer(call, answer) => self.answered(id, call, answer),
            }
        }
        // What is told again for ever would never end.
        let wakes_at = self.nodes.get(&id).and_then(Node::wakes_at);
        if let Some(at) = wakes_at.filter(|at| *at < Duration::from_secs(1 << 40)) {
            self.at((at.as_millis() as u64).max(self.now + 1), Event::Tick(id));
        }
    }

    fn answered(&mut self, id: NodeId, call: u64, answer: Answer) {
        self.answered += 1;
        match answer {
            Answer::Found { payload, .. } => {
                let Told { key, began } = self.fetches.remove(&(id, call)).unwrap();
                let version = u64::from_le_bytes(payload[..8].try_into().unwrap()) & 0xFFFF_FFFF;
                assert_eq!(payload, content(key, version), "wrong bytes");
                let mut voided = self.invalidated.get(&key).into_iter().flatten();
                let is_stale = voided.any(|(last, when)| version <= *last && *when <= began);
                // Who knows of nobody hears of nothing, and forgets what it has when it meets others.
                let is_alone = self.nodes.get(&id).is_some_and(|node| node.members.is_empty());
                assert!(!is_stale || is_alone, "{key} is of a version that had been invalidated everywhere");
            }
            Answer::Absent(ticket) => {
                let Told { key, .. } = self.fetches.remove(&(id, call)).unwrap();
                let version = *self.origin.entry(key).or_default();
                self.later(Event::Origin { by: id, key, version, ticket });
            }
            Answer::Invalidated(everywhere) => {
                let (key, last) = self.invalidations.remove(&(id, call)).unwrap();
                if everywhere {
                    self.invalidated.entry(key).or_default().push((last, self.now));
                }
            }
            Answer::Older(_) | Answer::Valid(_) => {}
        }
    }

    /// A node, which knows how late it is.
    fn node(&mut self, id: NodeId) -> Option<&mut Node<Memory>> {
        let node = self.nodes.get_mut(&id)?;
        node.tick(Duration::from_millis(self.now));
        Some(node)
    }

    fn fetch(&mut self, id: NodeId, key: u64) {
        let call = self.node(id).unwrap().fetch(&key_of(key));
        self.fetches.insert((id, call), Told { key, began: self.now });
        self.carry_out(id);
    }

    /// There is a new version at the origin, and the old one is made invalid.
    fn change(&mut self, id: NodeId, key: u64) {
        // Who knows of nobody makes it invalid for itself alone.
        if self.nodes[&id].members.is_empty() {
            return;
        }
        let version = self.origin.entry(key).or_default();
        let last = *version;
        *version += 1;
        let call = self.node(id).unwrap().invalidate(&key_of(key));
        self.invalidations.insert((id, call), (key, last));
        self.carry_out(id);
    }

    fn memory(&self, node: NodeId, at: u64, bytes: usize) -> Option<Vec<u8>> {
        let words = self.memories.get(&node)?.get(at as usize / 8..(at as usize + bytes) / 8)?;
        Some(words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect())
    }

    /// Let what is under way go on until then, or until nothing is.
    fn run(&mut self, until: u64) {
        while self.events.peek().is_some_and(|Reverse((at, _))| *at <= until) {
            let Reverse((at, number)) = self.events.pop().unwrap();
            self.now = self.now.max(at);
            let event = self.by_number.remove(&number).unwrap();
            self.happens(event);
        }
        self.now = self.now.max(if until == u64::MAX { 0 } else { until });
    }

    fn happens(&mut self, event: Event) {
        let fails = self.random.below(1000) < self.loses;
        let id = match event {
            Event::Deliver { from, to, message } => {
                let (sender, message) = Message::from_bytes(&message, 42).unwrap();
                assert_eq!(sender, from);
                let Some(node) = self.node(to) else { return };
                node.received(from, message);
                to
            }
            Event::Read { by, call, node, at, bytes } => {
                let half = bytes / 16 * 8;
                match self.memory(node, at, half).filter(|_| !fails) {
                    Some(first) => self.later(Event::ReadRest { by, call, node, at, first, bytes }),
                    None => self.later(Event::ReadEnded { by, call, brought: None }),
                };
                return;
            }
            Event::ReadRest { by, call, node, at, mut first, bytes } => {
                let brought = self.memory(node, at + first.len() as u64, bytes - first.len()).map(|rest| {
                    first.extend(rest);
                    first
                });
                self.later(Event::ReadEnded { by, call, brought });
                return;
            }
            Event::ReadEnded { by, call, brought } => {
                let Some(node) = self.node(by) else { return };
                node.read_ended(call, brought.as_deref());
                by
            }
            Event::Origin { by, key, version, ticket } => {
                let Some(node) = self.node(by) else { return };
                node.store(&key_of(key), &content(key, version), ticket);
                by
            }
            Event::Members(id, members) => {
                let Some(node) = self.node(id) else { return };
                node.set_members(members);
                id
            }
            Event::Tick(id) => {
                if self.node(id).is_none() {
                    return;
                }
                id
            }
        };
        self.carry_out(id);
    }

    fn sum(&self, of: fn(&Counts) -> u64) -> u64 {
        self.nodes.values().map(|node| of(node.counts())).sum()
    }

    /// Nothing is under way: everybody has ended what they began.
    fn nobody_waits(&self) {
        assert!(self.fetches.is_empty() && self.invalidations.is_empty(), "calls without an answer");
        for node in self.nodes.values() {
            assert!(node.calls.is_empty() && node.moves == 0, "{:?} waits", node.id);
            assert_eq!(node.pool.buffers(), BUFFER_SLOTS, "{:?}: a buffer is still lent", node.id);
            assert!(node.pool.iter().all(|(_, held)| !held.is_moving()), "{:?}: something is still moving", node.id);
            let room = node.room();
            assert_eq!(room.free + room.redundant + room.others, self.objects, "{:?}: a slot is lost", node.id);
            let (_, role) = &self.names[&node.id];
            let may_be_here = |held: &Held| *role == Role::Proxy || node.rules(held.at.bytes).uses_passive;
            assert!(node.pool.iter().all(|(_, held)| may_be_here(held)), "{:?} has what is for proxies", node.id);
        }
    }

    /// What homes list is what nodes hold, and of each object one copy counts.
    fn all_agree(&self) {
        let mut held: BTreeMap<SlotKey, BTreeSet<(NodeId, u64)>> = BTreeMap::new();
        let mut primaries: BTreeMap<SlotKey, NodeId> = BTreeMap::new();
        for node in self.nodes.values() {
            for (key, one) in node.pool.iter() {
                held.entry(*key).or_default().insert((node.id, one.at.generation));
                if !one.is_redundant() {
                    assert_eq!(primaries.insert(*key, node.id), None, "two copies of {key:?} count");
                }
            }
        }
        let mut objects = 0;
        for node in self.nodes.values() {
            objects += node.listed().0;
        }
        assert_eq!(objects, held.len() as u64, "objects listed and held");
        for (key, copies) in &held {
            let home = self.nodes.values().next().unwrap().members.home(key).unwrap();
            let (_, listed) = self.nodes[&home].directory.as_ref().unwrap().look_up(key);
            let listed = listed.unwrap();
            assert!(copies.contains(&(listed.node, listed.at.generation)), "what is listed is held");
            assert_eq!(primaries.get(key), Some(&listed.node), "what is listed counts");
        }
    }

    /// Everybody fetches so many times, of so many objects; of a hundred fetches `changes` are changes.
    fn load(&mut self, fetches: u64, keys: u64, changes: u64) {
        let proxies: Vec<NodeId> =
            self.names.iter().filter(|(_, (_, role))| *role == Role::Proxy).map(|(id, _)| *id).collect();
        let all: Vec<NodeId> = self.names.keys().copied().collect();
        for _ in 0..fetches {
            let (key, which) = (self.random.below(keys), self.random.below(1 << 20) as usize);
            if self.random.below(100) < changes {
                self.change(all[which % all.len()], key);
            } else {
                self.fetch(proxies[which % proxies.len()], key);
            }
            let until = self.now + self.random.below(self.pause);
            self.run(until);
        }
    }
}

const HYBRID: Scheme = Scheme::Hybcc { small_bytes: 32, small: Small::AsBcc };
const SCHEMES: [Scheme; 6] = [
    Scheme::Ac,
    Scheme::Bcc,
    Scheme::Ccwr,
    Scheme::Mtacc,
    HYBRID,
    Scheme::Hybcc { small_bytes: 32, small: Small::AsCcwr },
];

#[test]
fn whatever_the_order_of_events_nothing_wrong_is_found_and_all_agree_in_the_end() {
    for scheme in SCHEMES {
        for seed in 1..60 {
            let mut world = World::of(scheme, 2 + seed % 4, seed % 3, 5 + (seed % 7) as u32, seed);
            world.load(400, 20 + seed % 60, if seed % 2 == 0 { 10 } else { 0 });
            world.run(u64::MAX);
            world.nobody_waits();
            assert_eq!(world.sum(|counts| counts.too_late), 0, "nobody waits in vain");
            if scheme.shares() {
                world.all_agree();
            }
        }
    }
}

/// Messages that are lost and reads that fail cost hits and time, and nothing else.
#[test]
fn what_is_lost_ends_no_call_wrongly_and_none_never() {
    for scheme in SCHEMES {
        for seed in 1..40 {
            let mut world = World::of(scheme, 3, 1, 6, seed);
            world.loses = 50;
            world.load(400, 30, 5);
            world.run(u64::MAX);
            world.nobody_waits();
            world.loses = 0;
            let before = world.answered;
            world.load(200, 30, 0);
            world.run(u64::MAX);
            world.nobody_waits();
            assert_eq!(world.answered - before, 200);
        }
    }
}

/// A node that is killed takes its copies and its part of the key-table with it; one that starts again begins with nothing.
#[test]
fn nodes_come_and_go() {
    for scheme in [Scheme::Bcc, Scheme::Ccwr, Scheme::Mtacc, HYBRID] {
        for seed in 1..60 {
            let mut world = World::of(scheme, 4, 1, 8, seed);
            world.load(200, 30, 3);
            world.stop(NodeId(2));
            world.load(20, 30, 3);
            world.tell_members();
            world.load(200, 30, 3);
            world.start(NodeId(102), "node 1".to_owned(), Role::Proxy, scheme);
            world.tell_members();
            world.load(400, 30, 3);
            world.run(u64::MAX);
            world.nobody_waits();
            world.all_agree();
            assert!(world.nodes[&NodeId(102)].listed().0 > 0, "it is a home again");
        }
    }
}

/// Gossip reaches nodes at different moments, and so they have different homes for a while. What was said to be invalid everywhere is found by nobody even so.
///
/// A node that had joined and was not known to a key's home could keep what it copied, and was not asked to forget it.
#[test]
fn members_are_heard_of_at_different_moments() {
    for scheme in [Scheme::Bcc, Scheme::Ccwr, Scheme::Mtacc] {
        for seed in 1..100 {
            let mut world = World::of(scheme, 4, 1, 8, seed);
            world.load(200, 30, 10);
            world.start(NodeId(102), "a new one".to_owned(), Role::Proxy, scheme);
            world.tell_members_by_and_by();
            world.load(300, 30, 10);
            world.stop(NodeId(2));
            world.tell_members_by_and_by();
            world.load(300, 30, 10);
            // What was said to who did not listen yet is said again.
            world.run(world.now + 3000);
            world.load(100, 30, 0);
            world.run(u64::MAX);
            world.nobody_waits();
            assert!(world.nodes[&NodeId(102)].listed().0 > 0, "it is a home");
        }
    }
}

/// A node that others took for gone forgets what it has when it hears of that, and so does who comes back as the same.
#[test]
fn who_was_away_begins_with_nothing() {
    let mut world = World::of(Scheme::Ccwr, 3, 0, 8, 1);
    world.load(100, 10, 0);
    world.run(world.now + 5000);
    let held = |world: &World, id| world.nodes[&NodeId(id)].held().count();
    assert!(held(&world, 1) > 0 && held(&world, 3) > 0);
    // The others took node 3 for gone for a moment, and it has not seen anything of that.
    let (all, name) = (world.members(), world.names.remove(&NodeId(3)).unwrap());
    let without = world.members();
    world.names.insert(NodeId(3), name);
    for members in [without, all] {
        for id in [1, 2] {
            world.node(NodeId(id)).unwrap().set_members(members.clone());
            world.carry_out(NodeId(id));
        }
    }
    assert_eq!(world.nodes[&NodeId(1)].clears(), 1, "it sees that one has come back");
    world.run(world.now + 5000);
    assert!(world.nodes[&NodeId(3)].clears() > 0 && held(&world, 3) == 0, "it was told so");
    world.load(100, 10, 0);
    world.run(world.now + 5000);
    assert!(held(&world, 3) > 0);
}

/// The paper's case of 64 KiB objects on eight proxies and two web servers: they just have room for all of them.
#[test]
fn what_fits_to_the_last_slot_is_all_kept() {
    let misses = |scheme| {
        let mut world = World::of(scheme, 8, 2, 16, 7);
        // One thing after the other, more or less.
        (world.delay, world.pause) = (2, 60);
        world.load(16_000, 160, 0);
        world.run(u64::MAX);
        let before = world.sum(|counts| counts.misses);
        world.load(4000, 160, 0);
        world.run(u64::MAX);
        world.all_agree();
        let mut total: BTreeMap<&str, u64> = BTreeMap::new();
        world
            .nodes
            .values()
            .flat_map(|node| node.counts().all())
            .for_each(|(name, n)| *total.entry(name).or_default() += n);
        println!("{scheme:?} {total:?}");
        let held: usize = world.nodes.values().map(|node| node.pool.iter().count()).sum();
        let duplicates: u64 = world.nodes.values().map(|node| node.listed().1).sum();
        (world.sum(|counts| counts.misses) - before, held, duplicates)
    };
    assert_eq!(misses(Scheme::Mtacc), (0, 160, 0), "every slot has another object");
    let [basic, without_redundancy] = [Scheme::Bcc, Scheme::Ccwr].map(misses);
    assert!(basic.0 > without_redundancy.0 && without_redundancy.0 > 500, "{basic:?} {without_redundancy:?}");
    assert!(basic.2 > 0 && without_redundancy.1 == 128, "{basic:?} {without_redundancy:?}");
}

/// Figure 3: the store message, then the read, then the acknowledgment; what is read is not written over before the read has ended.
#[test]
fn a_swap_goes_as_in_the_paper() {
    let mut world = World::of(Scheme::Ccwr, 2, 0, 1, 3);
    let (a, b) = (NodeId(1), NodeId(2));
    world.fetch(a, 1);
    world.run(u64::MAX);
    world.fetch(b, 2);
    world.run(u64::MAX);
    let holds = |world: &World, node: NodeId| world.nodes[&node].pool.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    assert_eq!((holds(&world, a), holds(&world, b)), (vec![key_of(1)], vec![key_of(2)]));
    world.log = Some(Vec::new());
    world.fetch(a, 2);
    world.run(u64::MAX);
    assert_eq!((holds(&world, a), holds(&world, b)), (vec![key_of(2)], vec![key_of(1)]));
    let log = world.log.take().unwrap();
    let at = |what: &str| log.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {log:?}"));
    assert!(at("1 tells 2: take") < at("1 reads from 2"), "{log:?}");
    assert!(at("1 reads from 2") < at("1 tells 2: read ended"), "{log:?}");
    assert!(at("1 tells 2: read ended") < at("2 tells 1: took"), "{log:?}");
    assert!(at("2 reads from 1") < at("2 tells 1: took"), "{log:?}");
    assert_eq!((world.sum(|counts| counts.swapped), world.sum(|counts| counts.replaced)), (1, 0));
    world.all_agree();
}

/// A store without room of its own goes to where there is some, by a buffer that the other node reads (3.1).
#[test]
fn a_store_goes_to_a_node_with_room() {
    for (scheme, passive) in [(Scheme::Bcc, 0), (Scheme::Mtacc, 1)] {
        let mut world = World::of(scheme, 2 - passive, passive, 1, 3);
        world.fetch(NodeId(1), 1);
        world.run(u64::MAX);
        world.fetch(NodeId(1), 2);
        world.run(u64::MAX);
        assert_eq!((world.sum(|counts| counts.pushes), world.sum(|counts| counts.taken)), (1, 1), "{scheme:?}");
        assert!(world.nodes[&NodeId(2)].pool.get(&key_of(2)).is_some());
        world.all_agree();
        world.nobody_waits();
    }
    let mut world = World::of(Scheme::Ccwr, 1, 1, 1, 3);
    world.fetch(NodeId(1), 1);
    world.run(u64::MAX);
    world.fetch(NodeId(1), 2);
    world.run(u64::MAX);
    assert_eq!((world.sum(|counts| counts.pushes), world.sum(|counts| counts.replaced)), (0, 1), "not for this scheme");
}

#[test]
fn alone_means_alone() {
    let mut world = World::of(Scheme::Ac, 3, 1, 8, 3);
    world.load(500, 20, 0);
    world.run(u64::MAX);
    let sent: u64 = world.nodes.values().flat_map(|node| node.counts().sent).sum();
    assert_eq!((sent, world.sum(|counts| counts.metadata_reads), world.sum(|counts| counts.remote)), (0, 0, 0));
    assert!(world.sum(|counts| counts.local) > 0);
}

#[test]
fn validation_tells_what_counts_and_invalidation_reaches_all() {
    let mut world = World::of(Scheme::Bcc, 3, 1, 8, 3);
    for node in [1, 2, 3] {
        world.fetch(NodeId(node), 5);
        world.run(u64::MAX);
    }
    let valid = |world: &mut World, node: u64| {
        let node = world.nodes.get_mut(&NodeId(node)).unwrap();
        let call = node.validate(&key_of(5));
        (call, node.effect())
    };
    for node in 1..=3 {
        match valid(&mut world, node) {
            (call, Some(Effect::Answer(answered, answer))) => {
                assert_eq!((answered, answer), (call, Answer::Valid(true)), "its home is itself");
            }
            (call, Some(Effect::Read { node: home, at, bytes, .. })) => {
                let bucket = world.memory(home, at, bytes).unwrap();
                let node = world.nodes.get_mut(&NodeId(node)).unwrap();
                node.read_ended(call, Some(&bucket));
                assert_eq!(node.effect(), Some(Effect::Answer(call, Answer::Valid(true))));
            }
            other => panic!("{other:?}"),
        }
    }
    world.change(NodeId(4), 5);
    world.run(u64::MAX);
    assert!(world.nodes.values().all(|node| node.pool.get(&key_of(5)).is_none()), "a passive node may invalidate");
    assert_eq!(world.invalidated[&5].len(), 1);
    assert!(
        matches!(valid(&mut world, 1), (call, Some(Effect::Answer(answered, Answer::Valid(false)))) if call == answered)
    );
}

/// It asks the home, and fetches the object before the home has heard of that: what it got then does not outlast the answer.
#[test]
fn who_makes_a_key_invalid_does_not_find_it_afterwards() {
    let mut world = World::of(Scheme::Bcc, 2, 0, 8, 3);
    let key = (0..).find(|key| world.nodes[&NodeId(1)].members.home(&key_of(*key)) == Some(NodeId(2))).unwrap();
    world.fetch(NodeId(2), key);
    world.run(u64::MAX);
    let node = world.nodes.get_mut(&NodeId(1)).unwrap();
    let invalidation = node.invalidate(&key_of(key));
    let fetch = node.fetch(&key_of(key));
    let mut asked = None;
    // The read is quicker than the message.
    while let Some(effect) = world.nodes.get_mut(&NodeId(1)).unwrap().effect() {
        match effect {
            Effect::Read { call, node, at, bytes } => {
                let bytes = world.memory(node, at, bytes).unwrap();
                world.nodes.get_mut(&NodeId(1)).unwrap().read_ended(call, Some(&bytes));
            }
            Effect::Send(_, Message::Invalidate(call, ..)) => asked = Some(call),
            Effect::Answer(call, answer) => assert!(call == fetch && matches!(answer, Answer::Found { .. })),
            Effect::Send(..) => {}
        }
    }
    let node = world.nodes.get_mut(&NodeId(1)).unwrap();
    assert!(node.pool.get(&key_of(key)).is_some());
    node.received(NodeId(2), Message::Invalidated(asked.unwrap(), true));
    assert!(node.pool.get(&key_of(key)).is_none());
    assert!(
        std::iter::from_fn(|| node.effect())
            .any(|effect| effect == Effect::Answer(invalidation, Answer::Invalidated(true)))
    );
}

/// A member that has lost its mind: messages of every kind with any numbers in them. Nothing panics, nothing wrong is found, and nobody waits for ever.
#[test]
fn messages_with_any_numbers_do_no_harm() {
    for seed in 1..40 {
        let mut world = World::of(Scheme::Mtacc, 3, 1, 8, seed);
        world.loses = 1;
        let ids: Vec<NodeId> = world.names.keys().copied().collect();
        for round in 0..300 {
            world.load(1, 30, 5);
            let key = key_of(world.random.below(30));
            let mut number = || match world.random.below(4) {
                0 => world.random.below(40),
                1 => u64::MAX - world.random.below(3),
                _ => world.random.below(u64::MAX),
            };
            let at = Where { slot: number() as u32, bytes: number() as u32, generation: number() };
            let by = match number() % 3 {
                0 => Came::Stored(Seen(number())),
                1 => Came::Before,
                _ => Came::Copied { seen: Some(Seen(number())), instead_of: Some((NodeId(number()), number())) },
            };
            let holding = Holding { at, version: number(), by };
            let is = number() % 2 == 0;
            let message = match round % 11 {
                0 => Message::Has(key, holding),
                1 => Message::Gone(key, NodeId(number()), number()),
                2 => Message::Told(Tell::Redundant(key, number(), is)),
                3 => Message::Take { call: number(), key, holding, wanted: is.then(|| (key, number())) },
                4 => Message::Took { call: number(), kept: is, made_room: is },
                5 => Message::ReadEnded { call: number(), is_whole: is },
                6 => Message::Invalidate(number(), key, number()),
                7 => Message::Forget(number(), key, number()),
                8 => Message::Forgot(number(), number() % 2 == 0),
                9 => Message::Told(Tell::Forget(key, number())),
                _ => Message::Room(
                    Room { free: number() as u32, redundant: number() as u32, others: number() as u32 },
                    number(),
                ),
            };
            let (from, to) = (number() as usize % ids.len(), number() as usize % ids.len());
            let message = message.to_bytes(ids[from], 42);
            world.at(world.now + 1, Event::Deliver { from: ids[from], to: ids[to], message });
        }
        world.run(u64::MAX);
        // What it said in others' names may have ended their calls early; its own lies are found out by who reads.
        for node in world.nodes.values() {
            assert!(node.calls.is_empty() && node.moves == 0, "{:?} waits", node.id);
        }
    }
}
