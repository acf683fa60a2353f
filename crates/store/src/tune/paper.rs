//! What the HashCache paper prints in its section 4.4, number by number, and nothing else.

/// A row of Table 6: the mean of three SATA disks.
pub(super) struct Table6 {
    /// How much is read at a time.
    pub(super) kib: u64,
    /// Seeks a second. Not one second over the latency beside it, which would be 80 for the first: both are as printed.
    pub(super) per_second: u64,
    /// Milliseconds for each.
    pub(super) latency_ms: f64,
}

const fn row(kib: u64, per_second: u64, latency_ms: f64) -> Table6 {
    Table6 { kib, per_second, latency_ms }
}

pub(super) const TABLE_6: [Table6; 7] = [
    row(1, 78, 12.5),
    row(4, 76, 12.9),
    row(8, 76, 13.1),
    row(16, 74, 13.3),
    row(32, 72, 13.7),
    row(64, 70, 14.1),
    row(128, 53, 19.2),
];

/// Table 5: of objects in the cache of CoDeeN, how many per cent are smaller than so many KiB.
pub(super) const TABLE_5: [(u64, f64); 6] = [(8, 74.8), (16, 87.2), (32, 93.8), (64, 97.1), (128, 98.8), (256, 99.5)];

/// The set that the paper chooses by them: 8 blocks of 8 KiB.
pub(super) const SET_BYTES: u64 = 64 << 10;

/// The mean object size that the paper counts by (sections 2 and 3).
pub(super) const MEAN_BYTES: u64 = 8192;

pub(super) fn table_6(bytes: u64) -> Option<&'static Table6> {
    TABLE_6.iter().find(|row| row.kib << 10 == bytes)
}

/// Per cent.
pub(super) fn table_5(bytes: u64) -> Option<f64> {
    TABLE_5.iter().find(|(kib, _)| kib << 10 == bytes).map(|(_, percent)| *percent)
}
