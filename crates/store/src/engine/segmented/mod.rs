//! The log-structured cache (Aghayev, Desnoyers, INFLOW 2013): segments whose cleaning is eviction.
//!
//! Objects are appended to a log of segments, entry by entry, in writes that follow each other, which is what slow flash
//! can do. A full segment is closed with a summary of what it holds. When few segments are free the oldest is cleaned:
//! whatever the index still finds in it is dropped (sections 3.2.6 and 3.2.7). Segments with something open are passed
//! over. A new version is written whole, wherever the log has come to (3.2.5). Beyond the paper, and only if asked for, the
//! most valuable part of a segment is appended once more when it is cleaned (`keep`).
//!
//! Invariants:
//! - The index is a hint. Every record read is checked against its place, digest and both checksums.
//! - A set of the index has at most one slot of a fingerprint, so no older version is left behind a newer one to come to
//!   light when that is evicted first.
//! - A slot's place means something only while its segment is not free, and a segment becomes free only when no slot leads
//!   to it.
//! - What is kept is appended and entered while nothing else can be: it never replaces a newer version, nor follows a
//!   removal.

mod clean;
mod engine;
mod figures;
mod format;
mod index;
mod keep;
mod options;
mod record;
mod recover;

pub use engine::Segmented;
pub use options::SegmentedOptions;
pub use record::{KEEP, SEGMENTED};
