//! Several caches as one, after Narravula, Jin and Panda, "Designing Efficient Cooperative Caching Schemes for Multi-Tier Data-Centers over
//! RDMA-enabled Networks" (OSU-CISRC-6/05-TR39).
//!
//! - [`node`]: what one node does. It fetches, stores, validates and invalidates by one of the paper's [`scheme`]s.
//! - [`members`], [`directory`], [`table`]: who belongs to the cluster, which node is the home of which keys, what a home knows, and how it publishes that.
//! - [`pool`], [`slots`]: the objects that a node holds, in memory that its peers read without its help.
//! - [`message`]: what nodes tell each other.
//!
//! - [`drive`], [`over_ucx`], [`over_http2`], [`over_both`]: a node over a network ([`transport`]). [`lent`]: the memory that it lends.
//! - [`joined`]: a node as a part of a program, with its thread and connections ([`links`], [`answers`]), and with others found by [`gossip`].
//! - [`disks`]: on whose disks objects lie. [`comers`]: what other nodes want of the program.
//! - [`pooled`]: a store over a store, whose memory is the cluster's. It is what a proxy uses.
//!
//! The first three groups are without I/O, clock and threads: memory is whatever has words ([`Arena`]), what a peer has read is bytes, and whoever drives a node
//! carries out what it wants done.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

pub mod answers;
mod arena;
pub mod comers;
pub mod counts;
pub mod directory;
pub mod disks;
pub mod drive;
pub mod error;
pub mod gossip;
pub mod inbox;
pub mod joined;
pub mod joining;
pub mod lent;
pub mod limits;
pub mod links;
mod listings;
pub mod members;
pub mod message;
pub mod node;
pub mod over_both;
pub mod over_http2;
pub mod over_ucx;
mod packed;
mod part;
pub mod pool;
pub mod pooled;
pub mod pulse;
pub mod scheme;
pub mod slots;
pub mod status;
pub mod table;
pub mod tls;
pub mod transport;

pub use arena::Arena;
pub use comers::Comers;
pub use error::JoinError;
pub use joining::Joining;
pub use pooled::Pooled;
