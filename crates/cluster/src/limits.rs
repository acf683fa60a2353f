//! What there may be of each, with its reason.

/// Parts of the keys, each with a home. Enough that eight homes have within a tenth of the same share, and few enough that a change of members is
/// worked out in a millisecond.
pub const PARTITIONS: usize = 4096;

/// Objects that one bucket of the key-table lists. One read brings a bucket.
pub const BUCKET_ENTRIES: usize = 8;

/// Copies of one object that its home knows of. A node that would have one more is told to forget it.
pub const MAX_COPIES: usize = 64;

/// How often a fetch looks again, after a bucket or an object was being changed while it was read, before it is a miss.
pub const MAX_LOOKS: u32 = 3;

/// Objects that one node may be moving to another or taking from one at the same time; each holds a buffer as large as it is.
pub const MAX_MOVES: usize = 64;

/// Objects that are looked at for one that may go to a passive node.
pub const MAX_LOOKED_AT: usize = 64;

/// Slots beside those that objects are kept in, for objects on their way to another node (3.1, "temporary buffer").
pub const BUFFER_SLOTS: usize = 16;

/// Calls of one node that wait for others; beyond them a fetch finds nothing and a store is not carried out.
pub const MAX_CALLS: usize = 4096;

/// Keys made invalid that a node remembers. What was asked of an origin before so many others were made invalid is not stored.
pub const MAX_FORGOTTEN: usize = 1024;

/// What the owner of a node may want of it at once; beyond it a fetch finds nothing and a store is not carried out.
pub const MAX_COMMANDS: usize = 4096;

/// Messages that have come and were not looked at; whoever sends more waits. Some 8 MiB.
pub const MAX_WAITING_MESSAGES: usize = 65_536;

/// Addresses to which a node has connections: those of the other nodes, and of seeds.
pub const MAX_LINKS: usize = 256;

/// What may wait to be sent to one address; more is lost, and counted.
pub const MAX_QUEUED: usize = 8192;

/// Connections that a node accepts from others.
pub const MAX_CONNECTIONS: usize = 256;

/// Requests on one of them at once.
pub const MAX_STREAMS: u32 = 1024;

/// Disks that one object may lie on. Of more than a few copies none is ever needed.
pub const MAX_DISK_COPIES: usize = 8;

/// Connections by which other nodes ask for objects, that nobody has taken up yet.
pub const MAX_VISITORS: usize = 64;

/// What other nodes say to the program that this node is a part of, at once; whoever says more waits, and is refused after some seconds.
pub const MAX_CALLS_AT_ONCE: usize = 16;

/// The longest of it, in bytes, and the longest answer.
pub const MAX_CALL_BYTES: usize = 1 << 20;
/// See [`MAX_CALL_BYTES`].
pub const MAX_CALL_ANSWER_BYTES: usize = 1024;

/// Gossip of one node, in bytes.
pub const MAX_GOSSIP_BYTES: usize = 128 << 10;

/// Gossip that waits.
pub const MAX_GOSSIP: usize = 256;

/// What a node tells of its memory, in bytes: it has some hundred.
pub const MAX_TOLD_BYTES: usize = 128 << 10;

/// One message, in bytes. The longest has 106.
pub const MAX_MESSAGE_BYTES: usize = 128;

/// A key that is to be removed, in bytes: a name and a URL of 16 KiB each, and what is around them.
pub const MAX_REMOVAL_BYTES: usize = 40 * 1024;

/// Bytes of objects that are being stored and of which a copy is kept for the cluster's memory; beyond it no more are kept.
pub const MAX_COPIED_BYTES: usize = 64 << 20;

/// The largest object that a slot may be for, in bytes.
pub const MAX_OBJECT_BYTES: u64 = 16 << 20;
