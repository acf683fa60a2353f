//! Connecting to an address.

use std::net::SocketAddr;
use std::time::Duration;

use tinaja_clock::Clock;
use tokio::net::TcpStream;

use crate::failure::Failure;

/// Connects to the first of `addresses` that accepts, each within `limit`.
///
/// Errors: what the last one failed with.
pub(crate) async fn dial(
    clock: &Clock,
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<(TcpStream, SocketAddr), Failure> {
    let mut failure = Failure::Internal("there is no address to connect to".into());
    for address in addresses {
        failure = match clock.timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // A tunnel carries what is already batched; waiting for more only delays it. Failing is harmless.
                let _ = stream.set_nodelay(true);
                return Ok((stream, *address));
            }
            Ok(Err(error)) => Failure::Connect { address: *address, error: error.to_string() },
            Err(_) => Failure::ConnectTimeout { address: *address },
        };
    }
    Err(failure)
}
