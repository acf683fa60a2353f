//! Objects that were stored, until their homes list them. Before that others may find an older version, of which the home heard late.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::arena::Arena;
use crate::node::{Answer, Node};
use crate::slots::SlotKey;

/// How soon it is looked again whether a home lists something; later each time.
pub const LISTED: Duration = Duration::from_micros(500);

/// An object that was stored.
pub struct Listing {
    /// Its key.
    pub key: SlotKey,
    /// The version that its home is to list.
    pub version: u64,
    /// Who is told whether it does.
    pub reply: oneshot::Sender<bool>,
    /// After how long it is looked again.
    pub pause: Duration,
    /// How long it may take.
    pub until: Instant,
}

/// All of them. There are as many as there are objects being stored.
#[derive(Default)]
pub struct Listings {
    waiting: Vec<(Instant, Listing)>,
    looking: HashMap<u64, Listing>,
}

impl Listings {
    /// One more, to be looked for now.
    pub fn begin(&mut self, listing: Listing, now: Instant) {
        self.waiting.push((now, listing));
    }

    /// Look for those that are due.
    pub fn look<A: Arena>(&mut self, node: &mut Node<A>, now: Instant) {
        for (_, listing) in self.waiting.extract_if(.., |(at, _)| *at <= now) {
            self.looking.insert(node.is_listed(&listing.key, listing.version), listing);
        }
    }

    /// What came of a look. What the node does not hold any more, its home has heard of and replaced by what came after it, or it has gone to another node.
    pub fn looked<A: Arena>(&mut self, call: u64, answer: &Answer, node: &Node<A>, now: Instant) {
        let Some(listing) = self.looking.remove(&call) else { return };
        let is_listed = *answer == Answer::Valid(true) || !node.holds(&listing.key, listing.version);
        if is_listed || now >= listing.until {
            // Whoever stored it may have gone.
            let _ = listing.reply.send(is_listed);
            return;
        }
        self.waiting.push((now + listing.pause, Listing { pause: listing.pause * 2, ..listing }));
    }

    /// When the next one is due.
    pub fn patience(&self, now: Instant) -> Duration {
        self.waiting.iter().map(|(at, _)| at.saturating_duration_since(now)).min().unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::members::{Lends, Member, Members, NodeId, Role};
    use crate::node::{Effect, Options};

    #[test]
    fn it_is_looked_until_it_is_listed_or_too_late() {
        let (lends, bytes) = Lends::cut(4, 64, 8);
        let memory: Arc<Vec<AtomicU64>> = Arc::new((0..bytes / 8).map(|_| AtomicU64::new(0)).collect());
        let mut node = Node::new(NodeId(1), &memory, &lends, Options::default(), 0);
        let own = Member { name: "own".to_owned(), role: Role::Proxy, lends };
        node.set_members(Members::new([(NodeId(1), own)].into()));
        let key = [1; 16];
        node.ticket(&key);
        let Some(Effect::Answer(_, Answer::Absent(ticket))) = node.effect() else { panic!("no ticket") };
        let version = node.store(&key, b"an object", ticket).unwrap();
        let (listed, not) = (Answer::Valid(true), Answer::Valid(false));
        assert_eq!(told(&mut node, &key, version, &listed), (true, 1));
        // It is not held any more: what came after it is listed.
        assert_eq!(told(&mut node, &key, version + 1, &not), (true, 1));
        // It is held, and its home does not list it.
        let (is_listed, looks) = told(&mut node, &key, version, &not);
        assert!(!is_listed && looks > 1, "{looks} looks");
    }

    /// What is told of a version whose home says that, and after how many looks.
    fn told<A: Arena>(node: &mut Node<A>, key: &SlotKey, version: u64, home: &Answer) -> (bool, u32) {
        let (mut listings, mut at) = (Listings::default(), Instant::now());
        let (reply, mut told) = oneshot::channel();
        listings.begin(Listing { key: *key, version, reply, pause: LISTED, until: at + LISTED * 2 }, at);
        for looks in 1..100 {
            listings.look(node, at);
            if let Some(Effect::Answer(call, _)) = node.effect() {
                listings.looked(call, home, node, at);
            }
            if let Ok(is_listed) = told.try_recv() {
                assert_eq!(listings.patience(at), Duration::MAX);
                return (is_listed, looks);
            }
            at += listings.patience(at);
        }
        panic!("nothing is told of it");
    }
}
