//! What engines over segments have in common: an index in memory of what lies where, reading by it, and the thread that cleans.

pub mod cleaner;
pub mod figures;
mod format;
mod index;
mod reading;

pub use format::{MOST_HITS, SLOT_BITS, Set, Sets, Slot, WAYS, fingerprint};
pub use index::{Choices, Displaced, Index, Recalled};
pub use reading::{Finds, Indexed};
