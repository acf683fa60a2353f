//! From a name to the addresses that may be connected to.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tinaja_clock::Clock;

use crate::diverted::{Chosen, Proof};
use crate::failure::Failure;
use crate::origin::Destination;
use crate::rules::Denied;

/// Addresses of one name that are tried at most.
const MOST_ADDRESSES: usize = 16;

/// Resolves a destination and keeps the addresses that `check` allows, in the resolver's order.
///
/// Errors: [`Failure::Denied`] with the first reason if there are addresses and none is allowed; what went wrong
/// otherwise. Needs no thread for a literal address, and one of a bounded pool for a name.
pub(crate) async fn resolve(
    clock: &Clock,
    destination: &Destination,
    limit: Duration,
    check: impl Fn(SocketAddr) -> Result<(), Failure>,
) -> Result<Vec<SocketAddr>, Failure> {
    let host = destination.host.as_str();
    let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, destination.port)],
        Err(_) => match clock.timeout(limit, tokio::net::lookup_host((host, destination.port))).await {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(error)) => {
                return Err(Failure::Resolve { host: host.into(), error: error.to_string() });
            }
            Err(_) => return Err(Failure::ResolveTimeout { host: host.into() }),
        },
    };
    let mut allowed: Vec<SocketAddr> = Vec::new();
    let mut refused = None;
    for address in found {
        match check(address) {
            Ok(()) if !allowed.contains(&address) && allowed.len() < MOST_ADDRESSES => allowed.push(address),
            Ok(()) => {}
            Err(failure) => refused = refused.or(Some(failure)),
        }
    }
    match refused {
        _ if !allowed.is_empty() => Ok(allowed),
        Some(failure) => Err(failure),
        None => Err(Failure::Resolve { host: host.into(), error: "the name has no address".into() }),
    }
}

/// The address that a client chose, and behind it those of the destination where they are known to go together.
///
/// Errors: why `check` does not allow the address that was chosen.
pub(crate) async fn resolve_chosen(
    clock: &Clock,
    destination: &Destination,
    limit: Duration,
    check: impl Fn(SocketAddr) -> Result<(), Failure>,
    chosen: Chosen,
) -> Result<Vec<SocketAddr>, Failure> {
    check(chosen.address)?;
    let mut addresses = vec![chosen.address];
    if chosen.proof == Proof::Names
        && let Ok(others) = resolve(clock, destination, limit, check).await
    {
        addresses.extend(others.into_iter().filter(|other| *other != chosen.address));
    }
    Ok(addresses)
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Failure {
        Failure::Denied(denied)
    }
}
