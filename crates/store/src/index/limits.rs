//! How large an index may be.

/// The largest index: slots that 64-bit sizes and 4 TiB of memory allow.
pub const MAX_SLOTS: u64 = 1 << 39;
