//! What a browser asks of its cache's backend: traces in the form of the paper's Figure 7, read, written, prepared as the
//! paper prepares them, made from logs of requests, and generated.
//!
//! The form is described in `docs/formats/backend-trace.md`.

mod generate;
mod known;
mod lines;
mod make;
mod prepare;
mod read;

use std::fmt;

pub use generate::{BrowserOptions, browse};
pub use known::{KEPT, Known};
pub use lines::{BadLine, parse_line};
pub use make::{MakeOptions, trace_of};
pub use prepare::{MOST_PAUSE_US, Prepared, TRIM_BYTES, prepare};
pub use read::{BackendTrace, is_backend_trace, read_backend_trace, write_backend_trace};

/// A key as a trace has it: 160 bits of a hash, and how long the key was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceKey {
    /// The hash.
    pub hash: [u8; 20],
    /// Bytes of the key that was hashed.
    pub len: u32,
}

impl TraceKey {
    /// The key to replay it by: the hash in hex, filled up with dots to the length that the key had. Where that is less
    /// than 40 bytes the key is longer than it was, since two keys must stay two.
    pub fn bytes(&self) -> Vec<u8> {
        let mut key: Vec<u8> = self.hash.iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect();
        // As long as a browser's keys get; a trace may say anything.
        let len = (self.len as usize).clamp(key.len(), 4096);
        key.resize(len, b'.');
        key
    }

    /// A number for the hash, as good as the hash is.
    pub fn number(&self) -> u64 {
        let first = self.hash.first_chunk::<8>().copied().unwrap_or_default();
        u64::from_be_bytes(first)
    }
}

impl fmt::Debug for TraceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}..:{}", self.number(), self.len)
    }
}

/// One line of a trace: a call on the backend or an entry, and what it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in microseconds by whatever clock the trace has.
    pub time_us: u64,
    /// Whether a session begins here: the pause before it is not kept.
    pub starts_session: bool,
    /// The call.
    pub call: Call,
}

/// A part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which stream, from 0.
    pub stream: u32,
    /// From where, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// A call, by the names of the paper's Figure 2. `entry` is the handle: several may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `CreateEntry`: the handle, or `None` if it failed.
    Create {
        /// Which key.
        key: TraceKey,
        /// By which it is open now.
        entry: Option<u64>,
    },
    /// `OpenEntry`: the handle, or `None` if there was no such entry.
    Open {
        /// Which key.
        key: TraceKey,
        /// By which it is open now.
        entry: Option<u64>,
    },
    /// `ReadData`.
    Read {
        /// Of which handle.
        entry: u64,
        /// Which part.
        part: Extent,
        /// Bytes read, or an error below 0.
        result: i64,
    },
    /// `WriteData`.
    Write {
        /// Of which handle.
        entry: u64,
        /// Which part.
        part: Extent,
        /// Whether the stream ends behind it.
        truncate: bool,
        /// Bytes written, or an error below 0.
        result: i64,
    },
    /// `Doom`.
    Doom {
        /// Which handle.
        entry: u64,
    },
    /// `Close`.
    Close {
        /// Which handle.
        entry: u64,
    },
}
