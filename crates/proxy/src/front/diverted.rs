//! Connections that the kernel sent here: where they were going, and what becomes of each.
//!
//! One to port 443 is treated like a CONNECT to the address that its client chose, but that nobody is told of it: rules about tunnels
//! and about interception decide. All others are HTTP, whose requests name their hosts.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tinaja_http::authority::Authority;
use tinaja_http::judge::{Judged, Target, judge};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::connect::Connect;
use super::intercept::Verdict;
use super::way::Way;
use super::{Caller, Front};
use crate::client::Gate;
use crate::config::Listener;
use crate::diverted::{Chosen, Diversion, Proof};
use crate::failure::Failure;
use crate::held::{Kept, TUNNEL_BYTES};
use crate::intercept::{Decision, First, Interceptor};
use crate::metrics::Diverted;
use crate::origin::{Destination, default_port, resolve};
use crate::rules::{Asked, Denied};
use crate::shared::Shared;
use crate::stream::Stream;

/// The port of HTTPS.
const TLS_PORT: u16 = 443;

impl Front {
    /// Answers a connection that was sent here, or made to the listener itself, to its end.
    pub(super) async fn diverted(
        self: &Arc<Self>,
        stream: TcpStream,
        mut caller: Caller,
        kept: Kept,
        diversion: Diversion,
        stopping: &watch::Receiver<bool>,
    ) {
        let began = self.shared.clock.now();
        let ends = stream.local_addr().and_then(|at| Ok((diversion.chosen(&stream, at)?, stream.peer_addr()?)));
        let (chosen, peer) = match ends {
            Ok(ends) => ends,
            Err(error) => {
                // Whoever sent it may be waiting for a server that speaks first: nobody knows what to say.
                self.count_diverted(|diverted| diverted.unknown.inc());
                return self.log_failure(&caller, began, None, &Failure::NoDestination(error.to_string()));
            }
        };
        if self.shared.check_self(chosen).is_err() {
            self.count_diverted(|diverted| diverted.direct.inc());
            let gate = Gate::new(Stream::Plain(stream));
            return Box::pin(self.refuse(gate, &caller, began, None, &Failure::NotDiverted)).await;
        }
        caller.diverted = Some(Ends { chosen, peer });
        if chosen.port() != TLS_PORT {
            self.count_diverted(|diverted| diverted.http.inc());
            return self.requests(Stream::Plain(stream), caller, kept, true, stopping).await;
        }
        self.count_diverted(|diverted| diverted.tls.inc());
        let Some(of_tunnel) = self.shared.held.keep(TUNNEL_BYTES) else {
            return self.log_failure(&caller, began, None, &Failure::TooManyConnections);
        };
        let gate = Gate::new(Stream::Plain(stream));
        Box::pin(self.diverted_tls(gate, &caller, of_tunnel, stopping)).await;
    }

    /// A connection to port 443.
    async fn diverted_tls(self: &Arc<Self>, gate: Gate, caller: &Caller, kept: Kept, stopping: &watch::Receiver<bool>) {
        let (began, Some(Ends { chosen, peer })) = (self.shared.clock.now(), caller.diverted) else { return };
        let Some(serving) = self.current.of(self.index) else { return };
        // All that goes by a CONNECT goes by this one.
        let Ok(judged) = judge(format!("CONNECT {chosen} HTTP/1.1\r\nHost: {chosen}\r\n\r\n").as_bytes()) else {
            return;
        };
        let (id, Some(authority)) = (self.shared.ids.make(), judged.authority.as_ref()) else { return };
        let destination = Destination::of(true, authority);
        let listener = serving.listener;
        let kept = Mutex::new(Some(kept));
        let connect = Connect { caller, began, judged: &judged, id: &id, authority, destination, listener, kept };
        let allowed = match self.shared.dialled.has(peer, chosen) {
            true => Err(Failure::Loop),
            false => self.check_chosen(&connect.listener, connect.asked(), chosen),
        };
        match (allowed, serving.interceptor) {
            (Err(failure), _) => self.log_connect(&connect, &failure),
            (Ok(()), Some(interceptor)) if interceptor.rules.concern(connect.client()) => {
                self.look_into(gate, &connect, &interceptor, stopping).await;
            }
            (Ok(()), _) => self.plain(gate, &connect).await,
        }
    }

    /// One that may be looked into: nothing is connected to before it is known what its client wants.
    async fn look_into(
        self: &Arc<Self>,
        mut gate: Gate,
        connect: &Connect<'_>,
        interceptor: &Interceptor,
        stopping: &watch::Receiver<bool>,
    ) {
        let Some(first) = self.first_words(&mut gate, None).await else { return };
        let (client, address) = (connect.client(), &connect.destination.host);
        let decision = interceptor.rules.decide_diverted(client, address, first.name());
        let verdict = match (&first, decision) {
            // Its first words may be another protocol's, whose address a rule refuses.
            (First::NotTls | First::Malformed | First::More, Decision::Refuse(number)) => {
                self.count_tunnel(|tunnels| tunnels.refused.inc());
                Verdict::Refused(Failure::Denied(Denied::Interception(number)))
            }
            _ => self.decided(connect, first, decision, false),
        };
        self.go_on((gate, None), connect, interceptor, verdict, stopping).await;
    }

    /// Whether a client may go where it chose to go.
    pub(super) fn check_chosen(
        &self,
        listener: &Listener,
        asked: Asked<'_>,
        chosen: SocketAddr,
    ) -> Result<(), Failure> {
        listener.check_request(asked)?;
        self.shared.check_address(listener, asked, chosen)
    }

    /// The way of a request that came by HTTP, if its client may go to the address that it chose. No name is looked up for others, nor
    /// while nobody is asked for anything: what is stored has been proved.
    pub(super) async fn way_to<'a>(
        &self,
        listener: &Listener,
        client: IpAddr,
        chosen: SocketAddr,
        judged: &'a Judged,
    ) -> Result<Way<'a>, Failure> {
        let asked = Asked { client, method: &judged.method, port: chosen.port(), upgrade: None };
        self.check_chosen(listener, asked, chosen)?;
        let is_vouched = match &judged.authority {
            Some(host) if !listener.offline => Box::pin(vouched(&self.shared, chosen, host)).await,
            _ => true,
        };
        if !is_vouched {
            self.count_diverted(|diverted| diverted.unproved.inc());
        }
        way(chosen, judged, is_vouched)
    }

    fn count_diverted(&self, count: impl FnOnce(&Diverted)) {
        if let Some(metrics) = &self.shared.metrics {
            count(&metrics.diverted);
        }
    }
}

/// Both ends of a diverted connection, as its client has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// Where it wanted to go.
    pub chosen: SocketAddr,
    /// Where it comes from.
    pub peer: SocketAddr,
}

/// Whether a host is at the address that its client chose, as far as this proxy's resolver knows. An error is a no: the client may have
/// asked another one.
async fn vouched(shared: &Shared, chosen: SocketAddr, host: &Authority) -> bool {
    let (name, now) = (host.host(), shared.clock.now());
    if host.port_or(default_port(false)) != chosen.port() {
        return false;
    }
    if let Some(address) = host.address() {
        return address.to_canonical() == chosen.ip();
    }
    if let Some(found) = shared.vouched.has(name, chosen.ip(), now) {
        return found;
    }
    let is_there = |address: SocketAddr| match address.ip().to_canonical() == chosen.ip() {
        true => Ok(()),
        false => Err(Failure::Internal("another address".into())),
    };
    let found = resolve(&shared.clock, &Destination::of(false, host), shared.limits.resolve, is_there).await.is_ok();
    shared.vouched.add(name, chosen.ip(), found, shared.clock.now());
    found
}

/// Where a request goes: by its host's name if that is known to be at the address, else to the address alone.
fn way(address: SocketAddr, judged: &Judged, is_vouched: bool) -> Result<Way<'_>, Failure> {
    let host = match &judged.authority {
        Some(host) => host.clone(),
        None => Authority::parse(address.to_string().as_bytes()).map_err(Failure::Refused)?,
    };
    let path = match &judged.target {
        Target::Origin(path) | Target::Absolute { tls: false, path } => path.as_str(),
        Target::Asterisk => "*",
        Target::Absolute { tls: true, .. } => return Err(Failure::Misdirected { host: host.host().to_owned() }),
        Target::Tunnel => return Err(Failure::NoConnect),
    };
    let (destination, proof) = match is_vouched {
        true => (Destination::of(false, &host), Proof::Names),
        false => (Destination { tls: false, host: address.ip().to_string(), port: address.port() }, Proof::Nothing),
    };
    let chosen = Some(Chosen { address, proof });
    Ok(Way { path: path.into(), host, host_tls: false, destination, behind: None, mirror: None, chosen })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(address: &str, line: &str, host: &str, is_vouched: bool) -> Result<(String, String, Proof), u16> {
        let host = if host.is_empty() { String::new() } else { format!("Host: {host}\r\n") };
        let version = if host.is_empty() { "1.0" } else { "1.1" };
        let judged = judge(format!("{line} HTTP/{version}\r\n{host}\r\n").as_bytes()).unwrap();
        let way = way(address.parse().unwrap(), &judged, is_vouched).map_err(|failure| failure.status())?;
        let Destination { tls, host, port } = &way.destination;
        assert!(!tls && way.chosen.unwrap().address == address.parse().unwrap());
        Ok((format!("{host} {port} {}", way.path), way.host.to_string(), way.chosen.unwrap().proof))
    }

    #[test]
    fn ways() {
        for (address, line, host, is_vouched, expected) in [
            ("192.0.2.1:80", "GET /x?y", "A.example", true, Ok(("a.example 80 /x?y", "a.example", Proof::Names))),
            ("192.0.2.1:80", "GET /x", "a.example", false, Ok(("192.0.2.1 80 /x", "a.example", Proof::Nothing))),
            (
                "192.0.2.1:80",
                "GET http://a.example/x",
                "a.example",
                true,
                Ok(("a.example 80 /x", "a.example", Proof::Names)),
            ),
            (
                "192.0.2.1:8080",
                "GET /",
                "a.example:8080",
                true,
                Ok(("a.example 8080 /", "a.example:8080", Proof::Names)),
            ),
            ("[2001:db8::1]:80", "GET /", "a.example", false, Ok(("2001:db8::1 80 /", "a.example", Proof::Nothing))),
            ("[2001:db8::1]:80", "GET /", "", true, Ok(("2001:db8::1 80 /", "[2001:db8::1]:80", Proof::Names))),
            ("192.0.2.1:80", "OPTIONS *", "a.example", true, Ok(("a.example 80 *", "a.example", Proof::Names))),
            ("192.0.2.1:80", "GET https://a.example/x", "a.example", true, Err(421)),
            ("192.0.2.1:80", "CONNECT a.example:443", "a.example:443", true, Err(405)),
        ] {
            let expected = expected.map(|(way, host, proof)| (way.to_owned(), host.to_owned(), proof));
            assert_eq!(to(address, line, host, is_vouched), expected, "{address} {line} {host}");
        }
    }
}
