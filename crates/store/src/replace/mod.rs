//! Victims: what leaves when there is no room.

pub mod fbc;
pub mod lru;

pub use fbc::Fbc;
pub use lru::Lru;
