//! The other nodes of the cluster that this proxy's cache is a node of: they are told what is taken back here, and tell it.
//!
//! - `spread`: a ban on all nodes; what they ask here; and meetings, by which nodes learn what each other's stamps are worth
//! - `known`: what is known of each other node, and what it still has to be told
//!
//! The caller knows who they are and carries what is said (`tinaja-cluster`).
//!
//! # Decisions
//!
//! - A ban is answered once all nodes that belong to the cluster have it on their disks. One that does not confirm it in time is named, and told again
//!   as long as it belongs to the cluster and this process runs. Who comes while others are told is told too before the answer.
//! - Nodes that were away are not told what they have missed: they validate all that is from before, which the cluster sees to, as single URLs may have been
//!   removed meanwhile too. But one that is new is told what was purged here in the last minute: it may have been there already, and not known to whoever
//!   was asked to purge. What others purged is not passed on: nothing says that two messages are of one purge, so all would tell each other again, and fetch anew again, at
//!   each start.
//! - A book is of one node: of two that name the same one neither's stamps are believed, or one could make the other's old objects young. A node that was started again names
//!   its old book, and is believed once its former life is gone.

mod known;
mod spread;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_store::Pending;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

use known::Known;
pub(crate) use spread::{answer_nodes, ban_everywhere, keep_meeting};

/// Bans that are spread at once. More wait for their turn, some 16 s at most where a node does not answer.
const MOST_SPREAD: usize = 64;

/// One other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherNode {
    /// This life of it: another one after each start.
    pub id: u64,
    /// As operators call it.
    pub name: String,
}

/// Who is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// The other nodes that belong to the cluster at the moment.
    pub nodes: Vec<OtherNode>,
    /// This node has just started, and may not have found all of them.
    pub is_young: bool,
}

/// What another node says here, and where its answer goes.
pub type Call = (Bytes, oneshot::Sender<Bytes>);

/// What a proxy is told of the other nodes. Memory: what they are owed, 2 MiB at most for each that does not answer.
pub struct Nodes {
    /// Who is there, as far as is known at the moment.
    others: Box<dyn Fn() -> Others + Send + Sync>,
    /// Says something to one of them; its answer, or nothing after some ten seconds.
    ask: Box<dyn Fn(u64, Bytes) -> Pending<Option<Bytes>> + Send + Sync>,
    /// What they say here.
    calls: tokio::sync::Mutex<mpsc::Receiver<Call>>,
    known: Mutex<Known>,
    /// Something is to be told.
    changed: Notify,
    /// Bans that are being spread.
    turns: Arc<Semaphore>,
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").finish_non_exhaustive()
    }
}

impl Nodes {
    /// These: who they are, how one is asked by its id, and what they ask here. A question has 1 MiB at most, an answer 1 KiB.
    pub fn new(
        others: Box<dyn Fn() -> Others + Send + Sync>,
        ask: Box<dyn Fn(u64, Bytes) -> Pending<Option<Bytes>> + Send + Sync>,
        calls: mpsc::Receiver<Call>,
    ) -> Nodes {
        let calls = tokio::sync::Mutex::new(calls);
        Nodes {
            others,
            ask,
            calls,
            known: Mutex::default(),
            changed: Notify::new(),
            turns: Arc::new(Semaphore::new(MOST_SPREAD)),
        }
    }
}
