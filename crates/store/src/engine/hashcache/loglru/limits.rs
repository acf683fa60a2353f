//! What HashCache-LogLRU keeps in memory beside its index.

/// Positions of HashCache-LogLRU that memory keeps until they go out to its offset file, at the most and of a disk of 134
/// million slots, 1 TiB of objects of 8 KiB; smaller ones keep fewer. Objects that would add to them wait. 12 bytes each, 24 at
/// worst: 3 to 6 MiB.
pub const MAX_POSITIONS_WAITING: usize = 262_144;
