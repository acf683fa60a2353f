//! What a node has begun and waits for.

use std::time::Duration;

use super::Ticket;
use crate::members::NodeId;
use crate::pool::Reserved;
use crate::slots::SlotKey;
use crate::table::{Listed, Seen};

/// A call: its owner's, or one that another node's message began.
pub(super) enum Call {
    /// Reading a bucket of the key-table.
    Look { look: Look },
    /// Reading an object.
    Copy { look: Look, seen: Seen, listed: Listed, swap: Option<u64> },
    /// Exchanging an own object for one that is being read.
    Swap { peer: NodeId, victim: SlotKey, generation: u64, incoming: Incoming, took: Option<Took>, epoch: u64 },
    /// Sending an object to another node's slot.
    Push { key: SlotKey, buffer: Reserved },
    /// Taking an object from another node.
    Take(Take),
    /// A home is asked to make a key invalid.
    Invalidate { key: SlotKey },
    /// This home waits until all have forgotten what is not valid any more.
    Forget { asker: NodeId, their: u64, waiting: Vec<NodeId>, everywhere: bool },
}

/// A look for a key.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub key: SlotKey,
    pub then: Then,
    /// How many there were before it.
    pub looks: u32,
    /// How many keys had been made invalid when the first began.
    pub forgets: u64,
}

/// What a bucket is read for.
#[derive(Clone, Copy)]
pub(super) enum Then {
    Fetch,
    /// What is needed to store an object, whether there is one already or not.
    Ticket,
    /// Whether this version still counts.
    Validate(u64),
}

/// What a swap brings.
pub(super) enum Incoming {
    Pending,
    Failed,
    Whole(Arrived),
}

/// An object that was read from another node.
pub(super) struct Arrived {
    pub key: SlotKey,
    pub payload: Vec<u8>,
    pub ticket: Ticket,
    pub listed: Listed,
}

/// The other node's answer.
#[derive(Clone, Copy)]
pub(super) struct Took {
    pub kept: bool,
    pub made_room: bool,
}

pub(super) struct Take {
    pub peer: NodeId,
    pub their: u64,
    pub key: SlotKey,
    pub holding: crate::directory::Holding,
    pub room: TakeRoom,
    pub payload: Option<Vec<u8>>,
    /// When it began.
    pub since: Duration,
}

/// Where what is taken will go.
pub(super) enum TakeRoom {
    Slot(Reserved),
    /// Where this is, once the other node's read of it has come to its end, and if it has brought it.
    Instead {
        key: SlotKey,
        generation: u64,
        is_whole: Option<bool>,
    },
}
