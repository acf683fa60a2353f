//! Every limit of the store, with its reason.

use std::time::Duration;

use crate::memory::machine::memory_bytes;

/// On a small machine, or in a control group with little memory, what is under way may take one part in so many of the memory
/// that there is: see [`reads`] and [`held_bytes`].
pub const MEMORY_SHARE: u64 = 16;

/// Writes open at once; more are relayed to their readers and not stored. Each holds up to one extent (256 KiB), so
/// this bounds them to 128 MiB; and the beginning of a long body, up to a bin of 64 KiB, with an engine that has a Disk Table.
pub const MAX_OPEN_WRITES: usize = 512;

/// Bytes of all unfinished writes that are not with the engine yet: what [`MAX_OPEN_WRITES`] of them hold.
pub const MAX_WRITTEN_BYTES: usize = MAX_OPEN_WRITES * (256 << 10);

/// The least that [`written_bytes`] may be: sixteen parts of 256 KiB, or some hundred small objects.
pub const MIN_WRITTEN_BYTES: usize = 4 << 20;

/// [`MAX_WRITTEN_BYTES`], or a [`MEMORY_SHARE`] of the memory that there is, should that be less: 8 MiB with 128 MiB, all with 2 GiB. At
/// least [`MIN_WRITTEN_BYTES`]. A write that would take more is relayed to its readers and not stored.
pub fn written_bytes() -> usize {
    share(memory_bytes(), MIN_WRITTEN_BYTES, MAX_WRITTEN_BYTES)
}

/// Parts for whose places there is room beside a body's beginning where nobody said how long the body is: 16 MiB. The
/// head of a longer one moves into the log, with the beginning.
pub const UNTOLD_EXTENTS: usize = 64;

/// Reads under way at once on each disk; lookups beyond wait their turn. Each holds a buffer of up to one record (256 KiB and its
/// head), so this bounds them to about 40 MiB, and keeps any disk busy. A request for several parts of a large object
/// takes a turn for each part's worth of bytes.
pub const MAX_READS: usize = 128;

/// The fewest [`reads`] there may be: enough to keep a disk that turns, or a flash card, busy.
pub const MIN_READS: usize = 16;

/// [`MAX_READS`], or as many as take a [`MEMORY_SHARE`] of the memory that there is with 256 KiB each, should that be fewer: 32 with
/// 128 MiB, all with 512. At least [`MIN_READS`].
pub fn reads() -> usize {
    reads_with(memory_bytes())
}

fn reads_with(memory_bytes: u64) -> usize {
    share(memory_bytes >> 18, MIN_READS, MAX_READS)
}

/// A share of this, within bounds.
fn share(all: u64, least: usize, most: usize) -> usize {
    usize::try_from(all / MEMORY_SHARE).unwrap_or(most).clamp(least, most)
}

/// Turns that are left for others by readers that take several for one request: half. A busy disk is asked for one part
/// at a time, in the order in which readers came.
pub fn read_turns_kept() -> usize {
    reads() / 2
}

/// Bytes of a large body that one request reads where they lie together and the reader is sure to want them. A disk
/// that turns reads so much while it would seek once; one that does not, at nearly its full speed.
pub const TOGETHER_BYTES: usize = 1 << 20;

/// The longest request for several parts of a large object. The [`TOGETHER_BYTES`] that are wanted may begin and end amid
/// a part and lie on both sides of a region's end, so this is half as much again.
pub const MAX_REQUEST_BYTES: usize = TOGETHER_BYTES / 2 * 3;

/// Bytes of read buffers that are kept for the next reads of one disk: those of some fifty reads of 64 KiB, or three
/// hundred of 8 KiB. More would be memory for nothing when the load is over.
pub const MAX_SPARE_BYTES: usize = 4 << 20;

/// Bytes of extents that readers hold between two pieces. Beyond that a reader gives out copies and reads the extent
/// again for the next piece: ten thousand clients that have stopped reading then hold a piece each and no more. Several
/// parts are read in one request only while less than half of this is held; such a request counts until the last piece of
/// it is let go of, wherever that is.
pub const MAX_HELD_BYTES: usize = 64 << 20;

/// The least that [`held_bytes`] may be: one request for several parts for each of two readers.
pub const MIN_HELD_BYTES: usize = 4 << 20;

/// [`MAX_HELD_BYTES`], or a [`MEMORY_SHARE`] of the memory that there is, should that be less: 8 MiB with 128 MiB, all with 1 GiB. At
/// least [`MIN_HELD_BYTES`].
pub fn held_bytes() -> usize {
    held_bytes_with(memory_bytes())
}

fn held_bytes_with(memory_bytes: u64) -> usize {
    share(memory_bytes, MIN_HELD_BYTES, MAX_HELD_BYTES)
}

/// Bytes that were read along with what was asked for and are kept for who asks next, on each disk: the pages that a few
/// dozen readers are at. Requests under way are not counted in it; their turns bound them.
pub const MAX_AHEAD_BYTES: usize = 8 << 20;

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

/// Requests a device may have waiting. Reads and region writes are bounded above; this guards against a mistake.
pub const MAX_QUEUED_REQUESTS: usize = 4096;

/// Requests of one disk that io_uring works on at once: all the reads there may be, which any disk is kept busy by.
pub const MAX_IN_FLIGHT: usize = MAX_READS;

/// Parts of the hot objects, each under its own lock.
pub const HOT_SHARDS: usize = 8;

/// A hot object may take one part in so many of its shard, or a few large ones would push out all the rest.
pub const HOT_OBJECT_SHARE: usize = 8;

/// Bytes of a write that cannot be stored which wait for the slowest of the readers that keep up with it. Whoever is
/// further behind reads what was stored, and then [`crate::ReadError::Behind`].
pub const RELAY_BYTES: usize = 1 << 20;

/// The same where there is no room for that within [`written_bytes`].
pub const SHORT_RELAY_BYTES: usize = 64 << 10;

/// How long a reader may hold up anything: a write it follows that cannot be stored.
pub const LEASE: Duration = Duration::from_secs(30);

/// The largest head, in bytes. Proxies accept heads of 64 KiB; the adapter adds its own fields.
pub const MAX_HEAD_BYTES: usize = 128 * 1024;

/// Batches on their way to the disk at once; appends beyond wait. Each is up to 2 MiB.
pub const MAX_BATCHES_IN_FLIGHT: usize = 4;

/// Summaries of ended regions that wait for a sync; appends beyond wait. Half as many bring one about, so where nobody
/// flushes there is one for every four regions, 32 MiB of a large log; and these are walked after a kill.
pub const MAX_SUMMARIES_WAITING: usize = 8;

/// How long a write waits for a disk that takes nothing; it then goes on for its readers and is not stored, and so does
/// every other until the disk goes on. A client's download must not wait with the disk.
pub const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// Batches that could not be written and are kept for those who are still reading what lies in them: all that may fail
/// before a disk is retired, and as many that were not tried because their region was given up. Each is up to 2 MiB, the
/// latter mostly less.
pub const MAX_LOST_BATCHES: usize = 2 * (MAX_WRITE_FAILURES as usize + MAX_BATCHES_IN_FLIGHT);

/// How long a record may stay in memory only: what a killed process may lose, but for objects that wait for their group
/// ([`GROUP_HOLD`]).
pub const WRITE_BEHIND: Duration = Duration::from_millis(100);

/// Failed writes, or failed syncs, in a row after which a device is no longer written to. Its reads go on.
pub const MAX_WRITE_FAILURES: u32 = 8;

/// The smallest cache. Below this the regions are too few to evict by.
pub const MIN_DISK_BYTES: u64 = 4 << 20;

/// The largest index: slots that 64-bit sizes and 4 TiB of memory allow.
pub const MAX_SLOTS: u64 = 1 << 39;

/// The log grows by so many times a snapshot's size between two snapshots: they are at most 2 % of what is written.
pub const SNAPSHOT_SHARE: u64 = 50;

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

/// Sets without an index in memory of which it is remembered what lies in them after they were read: an object is stored
/// after it was looked for, and then the set need not be read again. 20 bytes each, however large the disk.
pub const MAX_SETS_AT_HAND: u64 = 1024;

/// Sets that are read at once because they are to be written to and nothing is known of them; further writes wait. Lookups have
/// [`MAX_READS`] beside. With sets of 64 KiB this is 4 MiB, and as much as a disk works on at a time.
pub const MAX_SETS_LEARNED: usize = 64;

/// Removals that could not be written down, kept in memory until a restart; 16 bytes each. A disk that failed more of
/// them is not read any more.
pub const MAX_UNWRITTEN_REMOVALS: usize = 65_536;

/// Positions of HashCache-LogLRU that memory keeps until they go out to its offset file, at the most and of a disk of 134
/// million slots, 1 TiB of objects of 8 KiB; smaller ones keep fewer. Objects that would add to them wait. 12 bytes each, 24 at
/// worst: 3 to 6 MiB.
pub const MAX_POSITIONS_WAITING: usize = 262_144;

/// Reads handed out to programs that read the disk themselves, and not ended yet: each remembers a key's name of up to
/// 16 KiB and some hundred bytes more, so this bounds them to 64 MiB at worst, and keeps any number of disks busy.
pub const MAX_TICKETS: usize = 4096;

/// Objects of a cache whose sizes are looked at to choose how a disk is cut: their distribution hardly changes beyond, and
/// each is a read.
pub const MAX_MEASURED_OBJECTS: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_makes_small_limits() {
        let with = |mib: u64| (reads_with(mib << 20), held_bytes_with(mib << 20) >> 20);
        assert_eq!([with(1), with(64), with(128)], [(16, 4), (16, 4), (32, 8)]);
        assert_eq!([with(256), with(512), with(1024)], [(64, 16), (128, 32), (128, 64)]);
        assert_eq!((reads_with(u64::MAX), held_bytes_with(u64::MAX)), (MAX_READS, MAX_HELD_BYTES));
    }
}
