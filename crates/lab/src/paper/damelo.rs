//! Dámelo: a user-level file system for web caches (a master's thesis of about 2000).

/// Section 5.2: objects, groups, and threads of Dámelo and of ext2.
pub const OBJECTS: u32 = 131_072;
/// See [`OBJECTS`].
pub const GROUPS: u32 = 16;
/// See [`OBJECTS`].
pub const THREADS: (usize, usize) = (16, 4);
/// The same: the largest object, which is a frame of the smallest size less what that keeps for itself.
pub const OBJECT_BYTES: u64 = 16 << 10;
/// The same: memory of the pool, and of the disk, in bytes.
pub const POOL_BYTES: u64 = 128 << 20;
/// See [`POOL_BYTES`].
pub const DISK_BYTES: u64 = 1536 << 20;
/// The same: sizes of frames, in KiB.
pub const FRAMES_KIB: [u32; 5] = [16, 32, 64, 128, 256];
/// Section 5.1: directories of the tree in each of two levels, [a-z].
pub const DIRECTORIES: u32 = 26;

/// Section 5.3: mean read latency of ext2 over Dámelo's: sequential with frames of 16 KiB.
pub const SEQUENTIAL_TIMES: f64 = 5.0;
/// The same for zipf 1:8, and for zipf 1:4 from and to.
pub const ZIPF_1_8_TIMES: f64 = 6.0;
/// See [`ZIPF_1_8_TIMES`].
pub const ZIPF_1_4_TIMES: (f64, f64) = (2.0, 3.0);
/// Section 7: random reads "double the performance"; section 5.3: "even in the worst case on par", with frames of 256 KiB.
pub const RANDOM_TIMES: (f64, f64) = (2.0, 1.0);
/// Section 5.3: deletes are "one order of magnitude faster".
pub const DELETE_TIMES: f64 = 10.0;
/// The same: mean latency of sequential reads with frames of 256 KiB, in ms.
pub const SEQUENTIAL_256_MS: f64 = 0.5;
/// The same: with frames of 16 KiB the hit rate of a page is at least so many percent.
pub const LEAST_HIT_RATE_PERCENT: f64 = 50.0;
/// Figure 6: the axis goes up to so many percent.
pub const HIGHEST_HIT_RATE_PERCENT: f64 = 250.0;
/// Section 5.3: the frame with the best latency for zipf 1:8, in KiB.
pub const BEST_FRAME_KIB: u32 = 32;

/// Section 5.4: bytes of a frame; the share of the data that may be stored, and of what is asked for again; bytes of an object.
pub const PROXY_FRAME_BYTES: u64 = 64 << 10;
/// See [`PROXY_FRAME_BYTES`].
pub const CACHEABLE: f64 = 0.80;
/// See [`PROXY_FRAME_BYTES`].
pub const REVISITED: f64 = 0.55;
/// See [`PROXY_FRAME_BYTES`]. The thesis calls it the maximum of an exponential distribution, which has none; Web Polygraph's
/// `exp(13KB)`, with which it was measured, has it as the mean.
pub const PROXY_OBJECT_BYTES: f64 = 13.0 * 1024.0;
/// The same: how long each test ran, in seconds.
pub const PROXY_SECONDS: u64 = 300;
/// Figure 7: requests a second of the simple proxy over ext2, of Squid, and of the simple proxy over Dámelo.
pub const FIGURE_7: [(&str, f64); 3] = [("mt-ext2", 363.0), ("Squid", 545.0), ("mt-Dámelo", 617.0)];
