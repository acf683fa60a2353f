//! Connections to origins: made, kept for the next request, and why they fail.
//!
//! Each route may have authorities and limits of its own, and how many connections are open is counted.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::ServerName;
use tinaja_clock::Clock;
use tokio::net::TcpStream;

use super::backend::{Backend, Counts};
use super::connection::Connection;
use super::group::{Group, Groups};
use super::h1::H1;
use super::h2::H2;
use super::reach::{ALPN_HTTP2, Reach};
use super::rooms::{Room, Rooms};
use super::session::{Session, Sessions};
use super::wire::{Pool, PoolKey, Stream, Wire};
use super::{Behind, Destination, Trust, handshake};
use crate::errors::ServeError;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::neighbours::Neighbours;

/// All that the proxy knows of origins, and its connections to them.
pub(crate) struct Origins {
    pool: Arc<Pool>,
    rooms: Rooms,
    sessions: Arc<Sessions>,
    groups: Groups,
    limits: Limits,
    pub(super) clock: Clock,
    /// Whom certificates are believed by, and how destinations are reached that clients name.
    open: RwLock<(Arc<Trust>, Target)>,
    /// What connections are made by, in place of the system's sockets.
    #[cfg(feature = "simulated")]
    pub network: std::sync::OnceLock<Arc<dyn crate::network::Network>>,
}

/// What origins are to go by from now on.
pub(crate) struct Prepared {
    groups: Groups,
    trust: Arc<Trust>,
}

/// How a destination is connected to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub counts: Arc<Counts>,
    pub reach: Arc<Reach>,
}

impl Target {
    /// How one of a route's origins is.
    pub fn of(group: &Group, backend: &Backend) -> Target {
        Target { counts: backend.counts.clone(), reach: group.reach.clone() }
    }

    /// The same by HTTP/1.1, for what leaves HTTP.
    pub fn over_http1(&self) -> Target {
        Target { counts: self.counts.clone(), reach: Reach::over_http1(&self.reach) }
    }
}

impl Origins {
    /// Keeps at most `kept` connections for later.
    pub fn new(kept: usize, limits: Limits, clock: Clock) -> Origins {
        let trust = Arc::<Trust>::default();
        let reach = Arc::new(Reach::anywhere(&trust, &limits, kept, clock.clone()));
        let open = RwLock::new((trust, Target { counts: Arc::default(), reach }));
        let pool = Arc::new(Pool::new(kept, clock.clone()));
        let sessions = Arc::new(Sessions::new(clock.clone()));
        Origins {
            pool,
            rooms: Rooms::default(),
            sessions,
            groups: Groups::default(),
            limits,
            clock,
            open,
            #[cfg(feature = "simulated")]
            network: Default::default(),
        }
    }

    /// For destinations that clients name.
    pub fn anywhere(&self) -> Target {
        self.open.read().1.clone()
    }

    /// How neighbours are connected to.
    pub fn neighbours(&self, neighbours: &Neighbours) -> Target {
        let reach = Reach::neighbours(neighbours, &self.limits, self.clock.clone());
        Target { counts: Arc::default(), reach: Arc::new(reach) }
    }

    /// A route's origins.
    pub fn group(&self, behind: &Arc<Behind>) -> Result<Arc<Group>, Failure> {
        let trust = self.open.read().0.clone();
        self.groups.of(behind, &trust, &self.limits, &self.clock)
    }

    /// What these routes and this trust need, to be exchanged for what there is once all else is known to be good.
    ///
    /// Errors: [`ServeError::OriginTls`].
    pub fn prepare<'a>(
        &self,
        behinds: impl Iterator<Item = &'a Arc<Behind>>,
        trust: &Arc<Trust>,
    ) -> Result<Prepared, ServeError> {
        // What is the same keeps its TLS sessions.
        let known = self.open.read().0.clone();
        let trust = if known == *trust { known } else { trust.clone() };
        Ok(Prepared { groups: self.groups.prepare(behinds, &trust, &self.limits, &self.clock)?, trust })
    }

    /// Goes by other origins from now on; of those that stay all that is known stays.
    pub fn exchange(&self, prepared: Prepared) {
        let Prepared { groups, trust } = prepared;
        self.groups.exchange(groups);
        let mut open = self.open.write();
        let Target { counts, reach } = &open.1;
        let reach = Arc::new(Reach::anywhere(&trust, &self.limits, reach.keep, self.clock.clone()));
        *open = (trust, Target { counts: counts.clone(), reach });
    }

    /// Connects to the first of `addresses` that accepts. `single` takes a new connection that is closed afterwards:
    /// for requests that must not be sent twice, as one on a kept connection might have to be.
    ///
    /// Errors: what the last address failed with, or an earlier one that did answer, but not to TLS.
    pub async fn connect(
        &self,
        destination: &Destination,
        target: &Target,
        addresses: &[SocketAddr],
        single: bool,
    ) -> Result<Connection, Failure> {
        let mut failure = Failure::Internal("no address is left to try".into());
        for address in addresses {
            let secured = destination.tls.then_some(destination.host.as_str());
            let place = PoolKey::new(&target.counts, target.reach.mark, secured, *address);
            match self.connect_one(destination, target, place, *address, single).await {
                Ok(connection) => return Ok(connection),
                Err(error) if !matches!(failure, Failure::Tls { .. }) => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Connects to one address, or takes a connection that is there.
    async fn connect_one(
        &self,
        destination: &Destination,
        target: &Target,
        place: PoolKey,
        address: SocketAddr,
        single: bool,
    ) -> Result<Connection, Failure> {
        let (reach, tls) = (&target.reach, destination.tls);
        if !single {
            if let Some(seat) = self.sessions.seat(&place) {
                return Ok(Connection::h2(H2::new(seat, reach.clone(), tls), address, true));
            }
            if let Some(wire) = self.pool.take(&place) {
                return Ok(Connection::h1(H1::new(wire, place, reach.clone(), self.rooms.take(), true), address, true));
            }
        }
        let (wire, http2) = self.open(destination, target, address).await?;
        if !http2 {
            return Ok(Connection::h1(H1::new(wire, place, reach.clone(), self.rooms.take(), !single), address, false));
        }
        let session = Session::begin(wire, &self.clock).await?;
        let seat = session.seat().ok_or_else(|| Failure::Origin("HTTP/2 ended as it began".into()))?;
        if !single {
            self.sessions.put(place, session, reach.keep_for);
        }
        Ok(Connection::h2(H2::new(seat, reach.clone(), tls), address, false))
    }

    /// A new connection, with TLS if the destination wants it, and whether HTTP/2 is to be spoken on it.
    async fn open(
        &self,
        destination: &Destination,
        target: &Target,
        address: SocketAddr,
    ) -> Result<(Wire, bool), Failure> {
        let opened = target.reach.clock.timeout(target.reach.connect, async {
            #[cfg(feature = "simulated")]
            if let Some(network) = self.network.get() {
                let stream = network.connect(address).await.map_err(|error| refused(address, &error))?;
                return secure(stream, destination, target, address).await;
            }
            let stream = TcpStream::connect(address).await.map_err(|error| refused(address, &error))?;
            // Heads and their content are written as one; waiting for more only delays them. Failing is harmless.
            let _ = stream.set_nodelay(true);
            secure(stream, destination, target, address).await
        });
        let (stream, http2) = opened.await.unwrap_or(Err(Failure::ConnectTimeout { address }))?;
        Ok((Wire::new(stream, &target.counts), http2))
    }

    /// Gives a connection back, to be used again if its answer was whole and nothing else came.
    pub fn release(&self, connection: Connection) {
        if let Some((wire, place, reach)) = connection.reusable(&self.rooms) {
            self.pool.put(place, wire, reach.keep, reach.keep_for);
        }
    }

    /// Each route's origins.
    pub fn groups(&self) -> Vec<Arc<Group>> {
        self.groups.all()
    }
}

/// A connection over what is open to a destination already, for one request by HTTP/1.1.
pub(crate) fn over(
    stream: Box<dyn Stream>,
    destination: &Destination,
    target: &Target,
    address: SocketAddr,
) -> Connection {
    let secured = destination.tls.then_some(destination.host.as_str());
    let place = PoolKey::new(&target.counts, target.reach.mark, secured, address);
    let wire = Wire::new(stream, &target.counts);
    Connection::h1(H1::new(wire, place, target.reach.clone(), Room::default(), false), address, false)
}

/// TLS with a destination that wants it, and whether HTTP/2 is to be spoken then.
pub(crate) async fn secure(
    stream: impl Stream + 'static,
    destination: &Destination,
    target: &Target,
    address: SocketAddr,
) -> Result<(Box<dyn Stream>, bool), Failure> {
    if !destination.tls {
        return Ok((Box::new(stream), target.reach.http2));
    }
    let host = &destination.host;
    let failed = |error: String| Failure::Tls { host: host.clone(), address, error, untrusted: None };
    let tls = target.reach.tls().ok_or_else(|| failed("there is no TLS here".into()))?;
    let name =
        ServerName::try_from(host.clone()).map_err(|_| failed("no certificate could be for that name".into()))?;
    let secured = tls.connect(name, stream).await.map_err(|error| Failure::Tls {
        host: host.clone(),
        address,
        error: handshake::reason(&error),
        untrusted: handshake::untrusted(&error),
    })?;
    let http2 = target.reach.is_neighbour || secured.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2);
    Ok((Box::new(secured), http2))
}

fn refused(address: SocketAddr, error: &io::Error) -> Failure {
    let error = match error.kind() {
        ErrorKind::ConnectionRefused => "it was refused".into(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "there is no route to it".into(),
        ErrorKind::TimedOut => return Failure::ConnectTimeout { address },
        _ => error.to_string(),
    };
    Failure::Connect { address, error }
}
