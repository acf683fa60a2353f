//! How often HashCache-Log writes its index.

/// The log grows by so many times a snapshot's size between two snapshots: they are at most 2 % of what is written.
pub const SNAPSHOT_SHARE: u64 = 50;
