//! Indexes in memory: what engines find places by.

pub mod filter;
pub mod hash;
pub(crate) mod limits;
pub mod packed;
pub mod ranks;
pub mod resident;
pub mod row;
pub mod sets;
pub mod some_sets;

pub use filter::Filter;
pub use packed::Field;
pub use ranks::Ranked;
pub use resident::{Resident, SlotBits};
pub use row::Row;
pub use sets::{Sets, Shape};
pub use some_sets::SomeSets;
