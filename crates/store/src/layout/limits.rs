//! What a log and a Disk Table hold in memory, and how long they try.

use std::time::Duration;

/// Bytes that were read along with what was asked for and are kept for who asks next, on each disk: the pages that a few
/// dozen readers are at. Requests under way are not counted in it; their turns bound them.
pub const MAX_AHEAD_BYTES: usize = 8 << 20;

/// Batches on their way to the disk at once; appends beyond wait. Each is up to 2 MiB.
pub const MAX_BATCHES_IN_FLIGHT: usize = 4;

/// Summaries of ended regions that wait for a sync; appends beyond wait. Half as many bring one about, so where nobody
/// flushes there is one for every four regions, 32 MiB of a large log; and these are walked after a kill.
pub const MAX_SUMMARIES_WAITING: usize = 8;

/// Batches that could not be written and are kept for those who are still reading what lies in them: all that may fail
/// before a disk is retired, and as many that were not tried because their region was given up. Each is up to 2 MiB, the
/// latter mostly less.
pub const MAX_LOST_BATCHES: usize = 2 * (MAX_WRITE_FAILURES as usize + MAX_BATCHES_IN_FLIGHT);

/// How long a record may stay in memory only, where one log is written: what a killed process may lose, but for objects that wait for their
/// group ([`crate::limits::GROUP_HOLD`]).
pub const WRITE_BEHIND: Duration = Duration::from_millis(100);

/// The same where several logs are written. One of them is a [`WRITE_BEHIND`], the one that waits longest, so that up to five logs have no more
/// small writes a second than one has.
pub const WRITE_BEHIND_OF_SEVERAL: Duration = Duration::from_millis(500);

/// Failed writes, or failed syncs, in a row after which a device is no longer written to. Its reads go on.
pub const MAX_WRITE_FAILURES: u32 = 8;

/// Bins of a Disk Table on their way to the disk at once; writes beyond wait. Each is up to a block, 8 KiB by default:
/// 4 MiB, and enough to keep any disk busy.
pub const MAX_BINS_IN_FLIGHT: usize = 512;

/// Bins written since the last sync. Half as many bring one about. They are remembered because a sync that fails makes
/// all of them worthless; 16 bytes each.
pub const MAX_UNSYNCED_BINS: usize = 16_384;

/// Bins that could not be written. What the disk holds of them is not known, so each is remembered, for 16 bytes; a disk
/// with more of them is given up.
pub const MAX_LOST_BINS: usize = 65_536;

/// Changes of sets that are remembered, so that who reads one knows whether it was written meanwhile: more than there are
/// reads and writes under way. 32 bytes each.
pub const MAX_CHANGED_SETS: usize = 4096;
