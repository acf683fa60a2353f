//! What several rooms keep to.

use std::time::Duration;

/// How long a reader may hold up anything: a write it follows that cannot be stored.
pub const LEASE: Duration = Duration::from_secs(30);

/// How long a write waits for a disk that takes nothing; it then goes on for its readers and is not stored, and so does
/// every other until the disk goes on. A client's download must not wait with the disk.
pub const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a large body that one request reads where they lie together and the reader is sure to want them. A disk
/// that turns reads so much while it would seek once; one that does not, at nearly its full speed.
pub const TOGETHER_BYTES: usize = 1 << 20;

/// The longest request for several parts of a large object. The [`TOGETHER_BYTES`] that are wanted may begin and end amid
/// a part and lie on both sides of a region's end, so this is half as much again.
pub const MAX_REQUEST_BYTES: usize = TOGETHER_BYTES / 2 * 3;
