//! What engines over segments have in common: an index in memory of what lies where, and reading by it.

mod format;
mod index;
mod reading;

pub use format::SLOT_BITS;
pub use index::Index;
pub use reading::Indexed;
