//! What unfinished writes, and objects that wait for their group, may take.

use std::time::Duration;

use crate::memory::limits::share;
use crate::memory::machine::memory_bytes;

/// The largest head, in bytes. Proxies accept heads of 64 KiB; the adapter adds its own fields.
pub const MAX_HEAD_BYTES: usize = 128 * 1024;

/// Writes open at once; more are relayed to their readers and not stored. Each holds up to one extent (256 KiB), so
/// this bounds them to 128 MiB; and the beginning of a long body, up to a bin of 64 KiB, with an engine that has a Disk Table.
pub const MAX_OPEN_WRITES: usize = 512;

/// Bytes of all unfinished writes that are not with the engine yet: what [`MAX_OPEN_WRITES`] of them hold.
pub const MAX_WRITTEN_BYTES: usize = MAX_OPEN_WRITES * (256 << 10);

/// The least that [`written_bytes`] may be: sixteen parts of 256 KiB, or some hundred small objects.
pub const MIN_WRITTEN_BYTES: usize = 4 << 20;

/// [`MAX_WRITTEN_BYTES`], or a [`MEMORY_SHARE`](crate::limits::MEMORY_SHARE) of the memory that there is, should that be less:
/// 8 MiB with 128 MiB, all with 2 GiB. At least [`MIN_WRITTEN_BYTES`]. A write that would take more is relayed to its readers
/// and not stored.
pub fn written_bytes() -> usize {
    share(memory_bytes(), MIN_WRITTEN_BYTES, MAX_WRITTEN_BYTES)
}

/// Bytes of a write that cannot be stored which wait for the slowest of the readers that keep up with it. Whoever is
/// further behind reads what was stored, and then [`crate::ReadError::Behind`].
pub const RELAY_BYTES: usize = 1 << 20;

/// The same where there is no room for that within [`written_bytes`].
pub const SHORT_RELAY_BYTES: usize = 64 << 10;

/// Bytes of objects that wait for the rest of their group, for each disk; more are written at once. As many as the pages
/// of a few dozen clients.
pub const MAX_GATHERED_BYTES: usize = 8 << 20;

/// The largest object that waits for its group: a longer one costs the disk more to read than to look for.
pub const MAX_GATHERED_OBJECT: usize = 128 << 10;

/// Groups that wait for each disk; objects of more are written at once.
pub const MAX_GROUPS: usize = 512;

/// Objects of a group that are written together: as many as fit one request of 1 MiB, were they of a block each.
pub const MAX_GROUP_OBJECTS: usize = 256;

/// What a client fetches for one page belongs together until nothing has joined it for so long: a page's objects come one
/// after the other, even on a thin link. The proxy groups by it, and so does the laboratory.
pub const GROUP_WINDOW: Duration = Duration::from_secs(5);

/// A group is written when nothing more has come for it for so long, since the next may be a while.
pub const GROUP_QUIET: Duration = Duration::from_millis(500);

/// A group is written so long after its first object came, whatever comes: a killed process may lose so much of what
/// belongs to a group.
pub const GROUP_HOLD: Duration = Duration::from_secs(2);
