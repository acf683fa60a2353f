//! The experiments of the paper on cooperative caching.

mod other;
mod race;
mod reads;

pub use race::EXPERIMENT as RACE;
pub use reads::EXPERIMENT as READS;
