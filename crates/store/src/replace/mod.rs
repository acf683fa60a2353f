//! Victims: what leaves when there is no room.

pub mod lru;

pub use lru::Lru;
