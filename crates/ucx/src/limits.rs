//! What there may be of each.

/// Bytes of one message at most. Longer ones would be sent in a way that needs the receiver's help twice.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Messages that wait to be taken at most, and their bytes together; more are dropped and counted, and their sender's deadline tells it.
pub const MAX_WAITING_MESSAGES: usize = 4096;
pub(crate) const MAX_WAITING_BYTES: usize = 16 << 20;

/// Bytes that reads and messages which were given up may hold until UCX is done with them; beyond them none is begun.
pub const MAX_QUARANTINED_BYTES: usize = 64 << 20;

/// What a request takes beside its bytes, as it is counted there.
pub(crate) const REQUEST_BYTES: usize = 512;

/// The longest address of a worker, and the longest key: theirs have some hundred bytes.
pub(crate) const MAX_TOLD_BYTES: usize = 64 << 10;
