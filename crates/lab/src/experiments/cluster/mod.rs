//! The experiments of the paper on cooperative caching.

mod other;
mod peers;
mod race;
mod reads;
mod schemes;

pub use peers::EXPERIMENT as PEERS;
pub use race::EXPERIMENT as RACE;
pub use reads::EXPERIMENT as READS;
pub use schemes::EXPERIMENT as SCHEMES;
