//! What one node does: it fetches, stores, validates and invalidates (section 3, "basic caching primitives"), by one of the schemes.
//!
//! No I/O, no clock, no threads. Whoever drives a node tells it what came ([`Node::received`], [`Node::read_ended`]) and what time it is ([`Node::tick`]), and
//! carries out what it wants done ([`Node::effect`]). So all nodes of a cluster can run in one process, in whatever order of events a test likes.
//!
//! - `fetch`: how an object is found and read.
//! - `moves`: how objects come to other nodes: stored there, exchanged, taken.
//! - `home`: what a home does for its keys.
//!
//! Invariants:
//! - What a fetch finds was verified: it is of the key that was asked for, whole, and of a version that was listed when the key's bucket was read.
//! - A node says of its own memory only what it has: it announces what it puts there, and takes back what it drops. Where such a message gets lost
//!   an object is listed that is gone, until somebody has tried to read it; or is there and not listed, so that others fetch it anew. Neither is ever taken for what it is not.
//! - Every call ends: reads are ended by whoever drives the node, and waits for messages by their deadline.

mod call;
mod fetch;
mod home;
mod moves;
#[cfg(test)]
mod world;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use self::call::{Call, Took};
use crate::arena::Arena;
use crate::counts::Counts;
use crate::directory::{Came, Directory, Holding, Tell};
use crate::limits::{BUFFER_SLOTS, MAX_CALLS, MAX_FORGOTTEN, MAX_MOVES};
use crate::members::{Lends, Members, NodeId};
use crate::message::Message;
use crate::part::Part;
use crate::pool::{Held, Pool};
use crate::scheme::{Room, Rules, Scheme};
use crate::slots::{HEADER_BYTES, SlotKey, Slots, Where, bytes_for};
use crate::table::{BUCKET_BYTES, Seen, Table, buckets_for};

/// How a node behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The scheme. All nodes have the same.
    pub scheme: Scheme,
    /// The cluster's secret, as a seed of checksums. All nodes have the same.
    pub seed: u64,
    /// How often others are told what room there is, if it has changed.
    pub tells_room_every: Duration,
    /// How often they are told even so: what was told may have got lost, or a node may have come since.
    pub repeats_room_every: Duration,
    /// How long another node may take to answer a message.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            scheme: Scheme::default(),
            seed: 0,
            tells_room_every: Duration::from_millis(20),
            repeats_room_every: Duration::from_secs(1),
            patience: Duration::from_millis(500),
        }
    }
}

/// What a node wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read from another node's memory, and tell by [`Node::read_ended`] what came of it, whatever it was.
    Read {
        /// What it is for.
        call: u64,
        /// The other node.
        node: NodeId,
        /// From this byte on.
        at: u64,
        /// So many.
        bytes: usize,
    },
    /// Send a message.
    Send(NodeId, Message),
    /// A call of its owner has come to its end.
    Answer(u64, Answer),
}

/// What had happened when a fetch found nothing: what is fetched from an origin then may be stored unless the key was made invalid since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    seen: Seen,
    forgets: u64,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The object.
    Found {
        /// Its bytes.
        payload: Vec<u8>,
        /// The node that had it; none if it was this one.
        from: Option<NodeId>,
    },
    /// No node has it, or none that could be read. What is fetched from an origin now is stored with this.
    Absent(Ticket),
    /// Of a ticket: there is a version of it already, or may be. Who stores another one makes the key invalid first, so that nobody finds the old one after that.
    Older(Ticket),
    /// Whether what this node has of the key still counts.
    Valid(bool),
    /// The key is not valid any more; whether all who had it have said that they have it no longer.
    Invalidated(bool),
}

/// See the module. Memory beside the arena: some 190 bytes an object that it holds and 130 one whose home it is; a copy of each object that it moves
/// ([`crate::limits::MAX_MOVES`]), and two of each that it reads, until the answer is taken ([`crate::limits::MAX_CALLS`]).
pub struct Node<A: Arena> {
    id: NodeId,
    options: Options,
    members: Members,
    pool: Pool<Part<A>>,
    directory: Option<Directory<Part<A>>>,
    /// What others last said of their room.
    rooms: BTreeMap<NodeId, Room>,
    calls: BTreeMap<u64, Call>,
    /// When a call ends for want of an answer, the first first; those that have ended are passed over.
    waits: VecDeque<(Duration, u64)>,
    last_call: u64,
    moves: usize,
    /// Of these at most so many: an eighth of the slots, so that there is always something to be replaced.
    most_moves: usize,
    effects: VecDeque<Effect>,
    now: Duration,
    told: Option<Room>,
    told_at: Duration,
    /// Keys that were made invalid of late, the last ones last, and how many there were before them.
    forgotten: VecDeque<(Duration, SlotKey)>,
    forgets: u64,
    /// How often the members have changed, and since which change each is one.
    epoch: u64,
    added: BTreeMap<NodeId, u64>,
    /// Since which of their changes others know this node, as they say.
    known: BTreeMap<NodeId, u64>,
    /// Members of before.
    past: VecDeque<NodeId>,
    /// How often all was forgotten, and when last.
    clears: u64,
    cleared_at: Option<Duration>,
    versions: u64,
    counts: Counts,
}

impl Lends {
    /// How memory is cut for so many objects of so many bytes at most each, on a node that is the home of so many objects; 0 if it is none. And how many bytes that
    /// takes.
    pub fn cut(objects: u32, payload_bytes: u32, listed: u32) -> (Lends, u64) {
        let slots = objects.saturating_add(BUFFER_SLOTS as u32);
        let slot_bytes = bytes_for(payload_bytes as usize) as u64;
        let table_at = u64::from(slots).saturating_mul(slot_bytes);
        let buckets = if listed == 0 { 0 } else { buckets_for(listed) };
        let bytes = table_at.saturating_add(u64::from(buckets) * BUCKET_BYTES as u64);
        (Lends { slots_at: 0, slot_bytes, slots, table_at, buckets }, bytes)
    }

    fn slot_at(&self, at: Where) -> Option<u64> {
        let is_inside = at.slot < self.slots && bytes_for(at.bytes as usize) as u64 <= self.slot_bytes;
        self.slots_at.checked_add(u64::from(at.slot).checked_mul(self.slot_bytes)?).filter(|_| is_inside)
    }

    fn bucket_at(&self, bucket: u32) -> u64 {
        self.table_at.saturating_add(u64::from(bucket) * BUCKET_BYTES as u64)
    }
}

impl<A: Arena + Clone> Node<A> {
    /// A node that is alone so far, over memory that is cut so. `first_generation` as in [`Slots::over`].
    pub fn new(id: NodeId, arena: &A, lends: &Lends, options: Options, first_generation: u64) -> Node<A> {
        let part = |at, bytes| Part::of(arena.clone(), at, bytes);
        let payload_bytes = usize::try_from(lends.slot_bytes).unwrap_or(usize::MAX).saturating_sub(HEADER_BYTES);
        let slots = part(lends.slots_at, u64::from(lends.slots) * lends.slot_bytes);
        let table = part(lends.table_at, u64::from(lends.buckets) * BUCKET_BYTES as u64);
        let first = Seen(xxh3_64_with_seed(&first_generation.to_le_bytes(), id.0));
        let table = (lends.buckets > 0).then(|| Table::over(table, options.seed, first_generation));
        let directory = table.map(|table| Directory::of(table, first));
        Node {
            id,
            options,
            members: Members::default(),
            pool: Pool::over(Slots::over(slots, payload_bytes, options.seed, first_generation)),
            directory,
            rooms: BTreeMap::new(),
            calls: BTreeMap::new(),
            waits: VecDeque::new(),
            last_call: 0,
            moves: 0,
            most_moves: (lends.slots as usize / 8).clamp(1, MAX_MOVES),
            effects: VecDeque::new(),
            now: Duration::ZERO,
            told: None,
            told_at: Duration::ZERO,
            forgotten: VecDeque::new(),
            forgets: 0,
            epoch: 0,
            added: BTreeMap::new(),
            known: BTreeMap::new(),
            past: VecDeque::new(),
            clears: 0,
            cleared_at: None,
            versions: 0,
            counts: Counts::default(),
        }
    }
}

impl<A: Arena> Node<A> {
    /// Which node it is.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// What it has counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Count bytes that were no message.
    pub fn count_garbage(&mut self) {
        self.counts.garbage += 1;
    }

    /// What room it has.
    pub fn room(&self) -> Room {
        self.pool.room()
    }

    /// Objects that it is moving to other nodes or taking from them.
    pub fn moves(&self) -> usize {
        self.moves
    }

    /// What it holds.
    pub fn held(&self) -> impl Iterator<Item = (&SlotKey, &Held)> {
        self.pool.iter()
    }

    /// What it holds in its slots, from this slot on, so many objects at most; and the slot from which it goes on.
    pub fn page(&self, from: u32, most: usize) -> (Vec<Vec<u8>>, Option<u32>) {
        let mut held = self.pool.from_slot(from);
        let payloads = held.by_ref().take(most).filter_map(|(_, key)| self.pool.peek(key)).collect();
        let next = held.next().map(|(slot, _)| slot);
        (payloads, next)
    }

    /// Whether it holds this version of a key.
    pub fn holds(&self, key: &SlotKey, version: u64) -> bool {
        self.pool.get(key).is_some_and(|held| held.version == version)
    }

    /// Objects whose home it is, and bytes of all their copies beyond the first of each.
    pub fn listed(&self) -> (u64, u64) {
        self.directory.as_ref().map(Directory::listed).unwrap_or_default()
    }

    /// Whether it wants anything done.
    pub fn wants_something(&self) -> bool {
        !self.effects.is_empty()
    }

    /// The next thing that it wants done.
    pub fn effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When it wants to be told the time.
    pub fn wakes_at(&self) -> Option<Duration> {
        let tells_room = self.tells_room_next().filter(|_| self.is_in_company());
        let waits = self.waits.front().map(|(until, _)| *until);
        [tells_room, waits].into_iter().flatten().min()
    }

    /// It is so late now: since a moment that never changes. To be told before anything else is, so that what waits has its whole time.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        while let Some((_, call)) = self.waits.pop_front_if(|(until, _)| *until <= self.now) {
            self.is_too_late(call);
        }
        if self.tells_room_next().is_some_and(|at| at <= self.now) && self.is_in_company() {
            let room = self.room();
            (self.told, self.told_at) = (Some(room), self.now);
            let others: Vec<NodeId> = self.others().collect();
            for node in others {
                let since = self.added.get(&node).copied().unwrap_or_default();
                self.send(node, Message::Room(room, since));
            }
        }
    }

    /// When it tells others what room it has, if ever.
    fn tells_room_next(&self) -> Option<Duration> {
        let Some(told) = self.told else { return Some(self.now) };
        let room = self.room();
        let is_same = (told.free, told.redundant) == (room.free, room.redundant);
        let every = if is_same { self.options.repeats_room_every } else { self.options.tells_room_every };
        self.told_at.checked_add(every)
    }

    fn others(&self) -> impl Iterator<Item = NodeId> {
        self.members.iter().map(|(id, _)| id).filter(|id| *id != self.id)
    }

    fn is_in_company(&self) -> bool {
        self.options.scheme.shares() && self.others().next().is_some()
    }

    /// These are the members from now on. Those who have gone take their copies with them; homes that are new are told what there is.
    pub fn set_members(&mut self, members: Members) {
        let before = std::mem::replace(&mut self.members, members);
        let gone: Vec<NodeId> = before.iter().map(|(id, _)| id).filter(|id| self.members.get(*id).is_none()).collect();
        self.rooms.retain(|node, _| !gone.contains(node));
        self.known.retain(|node, _| !gone.contains(node));
        self.added.retain(|node, _| !gone.contains(node));
        self.epoch += 1;
        let was_alone = self.added.is_empty();
        let new: Vec<NodeId> = self.others().filter(|id| !self.added.contains_key(id)).collect();
        let comes_back = new.iter().any(|node| self.past.contains(node));
        self.added.extend(new.iter().map(|node| (*node, self.epoch)));
        self.past.retain(|node| !new.contains(node));
        self.past.extend(&gone);
        while self.past.len() > MAX_FORGOTTEN {
            self.past.pop_front();
        }
        if comes_back || (was_alone && !new.is_empty()) {
            // One of them was away, and has not heard of what the other one has made invalid.
            self.clear();
        }
        self.told = None;
        if !self.options.scheme.shares() {
            return;
        }
        let (own, members) = (self.id, &self.members);
        if let Some(directory) = &mut self.directory {
            directory.retain(|key| members.home(key) == Some(own));
            let tell = directory.without(&gone);
            self.tell(tell);
        }
        let members = self.members.clone();
        self.announce_all(|key| members.home(key) != before.home(key));
    }

    /// A message came from another node. From nodes that are no members nothing is heard.
    pub fn received(&mut self, from: NodeId, message: Message) {
        if from == self.id || self.members.get(from).is_none() {
            return;
        }
        match message {
            Message::Has(key, holding) => self.has(from, &key, holding),
            Message::Gone(key, node, generation) => self.gone(&key, node, generation),
            // One who was the home before does not know which copy counts now.
            Message::Told(Tell::Redundant(key, ..)) if self.members.home(&key) != Some(from) => {}
            Message::Told(tell) => self.heed(tell),
            Message::Take { call, key, holding, wanted } => self.take(from, call, key, holding, wanted),
            Message::Took { call, kept, made_room } => self.took(from, call, Took { kept, made_room }),
            Message::ReadEnded { call, is_whole } => self.may_overwrite(from, call, is_whole),
            Message::Invalidate(call, key, view) => self.invalidate_here(from, call, &key, view),
            Message::Forget(call, key, view) => {
                self.void(&key);
                self.send(from, Message::Forgot(call, view == self.members.view()));
            }
            Message::Forgot(call, same) => self.forgot(from, call, same),
            Message::Invalidated(call, everywhere) => self.invalidated(call, everywhere),
            Message::Room(room, since) => {
                self.rooms.insert(from, room);
                self.is_known(from, since);
            }
        }
    }

    /// What a read brought, for which [`Effect::Read`] asked; nothing if it failed or came too late.
    pub fn read_ended(&mut self, call: u64, brought: Option<&[u8]>) {
        match brought {
            Some(bytes) => self.counts.read_bytes += bytes.len() as u64,
            None => self.counts.failed_reads += 1,
        }
        match self.calls.get(&call) {
            Some(Call::Look { .. }) => self.looked(call, brought),
            Some(Call::Copy { .. }) => self.copied(call, brought),
            Some(Call::Take(_)) => self.brought(call, brought),
            _ => {}
        }
    }

    /// An answer did not come in time.
    fn is_too_late(&mut self, call: u64) {
        let late = self.calls.get(&call);
        self.counts.too_late += u64::from(late.is_some());
        match late {
            Some(Call::Swap { peer, victim, generation, .. }) => {
                // It may be there by now, and be listed there instead of here.
                let (peer, victim, generation) = (*peer, *victim, *generation);
                if self.pool.get(&victim).is_some_and(|held| held.at.generation == generation) {
                    self.pool.remove(&victim);
                    self.retract(&victim, self.id, generation);
                }
                self.took(peer, call, Took { kept: false, made_room: false });
            }
            Some(Call::Push { .. }) => self.end_push(call),
            Some(Call::Take(_)) => self.has_read_ended(call, false),
            Some(Call::Invalidate { .. }) => self.invalidated(call, false),
            Some(Call::Forget { .. }) => self.end_forgetting(call, false),
            _ => {}
        }
    }

    fn rules(&self, bytes: u32) -> Rules {
        self.options.scheme.rules(bytes)
    }

    /// A number for a call; none if there are too many.
    fn begin(&mut self, call: Call) -> Option<u64> {
        if self.calls.len() >= MAX_CALLS {
            return None;
        }
        let number = self.number();
        self.calls.insert(number, call);
        Some(number)
    }

    fn number(&mut self) -> u64 {
        self.last_call += 1;
        self.last_call
    }

    /// A call waits for an answer from now on.
    fn wait(&mut self, call: u64) {
        self.waits.push_back((self.now + self.options.patience, call));
    }

    /// A call has come to its end.
    fn end(&mut self, call: u64) -> Option<Call> {
        self.calls.remove(&call)
    }

    fn send(&mut self, node: NodeId, message: Message) {
        if let Some(sent) = self.counts.sent.get_mut(message.kind()) {
            *sent += 1;
        }
        self.effects.push_back(Effect::Send(node, message));
    }

    fn answer(&mut self, call: u64, answer: Answer) {
        self.effects.push_back(Effect::Answer(call, answer));
    }

    /// A version that no store had before.
    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        xxh3_64_with_seed(&self.versions.to_le_bytes(), self.id.0)
    }

    /// A key's home, if anything is shared.
    fn home(&self, key: &SlotKey) -> Option<NodeId> {
        self.members.home(key).filter(|_| self.options.scheme.shares())
    }

    /// Tell a key's home of what this node has.
    fn announce(&mut self, key: &SlotKey, holding: Holding) {
        match self.home(key) {
            Some(home) if home == self.id => self.has(self.id, key, holding),
            Some(home) => self.send(home, Message::Has(*key, holding)),
            None => {}
        }
    }

    /// Tell a key's home that a copy is gone.
    fn retract(&mut self, key: &SlotKey, node: NodeId, generation: u64) {
        match self.home(key) {
            Some(home) if home == self.id => self.gone(key, node, generation),
            Some(home) => self.send(home, Message::Gone(*key, node, generation)),
            None => {}
        }
    }

    fn tell(&mut self, tell: Vec<(NodeId, Tell)>) {
        for (node, tell) in tell {
            if node == self.id { self.heed(tell) } else { self.send(node, Message::Told(tell)) }
        }
    }

    /// Do as a home says.
    fn heed(&mut self, tell: Tell) {
        let is_here = |key, generation| self.pool.get(key).is_some_and(|held| held.at.generation == generation);
        match tell {
            Tell::Redundant(key, generation, is_redundant) if is_here(&key, generation) => {
                self.pool.set_redundant(&key, is_redundant);
            }
            Tell::Forget(key, generation) if is_here(&key, generation) => drop(self.forget(&key)),
            Tell::Redundant(..) | Tell::Forget(..) => {}
        }
    }

    /// Another node knows this one, since that change of its members.
    fn is_known(&mut self, by: NodeId, since: u64) {
        let before = self.known.insert(by, since);
        if before.is_some_and(|before| before != since) {
            // It took this node for gone, and has not asked it to forget what was made invalid meanwhile.
            self.clear();
        }
        if before.is_none() {
            // What it was told before, it did not hear.
            let members = self.members.clone();
            self.announce_all(|key| members.home(key) == Some(by));
        }
    }

    /// Whether all members know this node. Who is not known is not asked to forget what is made invalid by nodes that have other homes still, and keeps nothing.
    fn is_known_to_all(&self) -> bool {
        !self.options.scheme.shares() || self.known.len() == self.added.len()
    }

    /// Tell homes of what is here.
    fn announce_all(&mut self, of: impl Fn(&SlotKey) -> bool) {
        // In one order whatever the process, so that what a test has found can be found again.
        let mut to_announce: Vec<(SlotKey, Where, u64)> =
            self.pool.iter().filter(|(key, _)| of(key)).map(|(key, held)| (*key, held.at, held.version)).collect();
        to_announce.sort_unstable_by_key(|(key, ..)| *key);
        for (key, at, version) in to_announce {
            // Until the new home says otherwise.
            self.pool.set_redundant(&key, false);
            self.announce(&key, Holding { at, version, by: Came::Before });
        }
    }

    /// Forget everything, and what is on its way.
    fn clear(&mut self) {
        if self.calls.is_empty() && self.pool.iter().next().is_none() {
            return;
        }
        self.clears += 1;
        self.cleared_at = Some(self.now);
        // More than are remembered: no ticket of before is good.
        self.forgets += MAX_FORGOTTEN as u64 + 1;
        let is_push = |(call, of): (&u64, &Call)| matches!(of, Call::Push { .. }).then_some(*call);
        let pushes: Vec<u64> = self.calls.iter().filter_map(is_push).collect();
        pushes.into_iter().for_each(|call| self.end_push(call));
        let keys: Vec<SlotKey> = self.pool.iter().map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(at) = self.forget(&key) {
                self.retract(&key, self.id, at.generation);
            }
        }
    }

    /// How often everything was forgotten, as this node or another was away.
    pub fn clears(&self) -> u64 {
        self.clears
    }

    /// How many others know this node, as they say. It keeps what it is given when all do.
    pub fn known_by(&self) -> usize {
        self.known.len()
    }

    /// Forget a key here alone, and what of it is on its way here.
    pub fn forget_here(&mut self, key: &SlotKey) {
        self.void(key);
    }

    /// A key is not valid any more: what is here of it goes, and what is on its way here is not kept.
    fn void(&mut self, key: &SlotKey) {
        self.forgets += 1;
        self.forgotten.push_back((self.now, *key));
        if self.forgotten.len() > MAX_FORGOTTEN {
            self.forgotten.pop_front();
        }
        // What was offered to others they cannot read any more.
        let is_offered =
            |(call, of): (&u64, &Call)| matches!(of, Call::Push { key: of, .. } if of == key).then_some(*call);
        let offered: Vec<u64> = self.calls.iter().filter_map(is_offered).collect();
        offered.into_iter().for_each(|call| self.end_push(call));
        // It may have been stored anew since the home said so.
        if let Some(at) = self.forget(key) {
            self.retract(key, self.id, at.generation);
        }
    }

    /// Whether a key was not made invalid since, as far as is remembered.
    fn is_valid(&self, key: &SlotKey, ticket: Ticket) -> bool {
        let since = usize::try_from(self.forgets.saturating_sub(ticket.forgets)).unwrap_or(usize::MAX);
        since <= self.forgotten.len() && !self.forgotten.iter().rev().take(since).any(|(_, of)| of == key)
    }

    fn forget(&mut self, key: &SlotKey) -> Option<Where> {
        let at = self.pool.remove(key)?;
        self.counts.forgotten += 1;
        Some(at)
    }
}
