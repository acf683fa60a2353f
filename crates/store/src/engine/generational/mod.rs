//! One engine that keeps what is worth most: logs by class of size and generation, over the segments of one disk.
//!
//! What leaves a cache decides what it finds. Engines that evict in the order of writing find what a FIFO queue finds. Here
//! objects of one size and popularity share a log, so that a segment's objects are worth about as much as each other, and the
//! log whose oldest segment is worth least gives it up. What was asked for in it, and is worth more than what leaves, is written
//! once more, into the log of the next generation, as far as a budget of bytes allows. What all that is worth is learned by log
//! and age from the hits themselves; [`crate::replace::generations`] decides, without I/O, so that the laboratory simulates the
//! code that runs here.
//!
//! The log-structured cache ([`super::segmented`]) has one log and this index; its paper is where cleaning as eviction comes from.
//!
//! Invariants:
//! - The index is a hint. Every record read is checked against its place, digest and both checksums.
//! - Every record has a number; of two records of one object the one with the higher number is newer, whatever log it lies in.
//! - Before a segment is written over, whatever its entries replaced or removed is known elsewhere: to both snapshots of the
//!   index, so that one may turn out to be damaged; or to a newer record; or to a mark of removal that lasts by then. There is a
//!   snapshot by then: without one, nobody knows what counts once something was written over.
//! - A segment that has left says at its end that nothing in it counts, and that lasts before one that leaves later is written over.
//! - One thread takes snapshots and cleans, and the one that takes the last snapshot waits for it: no segment becomes free while a
//!   snapshot is being taken.
//!
//! # Decisions
//!
//! - **Why snapshots, if there are marks of removal?** Segments leave in any order. Without a snapshot a removal would have to be
//!   written again as long as any older segment is there, and so would every new version. What a snapshot covers is decided by
//!   it alone: a record with a number below the snapshot's counts only if the snapshot leads to it. So marks are written for
//!   what leaves young after it displaced something, and nothing else. Marks for all that leaves young, with the snapshots that they
//!   forced, took two thirds of what was to be written again on small disks.
//! - **What if both snapshots are damaged?** Once segments have been written over, nobody knows then what was replaced. The cache
//!   starts empty, and says so.
//! - **Where do removals go?** Into the log of new, small objects. Once a snapshot covers them they are of no further use.
//! - **And large objects?** Their parts and heads have logs of their own, by the objects' sizes, in which parts leave just before
//!   their heads, and are never written again. One may take three fifths of the disk: the parts of what is being stored stay until it is.
//! - **Where is the index?** In memory, if there is room for it; else on the disk, with as much of it in memory as has room (`table`). Both
//!   have the same snapshots, so the choice is made anew at each start.
//! - **How is it known what returns?** An empty slot remembers what has left it, for about half a lap: two bits that count hits in
//!   a slot in use count down there.

mod clean;
mod engine;
mod format;
mod index;
mod keep;
mod ledger;
mod options;
mod record;
mod recover;
mod snapshot;
mod storing;
mod table;
mod tally;
mod void;

#[cfg(test)]
mod tests;

pub use engine::Generational;
pub use options::{GenerationalOptions, entries_on_disk, entries_within, index_bytes};
pub use record::{FORMAT, GENERATIONAL, INDEX_ENTRIES, INDEX_MEMORY, VALUE};
