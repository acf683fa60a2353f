//! How bytes lie on disk: what engines are made of.
//!
//! A cache of an engine over a log is one file on each disk:
//!
//! ```text
//! superblock | snapshot area | snapshot area | region | region | ... | region
//! region:      batch, batch, ... (records without gaps, each batch padded to 4 KiB) ... | summary, ending where the region ends
//! record:      56-byte header (kind, lengths, place, digest, two checksums) | name | head | body
//! ```
//!
//! LogLRU has its positions in place of the snapshots, and an engine with a Disk Table its state and its sets of bins. The
//! modules here draw the exact bytes, and `docs/formats` argues each layout. The checksums of records, bins and summaries are
//! seeded with the store's secret and cover the place. So an old lap, a misdirected write and another store's record all fail
//! to verify.
//!
//! # What a crash or a fault leaves in a log
//!
//! | what happened | what is left |
//! |---|---|
//! | killed while a batch was being written | everything but what does not verify; nothing that a flush covered is missing |
//! | power lost while a newer version was on its way | the newer version, or the one that was flushed |
//! | a snapshot half written, or damaged in one page | the other area's snapshot, or the log alone |
//! | killed before a summary was written | the region is walked, and its summary written |
//! | killed while the file was being made | nothing: the file gets its name when it is whole and synced |
//! | a region that cannot be read at all | what is newer |
//! | a write or a sync that failed | its region is poisoned: nothing in it is found again, nor what its records replaced |
//! | eight writes, or eight syncs, failed in a row | the disk is read on, and no longer written to; the log says so |
//!
//! Why so:
//!
//! - Behind a hole, records count if the same process wrote them: nothing that is missing there was flushed.
//! - Summaries and snapshots are written after a sync of the records that they speak of. Writing a summary twice writes the
//!   same bytes.
//! - A snapshot saves reads and decides nothing.
//! - A region that cannot be read may have held removals, and later versions of what is older. So what is older is given up.
//! - After a failed flush the kernel may have dropped pages, and will not say so twice. But readers of an unfinished write
//!   still get its parts, for half a minute from memory.

pub mod ahead;
pub mod alone;
pub mod along;
pub mod bin;
pub(crate) mod changed;
pub mod disk_table;
pub mod frontier;
pub(crate) mod health;
#[cfg(test)]
mod held;
pub(crate) mod limits;
pub mod log;
pub mod opening;
pub mod reach;
pub mod record;
pub mod region;
pub mod related;
pub mod run;
pub mod scan;
pub mod section;
pub mod segments;
pub mod snapshot;
pub mod superblock;
pub mod table;
pub mod take;
pub mod walk;

pub use disk_table::{DiskTable, TableLayout};
pub use frontier::Frontier;
pub use log::Log;
pub use record::{Header, Stamp};
pub use region::{LogLayout, SummaryEntry};
pub use section::LogSection;
pub use segments::Segments;
pub use snapshot::{SnapshotHeader, SnapshotLayout, Snapshots};
pub use superblock::{Superblock, SuperblockError};
