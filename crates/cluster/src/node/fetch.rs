//! How an object is found and read.

use super::call::{Arrived, Call, Incoming, Look, Then};
use super::{Answer, Effect, Node, Ticket};
use crate::arena::Arena;
use crate::directory::{Came, Holding};
use crate::limits::MAX_LOOKS;
use crate::message::Message;
use crate::scheme::{Place, for_fetched};
use crate::slots::{Rejected, SlotKey, bytes_for, verified};
use crate::table::{BUCKET_BYTES, Listed, Seen, bucket_of, look_up};

impl<A: Arena> Node<A> {
    /// Fetch an object from wherever it is (3.1, "cache fetch"): the number of the call, which [`Effect::Answer`] ends.
    pub fn fetch(&mut self, key: &SlotKey) -> u64 {
        if let Some(payload) = self.pool.read(key) {
            let call = self.number();
            self.counts.local += 1;
            self.answer(call, Answer::Found { payload, from: None });
            return call;
        }
        self.look(Look { key: *key, then: Then::Fetch, looks: 0, forgets: self.forgets }, None)
    }

    /// What is needed to store an object that begins to come now: an answer of [`Answer::Absent`] or [`Answer::Older`].
    pub fn ticket(&mut self, key: &SlotKey) -> u64 {
        self.look(Look { key: *key, then: Then::Ticket, looks: 0, forgets: self.forgets }, None)
    }

    /// Whether what this node has of a key still counts ("cache validate"): an answer of [`Answer::Valid`].
    pub fn validate(&mut self, key: &SlotKey) -> u64 {
        match self.pool.get(key).map(|held| held.version) {
            Some(version) if self.options.scheme.shares() => {
                self.look(Look { key: *key, then: Then::Validate(version), looks: 0, forgets: self.forgets }, None)
            }
            held => {
                let call = self.number();
                self.answer(call, Answer::Valid(held.is_some()));
                call
            }
        }
    }

    /// Whether the home of a key lists this version of it: an answer of [`Answer::Valid`].
    pub fn is_listed(&mut self, key: &SlotKey, version: u64) -> u64 {
        self.look(Look { key: *key, then: Then::Validate(version), looks: 0, forgets: self.forgets }, None)
    }

    /// Look into the key-table, for a call that has a number already, or a new one.
    fn look(&mut self, look: Look, call: Option<u64>) -> u64 {
        let home = self.home(&look.key);
        let call = match call {
            Some(call) => {
                self.calls.insert(call, Call::Look { look });
                call
            }
            None => match self.begin(Call::Look { look }) {
                Some(call) => call,
                None => {
                    let call = self.number();
                    self.nothing(call, look, Seen::default());
                    return call;
                }
            },
        };
        let lends = home.and_then(|home| self.members.get(home)).map(|member| member.lends);
        match (home, lends) {
            (Some(home), _) if home == self.id => {
                self.counts.own_metadata += 1;
                let own = self.directory.as_ref().map(|own| own.look_up(&look.key));
                let (seen, listed) = own.unwrap_or_default();
                self.calls.remove(&call);
                self.decide(call, look, seen, listed);
            }
            (Some(node), Some(lends)) => {
                self.counts.metadata_reads += 1;
                let at = lends.bucket_at(bucket_of(&look.key, lends.buckets));
                self.effects.push_back(Effect::Read { call, node, at, bytes: BUCKET_BYTES });
            }
            _ => {
                self.calls.remove(&call);
                self.nothing(call, look, Seen::default());
            }
        }
        call
    }

    /// A bucket was read.
    pub(super) fn looked(&mut self, call: u64, brought: Option<&[u8]>) {
        let Some(Call::Look { look }) = self.calls.remove(&call) else { return };
        match brought.map(|bucket| look_up(bucket, &look.key, self.options.seed)) {
            Some(Ok((seen, listed))) => self.decide(call, look, seen, listed),
            Some(Err(_)) if look.looks < MAX_LOOKS => {
                self.counts.rejected += 1;
                self.look(Look { looks: look.looks + 1, ..look }, Some(call));
            }
            _ => self.nothing(call, look, Seen::default()),
        }
    }

    /// Nobody has it, as far as one can tell.
    fn nothing(&mut self, call: u64, look: Look, seen: Seen) {
        match look.then {
            Then::Fetch => {
                self.counts.misses += 1;
                let ticket = Ticket { seen, forgets: look.forgets };
                self.answer(call, Answer::Absent(ticket));
            }
            // There may be one that could not be looked for.
            Then::Ticket => self.answer(call, Answer::Older(Ticket { seen, forgets: look.forgets })),
            Then::Validate(_) => self.answer(call, Answer::Valid(false)),
        }
    }

    fn decide(&mut self, call: u64, look: Look, seen: Seen, listed: Option<Listed>) {
        if matches!(look.then, Then::Ticket) {
            let ticket = Ticket { seen, forgets: look.forgets };
            let is_none = listed.is_none() && self.pool.get(&look.key).is_none();
            return self.answer(call, if is_none { Answer::Absent(ticket) } else { Answer::Older(ticket) });
        }
        let Some(listed) = listed else { return self.nothing(call, look, seen) };
        if let Then::Validate(version) = look.then {
            return self.answer(call, Answer::Valid(listed.version == version));
        }
        let key = look.key;
        // It has come meanwhile.
        if let Some(payload) = self.pool.read(&key) {
            self.counts.local += 1;
            return self.answer(call, Answer::Found { payload, from: None });
        }
        // A node that this one has not heard of yet may well have it.
        let Some(member) = self.members.get(listed.node) else { return self.nothing(call, look, seen) };
        let Some(at) = member.lends.slot_at(listed.at).filter(|_| listed.node != self.id) else {
            self.retract(&key, listed.node, listed.at.generation);
            return self.nothing(call, look, seen);
        };
        let swap = match for_fetched(self.rules(listed.at.bytes), self.room()) {
            Place::Swap => self.begin_swap(&key, &listed),
            _ => None,
        };
        self.calls.insert(call, Call::Copy { look, seen, listed, swap });
        let bytes = bytes_for(listed.at.bytes as usize);
        self.effects.push_back(Effect::Read { call, node: listed.node, at, bytes });
    }

    /// An object was read from another node.
    pub(super) fn copied(&mut self, call: u64, brought: Option<&[u8]>) {
        let Some(Call::Copy { look, seen, listed, swap }) = self.calls.remove(&call) else { return };
        let key = look.key;
        let ticket = Ticket { seen, forgets: look.forgets };
        let copy = brought.map(|bytes| verified(bytes, &key, listed.at.generation, self.options.seed));
        if let Some(swap) = swap {
            let is_whole = matches!(copy, Some(Ok(_))) && self.is_valid(&key, ticket);
            self.send(listed.node, Message::ReadEnded { call: swap, is_whole });
        }
        match copy {
            Some(Ok(payload)) => {
                self.counts.remote += 1;
                self.answer(call, Answer::Found { payload: payload.to_vec(), from: Some(listed.node) });
                let arrived = Arrived { key, payload: payload.to_vec(), ticket, listed };
                match swap {
                    Some(swap) => self.came(swap, Incoming::Whole(arrived)),
                    None => self.keep(arrived, false),
                }
            }
            failed => {
                if let Some(swap) = swap {
                    self.came(swap, Incoming::Failed);
                }
                if let Some(Err(why)) = failed {
                    self.counts.rejected += 1;
                    if look.looks < MAX_LOOKS {
                        self.look(Look { looks: look.looks + 1, ..look }, Some(call));
                        return;
                    }
                    // What is listed there is there no longer: its node's message to the home got lost.
                    if matches!(why, Rejected::OtherGeneration | Rejected::OtherKey | Rejected::Changing) {
                        self.retract(&key, listed.node, listed.at.generation);
                    }
                }
                self.nothing(call, look, seen);
            }
        }
    }

    /// Keep a copy of what was read, where the scheme has room for it; `moved` if the other node has it no longer.
    pub(super) fn keep(&mut self, arrived: Arrived, moved: bool) {
        let Arrived { key, payload, ticket, listed } = arrived;
        let place = match self.pool.get(&key) {
            _ if !self.is_valid(&key, ticket) || payload.len() > self.pool.payload_bytes() => Place::Nowhere,
            _ if !self.is_known_to_all() => Place::Nowhere,
            // It has come by another way meanwhile.
            Some(_) => Place::Nowhere,
            None => for_fetched(self.rules(listed.at.bytes), self.room()),
        };
        let Some(slot) = self.make_room(place) else {
            self.counts.not_kept += 1;
            if moved {
                self.retract(&key, listed.node, listed.at.generation);
            }
            return;
        };
        let instead_of = moved.then_some((listed.node, listed.at.generation));
        if let Some(at) = self.pool.put(slot, &key, &payload, listed.version) {
            let by = Came::Copied { seen: Some(ticket.seen), instead_of };
            self.announce(&key, Holding { at, version: listed.version, by });
        }
    }
}
