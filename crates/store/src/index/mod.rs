//! Indexes in memory: what engines find places by.

pub mod packed;
pub mod sets;

pub use packed::Field;
pub use sets::Sets;
