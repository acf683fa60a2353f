//! What a node has counted.

use crate::message::KINDS;

/// Counters of one node since it was made; all of them only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects found in its own memory.
    pub local: u64,
    /// Objects read from another node.
    pub remote: u64,
    /// Objects found nowhere.
    pub misses: u64,
    /// Buckets of the key-table read from another node.
    pub metadata_reads: u64,
    /// Looks into its own part of the key-table.
    pub own_metadata: u64,
    /// Reads of other nodes' memory that did not bring what was asked for: the slot or the bucket was changed.
    pub rejected: u64,
    /// Reads of other nodes' memory that failed or came too late.
    pub failed_reads: u64,
    /// Bytes read from other nodes' memory.
    pub read_bytes: u64,
    /// Own objects that were offered to a node for what was fetched from it (3.2).
    pub swaps: u64,
    /// Of these, those that the other node took.
    pub swapped: u64,
    /// Objects sent to another node's free or redundant slot.
    pub pushes: u64,
    /// Objects that it took from others.
    pub taken: u64,
    /// What others sent and could not be taken.
    pub refused: u64,
    /// Redundant copies dropped for another object.
    pub redundant_dropped: u64,
    /// Other objects dropped for another object.
    pub replaced: u64,
    /// Objects forgotten because they were made invalid, or their home said so.
    pub forgotten: u64,
    /// Objects whose home it was and had to forget, as their bucket was full.
    pub overflows: u64,
    /// Objects read or stored that were not kept, for want of room.
    pub not_kept: u64,
    /// Calls that waited for an answer in vain.
    pub too_late: u64,
    /// Messages that were not of this cluster.
    pub garbage: u64,
    /// Messages sent, by [`KINDS`].
    pub sent: [u64; KINDS.len()],
}

impl Counts {
    /// All of them, each with its name.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        let own = [
            ("local", self.local),
            ("remote", self.remote),
            ("misses", self.misses),
            ("metadata reads", self.metadata_reads),
            ("own metadata", self.own_metadata),
            ("rejected", self.rejected),
            ("failed reads", self.failed_reads),
            ("read bytes", self.read_bytes),
            ("swaps", self.swaps),
            ("swapped", self.swapped),
            ("pushes", self.pushes),
            ("taken", self.taken),
            ("refused", self.refused),
            ("redundant dropped", self.redundant_dropped),
            ("replaced", self.replaced),
            ("forgotten", self.forgotten),
            ("overflows", self.overflows),
            ("not kept", self.not_kept),
            ("too late", self.too_late),
            ("garbage", self.garbage),
        ];
        own.into_iter().chain(KINDS.into_iter().zip(self.sent)).collect()
    }
}
