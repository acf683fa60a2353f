//! Handing over to a new process, which serves on the same sockets and then opens the same cache.
//!
//! The new process asks through the control socket, and is given the sockets that are listened on. It says when it
//! serves on them; the old one then accepts nothing more, closes the cache and says so; the new one opens it and says
//! so; the old one lets its connections come to their end. Until the new one has said that the cache is open, the old
//! one takes everything back if it dies or fails.
//!
//! - `words`: what is said, a line of JSON each; `sockets`: what is passed on, and how
//! - `heir`: the conversation as the old process has it; `predecessor`: as the new one has it
//!
//! # Decisions
//!
//! - There are four steps, each said through the control socket: the new process has the sockets; it serves; the old one has
//!   closed the cache; the new one has opened it. Before the last step all of it can be taken back. A process that dies
//!   closes the connection, and the other one knows at once.
//! - Sockets are passed on (SCM_RIGHTS), and not bound anew beside the old ones. Both processes then accept from one queue:
//!   no connection is refused, and none is left in a queue that nobody serves.
//! - While the cache is between two processes, requests pass by it and are counted. Two processes must not write one cache,
//!   and a client should not wait for a disk.
//! - The old process still reads for those who have a hit, without the cache's lock: an upgrade must not cut off a download
//!   of an hour. What the new process overwrites fails its checksum, and the rest is taken up at the origin.
//! - Each connection may bring its next request, and the answer says that it is the last. To close a connection while a
//!   request is on its way would lose that request.
//! - Removals wait for the cache to come, or what an origin said has changed would be found again.

mod heir;
mod predecessor;
mod sockets;
mod words;

pub(crate) use heir::{Heir, Heirs};
pub use predecessor::Predecessor;
pub(crate) use predecessor::{canonical, open_unlocked};
pub(crate) use sockets::{Sockets, listen, reserve};
pub use words::PROTOCOL;
