//! Tinaja's store for programs in C: cached objects as files, and where they lie on disk.
//!
//! `include/tinaja.h` is made from these functions, and `docs/c-api.md` shows how to use them. What they have in common:
//!
//! - Caches, files, tickets, objects and parts are integers, positive, each given out once. One that was closed, or never
//!   was, or is of another kind, is an error and never somebody else's.
//! - Every pointer may be null. That is an error too, but for bytes of which there are none, and where a function says so.
//! - Whoever asks for a count gets one from 0 up, or a code below 0. [`tinaja_strerror`] says what a code means, and
//!   [`tinaja_last_error`] what was wrong with the last call of this thread that failed, and what to do.
//! - Calls block, and may come from any threads. A panic of the library's ends the call with [`TINAJA_PANIC`].
//!
//! Memory that a pointer leads to must be as large as the call says: no library can check that for C.

mod args;
mod cache;
mod error;
mod external;
mod file;
mod guard;
mod options;

pub use cache::*;
pub use error::*;
pub use external::*;
pub use file::*;
pub use options::*;
