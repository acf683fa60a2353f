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
//!
//! # Decisions
//!
//! The engine stands on the same log as HashCache-Log, and its segments are the log's regions. HashCache-Log overwrites what
//! is oldest, and its index notices by the lap. Here the index is told what was cleaned. So a slot needs no lap, and a
//! segment that somebody has open can be passed over.
//!
//! What the paper leaves open, and our answer:
//!
//! - **Where does the log go when a segment is passed over?** Into the next one that is free: the disk is still written in
//!   one direction, round and round. The segment that was passed over keeps its place, and is cleaned first when it is
//!   closed.
//! - **What if a segment is always open?** Each opening holds it for 30 seconds at most. If all segments are open and none is
//!   free, we clean the oldest: readers never keep everything else from being stored.
//! - **How large may an entry be?** A quarter of a segment in one record; a larger one takes several. A batch is a quarter of
//!   a segment, and memory has room for six of them.
//! - **May the most valuable objects stay?** If asked for, up to a share of the segment and of what was stored, which bounds
//!   how much is written twice. One free segment is left for this, so that the cleaner never waits for itself.
//!
//! `recover` says why the index is read and not mapped, and what a crash leaves; `layout/segments` says why nothing that was
//! replaced comes back from a segment that was passed over.

mod clean;
mod engine;
mod keep;
mod options;
mod record;
mod recover;

pub use engine::Segmented;
pub use options::SegmentedOptions;
pub use record::{KEEP, SEGMENTED};
