//! Access logs, written and read by one [`Record`]: the proxy writes them, the laboratory replays them.
//!
//! - [`squid`]: Squid's native format, the default of a cache, and what cache tools read;
//! - [`common`] and [`combined`]: the formats of web servers;
//! - [`json`]: an object a line, which loses nothing;
//! - [`Format`]: these four by their names;
//! - [`Sink`]: a file written on a thread of its own, so that a slow disk never holds up a request.
//!
//! Whatever a client or an origin sends, one request is one line: bytes that could end a line, move a terminal's
//! cursor or shift the fields are escaped by the writers.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod civil;
pub mod combined;
pub mod common;
mod escape;
mod format;
pub mod json;
mod record;
mod shared;
mod sink;
pub mod squid;

pub use format::{Format, UnknownFormat};
pub use record::{CacheResult, ParseError, Record};
pub use sink::{LINES_QUEUED, Sink, open_log};
