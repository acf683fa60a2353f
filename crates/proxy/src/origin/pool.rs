//! Connections to origins: made, kept for the next request, and why they fail.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_core::upstreams::peer::Peer as _;
use pingora_error::{Error, ErrorType};

use super::connection::Connection;
use super::peer::{KEEP_IDLE, peer};
use super::{Destination, handshake};
use crate::config::Limits;
use crate::failure::Failure;

/// Connections to origins, those that wait for their next request among them.
pub(crate) struct Origins {
    connector: TransportConnector,
    limits: Limits,
    /// Sets connections apart that are used once.
    single: AtomicU64,
}

impl Origins {
    /// Keeps at most `kept` connections for later.
    pub fn new(kept: usize, limits: Limits) -> Origins {
        let connector = TransportConnector::new(Some(ConnectorOptions::new(kept)));
        Origins { connector, limits, single: AtomicU64::new(1) }
    }

    /// Connects to the first of `addresses` that accepts. `single` takes a new connection that is closed afterwards:
    /// for requests that must not be sent twice, as one on a kept connection might have to be.
    ///
    /// Errors: what the last address failed with, or an earlier one that did answer, but not to TLS.
    pub async fn connect(
        &self,
        destination: &Destination,
        addresses: &[SocketAddr],
        single: bool,
    ) -> Result<Connection, Failure> {
        let mut failure = Failure::Internal("no address is left to try".into());
        for address in addresses {
            let mut peer = peer(destination, *address, &self.limits);
            if single {
                peer.group_key = self.single.fetch_add(1, Ordering::Relaxed);
            }
            match self.connector.get_stream(&peer).await {
                Ok((stream, reused)) => {
                    let (stall, pool) = (self.limits.origin_stall, peer.reuse_hash());
                    let mut connection = Connection::new(stream, *address, pool, stall);
                    (connection.reused, connection.keep) = (reused, !single);
                    return Ok(connection);
                }
                Err(error) if !matches!(failure, Failure::Tls { .. }) => {
                    failure = connect_failure(&destination.host, *address, &error);
                }
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Gives a connection back, to be used again if its answer was whole and nothing else came.
    pub fn release(&self, connection: Connection) {
        if let Some((stream, pool)) = connection.reusable() {
            self.connector.release_stream(stream, pool, Some(KEEP_IDLE));
        }
    }
}

/// Why a connection to `host` at `address` failed.
fn connect_failure(host: &str, address: SocketAddr, error: &Error) -> Failure {
    match error.etype() {
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => Failure::ConnectTimeout { address },
        ErrorType::ConnectRefused => Failure::Connect { address, error: "it was refused".into() },
        ErrorType::ConnectNoRoute => Failure::Connect { address, error: "there is no route to it".into() },
        ErrorType::TLSHandshakeFailure => {
            Failure::Tls { host: host.to_owned(), address, error: handshake::reason(error) }
        }
        other => Failure::Connect { address, error: other.as_str().to_owned() },
    }
}
