//! What Dámelo keeps to.

use std::time::Duration;

/// The smallest frame (section 5.2).
pub const LEAST_FRAME_BYTES: u32 = 16 << 10;

/// The largest frame (section 5.2), which the last groups have.
pub const LARGE_FRAME_BYTES: u32 = 256 << 10;

/// A group is to have so many frames at least: a small disk has fewer groups.
pub const LEAST_FRAMES: u32 = 16;

/// The fewest frames that a group may have.
pub const FEWEST_FRAMES: u32 = 4;

/// The fewest frames that memory has room for, of each size: one to fill, one to read into, one to compact into, one on its
/// way to the disk.
pub const LEAST_POOL_FRAMES: usize = 4;

/// Readers may hold one part in so many of the frames in memory; who comes then gets a copy.
pub const PINNED_SHARE: usize = 4;

/// How often a page may be begun anew before the disk has heard of it: so many lives are passed over after a crash.
pub const UNRECORDED_LIVES: u64 = 64;

/// Versions that were replaced and whose successor is not on the disk yet; beyond, all groups are checkpointed. And objects of a
/// group that were removed and of which its journal has not heard; beyond, all journals are told what is gone.
pub const MAX_SHADOWS: usize = 64 << 10;

/// How long a request waits for a frame before it is told that the disk is too slow.
pub const FRAME_PATIENCE: Duration = crate::terms::limits::WRITE_PATIENCE;

/// How often the engine's thread looks whether something is due. It is woken for what cannot wait.
pub const TICK: Duration = Duration::from_millis(50);
