//! Reducing the Disk I/O of Web Proxy Server Caches (Maltzahn, Richardson, Grunwald; USENIX 1999).

/// Figure 1: of all requests so many are for objects of 8 KiB and less, in percent; the text of section 2.4.2 says "over 70 %", that of
/// section 5 "about 70 %".
pub const SMALL_PERCENT: f64 = 74.0;
/// Section 4: hits of a cache without end, in percent.
pub const INFINITE_PERCENT: f64 = 59.0;
/// Section 5: objects in the mapped file, and hits there, that cross the end of a page where nothing keeps them from it, in percent.
pub const CROSSING_PERCENT: (f64, f64) = (32.0, 30.0);
/// Figure 5: hits in the first quarter of the mapped file, in percent.
pub const FIRST_QUARTER_PERCENT: f64 = 70.0;
/// Section 2.4.1: directories that have more than 1000 files with SQUIDL.
pub const LARGE_DIRECTORIES: u64 = 30;
/// The same: what a large directory is.
pub const MANY_FILES: u64 = 1000;
/// Figure 2: requests at the beginning that its data leaves out.
pub const WARM_UP_REQUESTS: usize = 100_000;
/// Section 4: first-level and second-level directories.
pub const DIRECTORIES: (u32, u32) = (16, 256);
/// Section 5 and the abstract: transactions with SQUIDL, with SQUIDM, and with both together, in percent of SQUID's.
pub const TRANSACTIONS_PERCENT: [f64; 3] = [50.0, 40.0, 30.0];
/// Section 4: requests of the first day and of the second.
pub const REQUESTS: (usize, usize) = (522_376, 495_664);
/// Section 4: the finite cache's mapped file, and the memory that mapped it, in MiB.
pub const FILE_MIB: (f64, f64) = (160.0, 24.0);
/// The same: the file is "roughly six times" as large as that memory.
pub const FILE_TO_MEMORY: f64 = 6.0;
/// Section 5, Figure 3: CERN's transactions are "surprisingly similar" to SQUID's, in percent of those.
pub const CERN_PERCENT: f64 = 100.0;
/// The same: "only a third of all disk I/O are reads", with either, in percent.
pub const READS_PERCENT: f64 = 33.0;
/// Section 5: kilobytes of a mean transfer of the mapped file, of SQUID's files, and of SQUIDL's.
pub const MEAN_TRANSFER_KB: [f64; 3] = [21.0, 8.0, 10.0];
