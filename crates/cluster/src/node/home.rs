//! What a home does for its keys, and how it is asked to.

use super::call::Call;
use super::{Answer, Node};
use crate::arena::Arena;
use crate::directory::{Came, Holding, Tell};
use crate::limits::MAX_CALLS;
use crate::members::NodeId;
use crate::message::Message;
use crate::slots::SlotKey;

impl<A: Arena> Node<A> {
    /// Make a key invalid on all nodes ("cache invalidate"): an answer of [`Answer::Invalidated`]. If that is true, no fetch that begins later finds what was there
    /// before, anywhere. The paper tells the home, and leaves open how those hear of it who have copies. Here the home asks all nodes, so that it also reaches
    /// copies that it does not know of, as a message got lost, and what is on its way.
    pub fn invalidate(&mut self, key: &SlotKey) -> u64 {
        self.void(key);
        let home = self.home(key);
        let Some(call) = self.begin(Call::Invalidate { key: *key }) else {
            let call = self.number();
            self.answer(call, Answer::Invalidated(false));
            return call;
        };
        match home {
            Some(home) => {
                self.wait(call);
                if home == self.id {
                    self.invalidate_here(home, call, key, self.members.view());
                } else {
                    self.send(home, Message::Invalidate(call, *key, self.members.view()));
                }
            }
            // Nobody else is asked: who is there may have it.
            None => {
                self.end(call);
                let is_alone = self.others().next().is_none();
                self.answer(call, Answer::Invalidated(is_alone));
            }
        }
        call
    }

    /// The home has heard of all, or of as many as answer.
    pub(super) fn invalidated(&mut self, call: u64, everywhere: bool) {
        let Some(Call::Invalidate { key }) = self.calls.get(&call) else { return };
        // What this node itself has read between its asking and the home's hearing of it may still be the old one.
        let key = *key;
        self.void(&key);
        self.end(call);
        self.answer(call, Answer::Invalidated(everywhere));
    }

    /// A node has a copy.
    pub(super) fn has(&mut self, node: NodeId, key: &SlotKey, holding: Holding) {
        let tell = match &mut self.directory {
            Some(directory) if self.members.home(key) == Some(self.id) => directory.add(node, key, holding),
            // The other node has heard of a change of members first. It keeps what it has; nobody else finds it until members change again.
            _ if holding.by == Came::Before => Vec::new(),
            _ => vec![(node, Tell::Forget(*key, holding.at.generation))],
        };
        self.counts.overflows = self.directory.as_ref().map_or(0, |directory| directory.overflows);
        self.tell(tell);
    }

    /// A node has its copy no longer.
    pub(super) fn gone(&mut self, key: &SlotKey, node: NodeId, generation: u64) {
        if let Some(directory) = &mut self.directory {
            let tell = directory.remove(node, key, generation);
            self.tell(tell);
        }
    }

    /// A key is to be made invalid.
    pub(super) fn invalidate_here(&mut self, asker: NodeId, their: u64, key: &SlotKey, their_view: u64) {
        if let Some(directory) = &mut self.directory {
            directory.invalidate(key);
        }
        self.void(key);
        let waiting: Vec<NodeId> = self.others().filter(|node| *node != asker).collect();
        // Who knows other members may have moved it to one whom this node does not ask.
        let everywhere = their_view == self.members.view();
        let call = self.number();
        let is_too_much = self.calls.len() >= MAX_CALLS;
        self.calls.insert(call, Call::Forget { asker, their, waiting: waiting.clone(), everywhere });
        if is_too_much {
            return self.end_forgetting(call, false);
        }
        if waiting.is_empty() {
            return self.end_forgetting(call, everywhere);
        }
        self.wait(call);
        let view = self.members.view();
        waiting.into_iter().for_each(|node| self.send(node, Message::Forget(call, *key, view)));
    }

    /// A holder has it no longer.
    pub(super) fn forgot(&mut self, from: NodeId, call: u64, knows_the_same: bool) {
        let Some(Call::Forget { waiting, everywhere, .. }) = self.calls.get_mut(&call) else { return };
        waiting.retain(|node| *node != from);
        *everywhere &= knows_the_same;
        let everywhere = *everywhere;
        if waiting.is_empty() {
            self.end_forgetting(call, everywhere);
        }
    }

    pub(super) fn end_forgetting(&mut self, call: u64, everywhere: bool) {
        let Some(Call::Forget { asker, their, .. }) = self.end(call) else { return };
        if asker != self.id {
            return self.send(asker, Message::Invalidated(their, everywhere));
        }
        self.invalidated(their, everywhere);
    }
}
