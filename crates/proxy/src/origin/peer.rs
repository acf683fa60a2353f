//! How Pingora talks to an origin.

use std::net::SocketAddr;
use std::time::Duration;

use pingora_core::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy, Peer};

use crate::config::Limits;
use crate::origin::Destination;

/// Connections to an origin are kept this long for the next request. Shorter than what servers usually allow, so
/// that requests seldom meet a connection that is just being closed.
pub(super) const KEEP_IDLE: Duration = Duration::from_secs(4);

/// The peer at `address`, which was resolved from the destination and checked.
pub(crate) fn peer(destination: &Destination, address: SocketAddr, limits: &Limits) -> HttpPeer {
    let name = if destination.tls { destination.host.clone() } else { String::new() };
    let mut peer = HttpPeer::new(address, destination.tls, name);
    if let Some(options) = peer.get_mut_peer_options() {
        options.connection_timeout = Some(limits.connect);
        options.total_connection_timeout = Some(limits.connect);
        options.read_timeout = Some(limits.origin_stall);
        options.write_timeout = Some(limits.origin_stall);
        options.idle_timeout = Some(KEEP_IDLE);
        // Upgraded connections would carry bytes that nobody judges.
        options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
    }
    peer
}
