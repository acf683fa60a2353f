//! CONNECT: a tunnel to `host:port`, whose bytes are nobody's business (RFC 9110 9.3.6).

use std::net::SocketAddr;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Result as IoResult};
use tokio::net::TcpStream;

use super::relay::{Relayed, relay};
use crate::config::Listener;
use crate::diverted::Outgoing;
use crate::failure::{Failure, Unanswered};
use crate::held::Kept;
use crate::origin::{Destination, dial, resolve};
use crate::rules::Asked;
use crate::shared::Shared;
use crate::stream::Stream;

/// What a client is told once its tunnel stands.
pub(super) const GREETING: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// The far end of a tunnel.
pub(super) struct Reached {
    pub stream: TcpStream,
    pub address: SocketAddr,
    /// Kept as long as it is open.
    pub outgoing: Outgoing,
}

/// Connects to the tunnel's far end, if the rules allow it and the proxy is online.
pub(super) async fn reach(
    shared: &Shared,
    listener: &Listener,
    asked: Asked<'_>,
    destination: &Destination,
) -> Result<Reached, Failure> {
    reach_where(shared, listener, asked, destination, |_| Ok(())).await
}

/// The same, at an address that `may` lets pass, too.
pub(super) async fn reach_where(
    shared: &Shared,
    listener: &Listener,
    asked: Asked<'_>,
    destination: &Destination,
    may: impl Fn(SocketAddr) -> Result<(), Failure>,
) -> Result<Reached, Failure> {
    if !listener.mode.is_for_clients() {
        return Err(Failure::NoTunnels);
    }
    listener.check_request(asked)?;
    if listener.offline {
        return Err(Failure::Offline(Unanswered::Tunnel));
    }
    let check = |address| may(address).and_then(|()| shared.check_address(listener, asked, address));
    let addresses = resolve(&shared.clock, destination, shared.limits.resolve, check).await?;
    let (stream, address) = dial(&shared.clock, &addresses, shared.limits.connect).await?;
    let outgoing = shared.dialled.add(stream.local_addr(), address);
    Ok(Reached { stream, address, outgoing })
}

/// Tells the client what it has not heard yet, and copies both ways until it is over. `ahead` is what the client sent
/// before. `kept` is what the tunnel takes, and is let go with it for others where nothing moves.
pub(super) async fn run(
    shared: &Shared,
    mut client: Stream,
    (greeting, ahead): (&[u8], BytesMut),
    mut origin: impl AsyncRead + AsyncWrite + Unpin,
    mut kept: Kept,
) -> Relayed {
    let ahead_bytes = ahead.len() as u64;
    let greet = async {
        client.write_all(greeting).await?;
        client.flush().await?;
        origin.write_all(&ahead).await?;
        origin.flush().await?;
        IoResult::Ok(())
    };
    match shared.clock.timeout(shared.limits.client_stall, greet).await {
        Ok(Ok(())) => {
            let relayed = relay(&shared.clock, client, origin, shared.limits.tunnel_idle, &mut kept).await;
            if let Some(why) = relayed.why() {
                shared.explain_tunnel(&why);
            }
            Relayed { to_origin: relayed.to_origin + ahead_bytes, ..relayed }
        }
        _ => Relayed::default(),
    }
}
