//! Several caches as one, after Narravula, Jin and Panda, "Designing Efficient Cooperative Caching Schemes for Multi-Tier Data-Centers over
//! RDMA-enabled Networks" (OSU-CISRC-6/05-TR39).
//!
//! So far: the memory that a node lends to all ([`slots`]), which its peers read without its help. The schemes, the key-table and membership
//! are still to come.
//!
//! No I/O, no clock and no threads are in here: memory is whatever has words ([`Arena`]), and what a peer has read is bytes.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod arena;
pub mod slots;

pub use arena::Arena;
