//! What a node needs of a network: reads of its peers' memory, and messages.

use std::time::Duration;

use crate::members::NodeId;

/// What a network has brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Brought {
    /// A message, as it came.
    Message(Vec<u8>),
    /// A read has come to its end.
    Read {
        /// The number that it was begun with.
        call: u64,
        /// What it brought; nothing if it failed or took too long.
        bytes: Option<Box<[u8]>>,
    },
}

/// A network to the other nodes. Messages between two nodes keep their order; they may get lost.
pub trait Transport {
    /// Begin to read so many bytes of a node's memory, from a byte on. Its end comes by [`Transport::turn`], for each that is begun, whatever becomes of it.
    fn read(&mut self, call: u64, node: NodeId, at: u64, bytes: usize);

    /// Send a message.
    fn send(&mut self, node: NodeId, message: &[u8]);

    /// Make everything go on, and tell what has come.
    fn turn(&mut self, brought: &mut Vec<Brought>);

    /// Wait until something may have come, and no longer than that.
    fn sleep(&mut self, at_most: Duration);
}
