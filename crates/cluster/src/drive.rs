//! A node over a network: what the network brings is told to the node, and what the node wants done is done.

use std::time::{Duration, Instant};

use tinaja_clock::Clock;

use crate::arena::Arena;
use crate::members::NodeId;
use crate::message::Message;
use crate::node::{Answer, Effect, Node};
use crate::transport::{Brought, Transport};

/// How often a turn asks the network for more before it hands out what it has: peers that never stop hold up nobody.
const MAX_ROUNDS: usize = 16;

/// See the module. It has no thread of its own: whoever has it calls [`Driver::turn`], and [`Driver::sleep`] when there is nothing else to do.
pub struct Driver<A: Arena, T> {
    node: Node<A>,
    network: T,
    clock: Clock,
    began: Instant,
    seed: u64,
    brought: Vec<Brought>,
}

impl<A: Arena, T: Transport> Driver<A, T> {
    /// A node over a network; `seed` is the cluster's, as in [`crate::node::Options::seed`].
    pub fn new(node: Node<A>, network: T, clock: Clock, seed: u64) -> Driver<A, T> {
        let began = clock.now();
        Driver { node, network, clock, began, seed, brought: Vec::new() }
    }

    /// The node, to be asked for something: what comes of it is in the next [`Driver::turn`].
    pub fn node(&mut self) -> &mut Node<A> {
        &mut self.node
    }

    /// The network.
    pub fn network(&mut self) -> &mut T {
        &mut self.network
    }

    /// Do what is to be done; the answers to calls that have come to their end.
    pub fn turn(&mut self) -> Vec<(u64, Answer)> {
        let mut answers = Vec::new();
        for _ in 0..MAX_ROUNDS {
            self.node.tick(self.clock.since(self.began));
            self.carry_out(&mut answers);
            self.network.turn(&mut self.brought);
            if self.brought.is_empty() {
                break;
            }
            for brought in self.brought.drain(..) {
                match brought {
                    Brought::Message(message) => match Message::from_bytes(&message, self.seed) {
                        Ok((from, message)) => self.node.received(from, message),
                        Err(_) => self.node.count_garbage(),
                    },
                    Brought::Read { call, bytes } => self.node.read_ended(call, bytes.as_deref()),
                }
            }
        }
        self.carry_out(&mut answers);
        answers
    }

    fn carry_out(&mut self, answers: &mut Vec<(u64, Answer)>) {
        let from: NodeId = self.node.id();
        while let Some(effect) = self.node.effect() {
            match effect {
                Effect::Read { call, node, at, bytes } => self.network.read(call, node, at, bytes),
                Effect::Send(to, message) => self.network.send(to, &message.to_bytes(from, self.seed)),
                Effect::Answer(call, answer) => answers.push((call, answer)),
            }
        }
    }

    /// Wait until something may have come or is to be done, and no longer than that.
    pub fn sleep(&mut self, at_most: Duration) {
        let now = self.clock.since(self.began);
        let wakes = self.node.wakes_at().map_or(at_most, |at| at_most.min(at.saturating_sub(now)));
        if !wakes.is_zero() && !self.node.wants_something() {
            self.network.sleep(wakes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::members::Lends;
    use crate::node::Options;

    /// A network that nobody else is on.
    #[derive(Default)]
    struct Nobody {
        comes: Vec<Brought>,
        slept: Vec<Duration>,
    }

    impl Transport for Nobody {
        fn read(&mut self, call: u64, _: NodeId, _: u64, _: usize) {
            self.comes.push(Brought::Read { call, bytes: None });
        }

        fn send(&mut self, _: NodeId, _: &[u8]) {}

        fn turn(&mut self, brought: &mut Vec<Brought>) {
            brought.append(&mut self.comes);
        }

        fn sleep(&mut self, at_most: Duration) {
            self.slept.push(at_most);
        }
    }

    #[test]
    fn calls_are_answered_garbage_is_counted_and_sleep_is_bounded() {
        let (lends, bytes) = Lends::cut(4, 64, 8);
        let memory: Arc<Vec<AtomicU64>> = Arc::new((0..bytes / 8).map(|_| AtomicU64::new(0)).collect());
        let node = Node::new(NodeId(1), &memory, &lends, Options::default(), 0);
        let mut driver = Driver::new(node, Nobody::default(), Clock::system(), 0);
        let call = driver.node().fetch(&[1; 16]);
        let answers = driver.turn();
        let [(answered, Answer::Absent(ticket))] = answers[..] else { panic!("{answers:?}") };
        assert_eq!(answered, call);
        driver.node().store(&[1; 16], b"an object", ticket);
        let call = driver.node().fetch(&[1; 16]);
        assert_eq!(driver.turn(), [(call, Answer::Found { payload: b"an object".to_vec(), from: None })]);
        driver.network().comes.push(Brought::Message(b"garbage".to_vec()));
        assert!(driver.turn().is_empty());
        assert_eq!(driver.node().counts().garbage, 1);
        driver.sleep(Duration::from_millis(7));
        assert_eq!(driver.network().slept, [Duration::from_millis(7)]);
    }
}
