//! A network in place of the system's, for simulations.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// One end of a connection.
pub trait Link: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin + 'static> Link for T {}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Link>>> + Send>>;

/// Makes connections.
pub trait Network: Debug + Send + Sync + 'static {
    /// Connects to an address. Errors: as of a socket.
    fn connect(&self, address: SocketAddr) -> Connecting;
}
