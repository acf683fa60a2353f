//! How objects come to other nodes: stored there, exchanged for others, taken.

use super::call::{Call, Incoming, Take, TakeRoom, Took};
use super::{Effect, Node, Ticket};
use crate::arena::Arena;
use crate::directory::{Came, Holding};
use crate::limits::MAX_FORGOTTEN;
use crate::members::{NodeId, Role};
use crate::message::Message;
use crate::pool::Reserved;
use crate::scheme::{Place, Room, Sent, for_sent, for_stored};
use crate::slots::{SlotKey, bytes_for, verified};
use crate::table::Listed;

impl<A: Arena> Node<A> {
    /// Store what came from an origin after a fetch had found nothing (3.1, "cache store"). `ticket` is what that fetch answered: if the key was made invalid
    /// since, it is not kept. An object that is too large for a slot is not kept either. The version that its home will list, if it is kept ([`Node::is_listed`]).
    pub fn store(&mut self, key: &SlotKey, payload: &[u8], ticket: Ticket) -> Option<u64> {
        let fits = payload.len() <= self.pool.payload_bytes() && self.is_valid(key, ticket) && self.is_known_to_all();
        let Some(bytes) = u32::try_from(payload.len()).ok().filter(|_| fits) else {
            self.counts.not_kept += 1;
            return None;
        };
        let version = self.next_version();
        // Its place is as good as any; others will be told by the home that theirs is older.
        if let Some(older) = self.pool.remove(key) {
            self.retract(key, self.id, older.generation);
        }
        let place = self.place_for_stored(bytes, true);
        let by = Came::Stored(ticket.seen);
        if let Place::At(node) | Place::InsteadAt(node) = place
            && self.push(node, place, key, payload, version, by)
        {
            return Some(version);
        }
        let place = match place {
            Place::At(_) | Place::InsteadAt(_) => self.place_for_stored(bytes, false),
            place => place,
        };
        let slot = self.make_room(place);
        match slot.and_then(|slot| self.pool.put(slot, key, payload, version)) {
            Some(at) => {
                self.announce(key, Holding { at, version, by });
                Some(version)
            }
            None => {
                self.counts.not_kept += 1;
                None
            }
        }
    }

    fn place_for_stored(&self, bytes: u32, elsewhere: bool) -> Place {
        let rooms = self.rooms.iter().filter(|_| elsewhere);
        let others = rooms.filter_map(|(id, room)| Some((*id, self.members.get(*id)?.role, *room)));
        for_stored(self.rules(bytes), self.room(), others)
    }

    /// A slot of one's own at that place; whatever is there goes.
    pub(super) fn make_room(&mut self, place: Place) -> Option<Reserved> {
        let victim = match place {
            Place::Free => return self.pool.reserve(),
            Place::Redundant => self.pool.oldest_redundant()?,
            Place::Victim => self.pool.oldest()?,
            Place::At(_) | Place::InsteadAt(_) | Place::Swap | Place::Nowhere => return None,
        };
        let was_redundant = self.pool.get(&victim).is_some_and(|held| held.is_redundant());
        let gone = self.pool.remove(&victim)?;
        if was_redundant {
            self.counts.redundant_dropped += 1
        } else {
            self.counts.replaced += 1
        }
        self.retract(&victim, self.id, gone.generation);
        self.pool.reserve()
    }

    /// Send an object to a node with room; whether it is on its way. From then on it is that node's responsibility.
    fn push(&mut self, node: NodeId, place: Place, key: &SlotKey, payload: &[u8], version: u64, by: Came) -> bool {
        if self.moves >= self.most_moves {
            return false;
        }
        let Some((buffer, at)) = self.pool.lend(key, payload) else { return false };
        let call = self.number();
        self.calls.insert(call, Call::Push { key: *key, buffer });
        self.moves += 1;
        self.counts.pushes += 1;
        self.wait(call);
        // Until it says how much room it has now.
        if let Some(Room { free, redundant, .. }) = self.rooms.get_mut(&node) {
            let room = if matches!(place, Place::At(_)) { free } else { redundant };
            *room = room.saturating_sub(1);
        }
        self.send(node, Message::Take { call, key: *key, holding: Holding { at, version, by }, wanted: None });
        true
    }

    pub(super) fn end_push(&mut self, call: u64) {
        if let Some(Call::Push { buffer, .. }) = self.end(call) {
            self.pool.take_back(buffer);
            self.moves -= 1;
        }
    }

    /// Offer an own object to the node that has what is about to be read from it (3.2): the number of the swap. None if there are too many.
    pub(super) fn begin_swap(&mut self, wanted: &SlotKey, listed: &Listed) -> Option<u64> {
        if self.moves >= self.most_moves {
            return None;
        }
        // What is for proxies alone does not go to a passive node.
        let is_passive = self.members.get(listed.node).is_some_and(|member| member.role == Role::Passive);
        let scheme = self.options.scheme;
        let victim = self.pool.oldest_other_of(|bytes| !is_passive || scheme.rules(bytes).uses_passive)?;
        let held = self.pool.get(&victim)?;
        let (at, version) = (held.at, held.version);
        let by = Came::Copied { seen: None, instead_of: Some((self.id, at.generation)) };
        let call = self.number();
        let swap = Call::Swap {
            peer: listed.node,
            victim,
            generation: at.generation,
            incoming: Incoming::Pending,
            took: None,
            epoch: self.epoch,
        };
        self.calls.insert(call, swap);
        self.pool.set_moving(&victim, true);
        self.moves += 1;
        self.counts.swaps += 1;
        self.wait(call);
        let (holding, wanted) = (Holding { at, version, by }, Some((*wanted, listed.at.generation)));
        self.send(listed.node, Message::Take { call, key: victim, holding, wanted });
        Some(call)
    }

    /// What a swap was to bring has come, or has not.
    pub(super) fn came(&mut self, call: u64, what: Incoming) {
        if let Some(Call::Swap { incoming, .. }) = self.calls.get_mut(&call) {
            *incoming = what;
            self.end_swap(call);
        }
    }

    /// The other node has answered, or will not.
    pub(super) fn took(&mut self, from: NodeId, call: u64, answer: Took) {
        match self.calls.get_mut(&call) {
            Some(Call::Swap { peer, took, .. }) if *peer == from && took.is_none() => {
                *took = Some(answer);
                self.end_swap(call);
            }
            Some(Call::Push { .. }) => self.end_push(call),
            _ => {}
        }
    }

    /// The end of a swap, once both is known: what came, and whether the other node has taken what it was offered.
    fn end_swap(&mut self, call: u64) {
        let Some(Call::Swap { incoming, took: Some(_), .. }) = self.calls.get(&call) else { return };
        if matches!(incoming, Incoming::Pending) {
            return;
        }
        let Some(Call::Swap { victim, generation, incoming, took: Some(took), epoch, .. }) = self.end(call) else {
            return;
        };
        self.moves -= 1;
        let is_here = self.pool.get(&victim).is_some_and(|held| held.at.generation == generation);
        match (is_here, took.kept) {
            // Its home lists the other node's, unless it has become that since and was told of both.
            (true, true) => {
                self.pool.remove(&victim);
                if epoch != self.epoch {
                    self.retract(&victim, self.id, generation);
                }
            }
            // It stays, and what has come is somewhere else already.
            (true, false) => self.pool.set_moving(&victim, false),
            (false, _) => {}
        }
        self.counts.swapped += u64::from(took.kept);
        if let Incoming::Whole(arrived) = incoming {
            self.keep(arrived, took.made_room);
        }
    }

    /// Another node wants to be rid of an object.
    pub(super) fn take(
        &mut self,
        peer: NodeId,
        their: u64,
        key: SlotKey,
        holding: Holding,
        wanted: Option<(SlotKey, u64)>,
    ) {
        let at = self.members.get(peer).and_then(|member| member.lends.slot_at(holding.at));
        let may_go = |(key, generation): &(SlotKey, u64)| {
            self.pool.get(key).is_some_and(|held| held.at.generation == *generation && !held.is_moving())
        };
        let is_exchange = wanted.is_some();
        let wanted = wanted.filter(may_go);
        let fits = holding.at.bytes as usize <= self.pool.payload_bytes() && self.is_known_to_all();
        let (Some(at), true, true) = (at, fits, self.moves < self.most_moves) else { return self.refuse(peer, their) };
        match self.pool.get(&key).map(|held| (held.version == holding.version && !held.is_moving(), held.at)) {
            None => {}
            Some((true, at)) => {
                // One copy less.
                self.announce(&key, Holding { at, ..holding });
                return self.send(peer, Message::Took { call: their, kept: true, made_room: false });
            }
            // Which is newer the home knows; or it is going elsewhere.
            Some(_) => return self.refuse(peer, their),
        }
        let sent = match (is_exchange, wanted) {
            (false, _) => Sent::Stored,
            (true, Some(_)) => Sent::Exchanged,
            (true, None) => Sent::InVain,
        };
        let place = for_sent(self.rules(holding.at.bytes), self.room(), sent);
        let room = match (place, wanted) {
            (Place::Swap, Some((key, generation))) => {
                self.pool.set_moving(&key, true);
                TakeRoom::Instead { key, generation, is_whole: None }
            }
            (place, _) => match self.make_room(place) {
                Some(slot) => TakeRoom::Slot(slot),
                None => return self.refuse(peer, their),
            },
        };
        let call = self.number();
        if matches!(room, TakeRoom::Instead { .. }) {
            self.wait(call);
        }
        self.calls.insert(call, Call::Take(Take { peer, their, key, holding, room, payload: None, since: self.now }));
        self.moves += 1;
        self.effects.push_back(Effect::Read { call, node: peer, at, bytes: bytes_for(holding.at.bytes as usize) });
    }

    fn refuse(&mut self, peer: NodeId, their: u64) {
        self.counts.refused += 1;
        self.send(peer, Message::Took { call: their, kept: false, made_room: false });
    }

    /// What is to be taken was read.
    pub(super) fn brought(&mut self, call: u64, brought: Option<&[u8]>) {
        let seed = self.options.seed;
        let Some(Call::Take(take)) = self.calls.get_mut(&call) else { return };
        match brought.map(|bytes| verified(bytes, &take.key, take.holding.at.generation, seed)) {
            Some(Ok(payload)) => {
                take.payload = Some(payload.to_vec());
                self.end_take(call);
            }
            failed => {
                self.counts.rejected += u64::from(failed.is_some());
                self.give_up_take(call);
            }
        }
    }

    /// The other node's read has come to its end: it has what it wanted or not, and does not look here any more.
    pub(super) fn may_overwrite(&mut self, from: NodeId, their_call: u64, whole: bool) {
        let is_it = |(_, one): &(&u64, &Call)| match one {
            Call::Take(Take { peer, their, room: TakeRoom::Instead { is_whole: None, .. }, .. }) => {
                *peer == from && *their == their_call
            }
            _ => false,
        };
        let call = self.calls.iter().find(is_it).map(|(call, _)| *call);
        if let Some(call) = call {
            self.has_read_ended(call, whole);
        }
    }

    /// The same of a take, or its deadline.
    pub(super) fn has_read_ended(&mut self, call: u64, whole: bool) {
        let Some(Call::Take(Take { room: TakeRoom::Instead { is_whole, .. }, .. })) = self.calls.get_mut(&call) else {
            return;
        };
        is_whole.get_or_insert(whole);
        self.end_take(call);
    }

    /// The end of a take, once all is known.
    fn end_take(&mut self, call: u64) {
        let is_known = match self.calls.get(&call) {
            Some(Call::Take(Take { payload: Some(_), room, .. })) => {
                !matches!(room, TakeRoom::Instead { is_whole: None, .. })
            }
            _ => false,
        };
        if !is_known {
            return;
        }
        let Some(Call::Take(take)) = self.end(call) else { return };
        // It came by another way meanwhile, or is not valid any more.
        if !self.may_take(&take) || self.pool.get(&take.key).is_some() {
            return self.refuse_taken(take);
        }
        self.moves -= 1;
        let Take { peer, their, key, holding, room, payload, .. } = take;
        let (slot, made_room) = match room {
            TakeRoom::Slot(slot) => (Some(slot), false),
            TakeRoom::Instead { key: other, generation, is_whole: Some(true) } => {
                let is_here = self.pool.get(&other).is_some_and(|held| held.at.generation == generation);
                if is_here {
                    self.pool.remove(&other);
                }
                (self.pool.reserve(), is_here)
            }
            TakeRoom::Instead { key: other, .. } => {
                self.pool.set_moving(&other, false);
                (None, false)
            }
        };
        let at = slot.zip(payload).and_then(|(slot, payload)| self.pool.put(slot, &key, &payload, holding.version));
        match at {
            Some(at) => {
                self.counts.taken += 1;
                self.announce(&key, Holding { at, ..holding });
                self.send(peer, Message::Took { call: their, kept: true, made_room });
            }
            None => {
                self.counts.refused += 1;
                self.send(peer, Message::Took { call: their, kept: false, made_room });
            }
        }
    }

    /// What was to be taken could not be read.
    fn give_up_take(&mut self, call: u64) {
        if let Some(Call::Take(take)) = self.end(call) {
            self.refuse_taken(take);
        }
    }

    /// Whether what is taken was not made invalid while it was on its way: the other node may have offered it before it heard of that, and waits for so long at most.
    fn may_take(&self, take: &Take) -> bool {
        let since = take.since.saturating_sub(2 * self.options.patience);
        let of_late = self.forgotten.iter().rev().take_while(|(when, _)| *when >= since);
        let (mut number, mut is_among) = (0, false);
        of_late.for_each(|(_, key)| (number, is_among) = (number + 1, is_among || *key == take.key));
        // There may have been more than are remembered.
        !is_among && number < MAX_FORGOTTEN && self.cleared_at.is_none_or(|at| at < since)
    }

    fn refuse_taken(&mut self, take: Take) {
        self.moves -= 1;
        match take.room {
            TakeRoom::Slot(slot) => self.pool.release(slot),
            TakeRoom::Instead { key, .. } => self.pool.set_moving(&key, false),
        }
        self.refuse(take.peer, take.their);
    }
}
