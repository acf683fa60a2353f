//! What the two processes say to each other, a line of JSON each, behind [`crate::admin::words::Ask::HandOver`].

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The version of the conversation. Another one is refused: the old process then serves on.
pub const PROTOCOL: u32 = 1;

/// A listener that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Given {
    /// As the old process was told to listen; the port may be 0.
    pub told: SocketAddr,
    /// Where it listens.
    pub at: SocketAddr,
}

/// What the old process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Told {
    /// The sockets come with this line: those of the listeners, then that for metrics, then the control socket.
    HandingOver { listeners: Vec<Given>, metrics: Option<Given>, control: bool },
    /// The cache is closed, and its lock open.
    Released,
    /// It goes no further.
    Failed { why: String },
}

/// What the new process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(crate) enum Step {
    /// It accepts connections, and waits for the cache.
    Serving,
    /// It has opened the cache: there is no way back.
    Done,
    /// It goes no further, and accepts no more connections.
    Failed { why: String },
}
