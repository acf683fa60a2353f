//! Dámelo (a thesis of the year 2000): a file system for cached objects, in the program that uses it.
//!
//! Objects that belong together go into one group. A group's objects fill pages, which lie beside each other on the disk, and
//! a page moves between the disk and a frame of memory as one piece: who asks for one object has its neighbours in memory
//! next. All metadata is in memory, so a lookup asks no disk and a read asks it once. Removing costs no request at all.
//! Groups that are loved stay in memory longest, and hated ones leave first.
//!
//! | section | here |
//! |---|---|
//! | 3, the interface | `files`, public as `tinaja_store::damelo`; `engine` behind the store's contract; `affection` |
//! | 4, groups and files | `group`, `table`; frames on the disk in `layout`, Figure 2 |
//! | 4, buffer manager | `pool` (free, shared, exclusive), `write` (who leaves), `read`, `create` |
//! | 4, deletes | `page` (one pass), `write` and `clean` (when) |
//! | 4, disk | `crate::device::elevator` |
//! | 6, what was left out | checkpoints and recovery in `journal`, `rounds`, `checkpoint`, `recover`; deletes in the background in `clean`; two sizes of page in `layout` |
//!
//! # Decisions
//!
//! - **A page that was changed goes to another frame.** The paper writes a page where it was. A write that the power cuts
//!   would damage what a checkpoint vouches for. Here the map from pages to frames, which the paper has, is used for it: the
//!   old frame is free once a checkpoint names the new one.
//! - **A place is a page, a slot of it, and which life of the page.** Records move inside a page when gaps are closed, but
//!   keep their slot, and a slot is not used again before the page is evicted. So a place never means another record.
//! - **When a group is full, the page that was used longest ago leaves.** The thesis lets a create fail then. A cache that
//!   would store nothing more is no use.
//! - **What is larger than a frame of 64 KiB** goes to groups of frames of 256 KiB, and what is larger than these into several.
//!   They lie at the rim of the disk.
//! - **Readers hold frames** and not copies, as in the paper. A client may read slowly, so they may hold a quarter of the
//!   frames; beyond that they get copies, and nobody waits.
//! - **One lock** guards tables and pages in memory. It is held for memory work, the copy of one record included; reads
//!   verify and copy outside. Compaction copies a page outside as well.
//! - **A killed process loses what was changed since the last checkpoint**: that is what the paper's periods are for. A flush
//!   checkpoints all groups.

mod affection;
mod checkpoint;
mod clean;
mod create;
mod engine;
mod figures;
pub mod files;
mod group;
mod journal;
pub(crate) mod layout;
pub(crate) mod limits;
mod options;
mod page;
mod pool;
mod read;
mod record;
mod recover;
mod rounds;
mod state;
mod sync;
mod table;
mod write;

pub use engine::Damelo;
pub use layout::{Class, DameloLayout, Shape};
pub use options::{Affection, Cleaning, DameloOptions};
pub use record::{DAMELO, ELEVATOR, FRAME_SIZE, GROUP_BY_SITE, GROUPS, LARGE_FRAMES, POOL};
