//! HashCache-LogLRU's index (section 3.4): the positions of some slots of each set in memory, of the others in a small file.
//!
//! The engine is HashCache-Log over this index.

mod cut;
mod index;
pub(crate) mod limits;
mod offsets;
mod set;

pub use cut::LruCut;
pub use index::{LruIndex, Said};
pub use offsets::OffsetLayout;
pub use set::WAYS;
