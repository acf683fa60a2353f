//! What other nodes want of the program that a node is a part of, and where that goes.

use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::limits::{MAX_CALLS_AT_ONCE, MAX_VISITORS};

/// A connection by which a node asks for objects, before its handshake, and where it comes from. It is of no runtime: whoever answers may outlive the node.
pub type Visitor = (TcpStream, SocketAddr);

/// Where they go. Those that nobody takes are closed.
pub type Visitors = mpsc::Sender<Visitor>;

/// Where they go, and where they come out. At most [`MAX_VISITORS`] wait between.
pub fn visitors() -> (Visitors, mpsc::Receiver<Visitor>) {
    mpsc::channel(MAX_VISITORS)
}

/// What one node's program says to another's, of [`crate::limits::MAX_CALL_BYTES`] at most; and where the answer goes. The nodes know nothing of what it says.
pub type Call = (Bytes, oneshot::Sender<Bytes>);

/// Where they go. Those that nobody takes are not answered.
pub type Calls = mpsc::Sender<Call>;

/// Where they go, and where they come out. At most [`MAX_CALLS_AT_ONCE`] wait between.
pub fn calls() -> (Calls, mpsc::Receiver<Call>) {
    mpsc::channel(MAX_CALLS_AT_ONCE)
}

/// Who is told of what other nodes want; nobody by default.
#[derive(Clone, Debug, Default)]
pub struct Comers {
    /// Who answers nodes that ask for objects.
    pub visitors: Option<Visitors>,
    /// Who answers what their programs say.
    pub calls: Option<Calls>,
}
