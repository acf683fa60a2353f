//! One-sided reads and messages between processes, by UCX (libucp): over RDMA where there is any, over shared memory between
//! processes of one machine, over TCP elsewhere.
//!
//! The library is loaded when it is asked for ([`Ucx::load`]), so that a program that can use it runs on machines without it. This crate is the one
//! place that calls into it: all else is safe Rust over values that keep each other alive.
//!
//! ```no_run
//! use std::time::Duration;
//! use tinaja_clock::Clock;
//! use tinaja_ucx::{Context, DEFAULT_TRANSPORTS, Memory, Options, Ucx, Worker};
//!
//! # fn main() -> Result<(), tinaja_ucx::Error> {
//! let context = Context::open(&Ucx::load()?, &Options { transports: DEFAULT_TRANSPORTS, devices: None })?;
//! let memory = Memory::allocate(&context, 1 << 20)?;
//! let worker = Worker::start(&context, Clock::system())?;
//! // Both of these go to the other process by a way that can be trusted: UCX authenticates nobody.
//! let (address, key) = (worker.address()?, memory.key()?);
//!
//! let endpoint = worker.connect(&address)?;
//! let remote = endpoint.remote(&key)?;
//! let bytes = endpoint.get(&remote, 0, 4096)?.wait(Duration::from_millis(100))?;
//! assert_eq!(bytes.len(), 4096);
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! - What UCX may still write to is never freed: a read that was given up leaves its buffer to the worker, in quarantine, until UCX says that it
//!   is done with it. There is a bound; beyond it reads are refused.
//! - A worker is used by one thread. Memory is shared by all, and read and written by words, as the other side's reads may come at any time.
//! - Addresses and keys carry the version of UCX and a checksum: what was cut off, or comes from another version, is refused before UCX
//!   sees it. They are not proof against who means harm: only peers that are trusted may send them.

#[allow(
    clippy::all,
    clippy::indexing_slicing,
    missing_docs,
    unsafe_op_in_unsafe_fn,
    non_camel_case_types,
    non_upper_case_globals,
    dead_code
)]
#[allow(clippy::undocumented_unsafe_blocks, reason = "made by bindgen")]
mod bindings;
mod context;
mod endpoint;
mod error;
mod library;
mod limits;
mod memory;
mod message;
mod quarantine;
mod signals;
mod started;
mod told;
mod transfer;
mod worker;

pub use context::{Context, DEFAULT_TRANSPORTS, Options};
pub use endpoint::{Endpoint, Remote};
pub use error::Error;
pub use library::Ucx;
pub use limits::{MAX_MESSAGE_BYTES, MAX_QUARANTINED_BYTES, MAX_WAITING_MESSAGES};
pub use memory::Memory;
pub use told::{Address, Key};
pub use transfer::{Get, Sending};
pub use worker::Worker;
