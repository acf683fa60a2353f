//! How bytes lie on disk: what engines are made of.

pub mod ahead;
pub mod bin;
pub(crate) mod changed;
pub mod disk_table;
pub mod frontier;
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
