//! Handing over to a new process, which serves on the same sockets and then opens the same cache.
//!
//! The new process asks through the control socket, and is given the sockets that are listened on. It says when it
//! serves on them; the old one then accepts nothing more, closes the cache and says so; the new one opens it and says
//! so; the old one lets its connections come to their end. Until the new one has said that the cache is open, the old
//! one takes everything back if it dies or fails.
//!
//! - `words`: what is said, a line of JSON each; `sockets`: what is passed on, and how
//! - `heir`: the conversation as the old process has it; `predecessor`: as the new one has it
//! - `switch`: the cache, which is in the one or the other process; `nothing`: what stands in its place before that

mod heir;
mod nothing;
mod predecessor;
mod sockets;
mod switch;
mod words;

pub(crate) use heir::{Heir, Heirs};
pub use predecessor::{Predecessor, TakeOverError};
pub(crate) use predecessor::{canonical, open_unlocked};
pub(crate) use sockets::{Sockets, listen};
pub use switch::Switch;
pub use words::PROTOCOL;
