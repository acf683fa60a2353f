//! Victims: what leaves when there is no room.

pub mod fbc;
pub mod generations;
pub mod lru;

pub use fbc::Fbc;
pub use generations::Generations;
pub use lru::Lru;
