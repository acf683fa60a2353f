//! A request that asks for another protocol, as WebSockets do (RFC 9110 7.8).
//!
//! Where a client or an origin knows of this proxy, an access rule opens protocols by name, and the request goes past the cache like others, with
//! no other protocols than those. Behind the origin's 101 all is passed on both ways. Behind any other answer the client still speaks HTTP, and its
//! next request is judged as ever.
//!
//! A client that takes this proxy for the origin, inside an intercepted tunnel or on a connection that the kernel sent here, needs no rule.
//! Its head goes to the origin, with the protocols that it asks for and that are not HTTP. If the origin says 101 to one of them, all
//! that follows is passed on both ways: the tunnel is one again, but
//! for its TLS, which is checked as ever. If it does not, the client still speaks HTTP, and what it sends would be requests that nobody
//! has judged: it gets that answer, and its connection ends. Nothing of either is stored.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, UPGRADE, VIA};
use http::{Method, StatusCode};
use tinaja_http::body::Framing;
use tinaja_http::hops::{self, Interim, Via};
use tinaja_http::judge::Judged;
use tinaja_http::message::ResponseHead;
use tinaja_logs::{CacheResult, Record};
use tokio::io::AsyncWriteExt;

use super::tunnel::Reached;
use super::{Caller, Front, tunnel};
use crate::client::{Client, Connection as Speaking, Gate, H1};
use crate::diverted::Outgoing;
use crate::exchange::{Request, Switched, from_origin, switched};
use crate::failure::Failure;
use crate::held::{Kept, REQUEST_BYTES, TUNNEL_BYTES};
use crate::ids::RequestId;
use crate::metrics::Source;
use crate::origin::{Connection, Destination, over, secure};

impl Front {
    /// Passes on a request that may leave HTTP for one of these protocols, and whatever comes of it. The gate comes back if another request may
    /// follow.
    pub(super) async fn switch(
        &self,
        (gate, keep): (Gate, bool),
        caller: &Caller,
        request: &Request,
        (judged, id): (&Judged, &RequestId),
        protocols: &str,
    ) -> Option<Gate> {
        let (ticket, shared) = (&request.ticket, &self.shared);
        // What the tunnel takes is let go with it where nothing moves.
        let Some((_of_request, kept)) = shared.held.keep(REQUEST_BYTES).zip(shared.held.keep(TUNNEL_BYTES)) else {
            let failure = Failure::TooManyConnections;
            self.refuse(gate, caller, ticket.began, Some((judged, id)), &failure).await;
            return None;
        };
        let head_only = *request.method() == Method::HEAD;
        let h1 = H1::new(gate, judged.http11, head_only, keep, shared.patience());
        let mut client = Client::new(Speaking::H1(Box::new(h1)));
        let switched = Box::pin(self.exchange.switch(request, &mut client, protocols)).await;
        let Speaking::H1(h1) = client.into_connection() else { return None };
        let Some(Switched { head, connection, noted }) = switched else { return h1.finish().await };
        let (bytes, why) = self.switched(*h1, connection, &head, kept).await;
        self.exchange.note_switched(request, noted, bytes, why);
        None
    }

    /// Passes on a request that leaves HTTP, and whatever comes of it, of a client that knows of no proxy.
    pub(super) async fn upgrade(
        &self,
        gate: Gate,
        caller: &Caller,
        request: &Request,
        (judged, id): (&Judged, &RequestId),
    ) {
        let (ticket, shared) = (&request.ticket, &self.shared);
        let head_only = *request.method() == Method::HEAD;
        let mut client = H1::new(gate, judged.http11, head_only, false, shared.patience());
        let asked = async {
            let kept = shared.held.keep(TUNNEL_BYTES).ok_or(Failure::TooManyConnections)?;
            let protocols = request.asked_protocols().collect::<Vec<_>>().join(", ");
            let (mut origin, outgoing) = self.ask_to_switch(request, judged, &protocols).await?;
            let head = answer_to(&mut origin, (request, &protocols), &mut client, &shared.via).await?;
            Ok((origin, outgoing, head, kept))
        };
        let (origin, _outgoing, head, kept) = match asked.await {
            Ok(asked) => asked,
            Err(failure) => {
                return self.refuse(client.into_gate(), caller, ticket.began, Some((judged, id)), &failure).await;
            }
        };
        let address = origin.address;
        let mut why = None;
        let (status, result, source, bytes) = if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let (bytes, ended) = self.switched(client, origin, &head, kept).await;
            why = ended;
            (200, CacheResult::Tunnel, Source::Tunnel, bytes)
        } else {
            let status = head.status.as_u16();
            (status, CacheResult::Miss, Source::Origin, self.declined(client, origin, head).await)
        };
        shared.count(&result, source, status, bytes, ticket.began);
        shared.log.write(Record {
            id: Some(id.to_string()),
            method: judged.method.clone(),
            url: ticket.url(),
            status,
            bytes,
            result,
            origin: Some(address.ip().to_string()),
            why,
            ..caller.record(ticket.began, &shared.clock)
        });
    }

    /// Sends the request to its origin over a connection of its own, and asks for these protocols.
    async fn ask_to_switch(
        &self,
        request: &Request,
        judged: &Judged,
        protocols: &str,
    ) -> Result<(Connection, Outgoing), Failure> {
        let (ticket, shared) = (&request.ticket, &self.shared);
        // Where content ends would be the origin's to say, and not the judge's.
        if judged.framing != Framing::Length(0) {
            return Err(Failure::NoUpgrade);
        }
        if request.is_loop {
            return Err(Failure::Loop);
        }
        let asked = ticket.asked(request.method());
        let there = ticket.chosen.map(|chosen| chosen.address.ip().to_string());
        let host = there.unwrap_or_else(|| ticket.destination.host.clone());
        let end = Destination { host, ..ticket.destination.clone() };
        let may = |address: SocketAddr| request.check_switch(asked, address.ip());
        let reached = tunnel::reach_where(shared, &ticket.listener, asked, &end, may).await?;
        let Reached { stream, address, outgoing } = reached;
        let target = self.exchange.origins.anywhere();
        let secured = secure(stream, &ticket.destination, &target, address);
        let late = Failure::ConnectTimeout { address };
        let (stream, _) = shared.clock.timeout(shared.limits.connect, secured).await.unwrap_or(Err(late))?;
        let mut origin = over(stream, &ticket.destination, &target, address);
        let mut head = request.head.clone();
        for name in hops::hop_by_hop(&head.headers) {
            head.headers.remove(&name);
        }
        head.headers.insert(CONNECTION, "Upgrade")?;
        head.headers.insert(UPGRADE, protocols)?;
        head.headers.append(VIA, shared.via.member(request.version))?;
        origin.send(&head).await?;
        Ok((origin, outgoing))
    }

    /// Copies both ways until it is over: the origin has switched. Bytes that the client got behind the answer's head, and why it ended
    /// where that is worth a word.
    async fn switched(
        &self,
        mut client: H1,
        origin: Connection,
        head: &ResponseHead,
        kept: Kept,
    ) -> (u64, Option<String>) {
        let (Ok(()), Some((origin, come))) = (client.interim(head).await, origin.into_raw()) else {
            return (0, None);
        };
        let (stream, ahead): (_, BytesMut) = client.into_gate().into_parts();
        let relayed = tunnel::run(&self.shared, stream, (&come, ahead), origin, kept).await;
        (relayed.to_client + come.len() as u64, relayed.why())
    }

    /// Passes the origin's answer on, which is this connection's last: it has not switched. Bytes of content that the client got.
    async fn declined(&self, mut client: H1, mut origin: Connection, mut head: ResponseHead) -> u64 {
        let shared = &self.shared;
        let passed = async {
            let via = shared.via.member(head.version);
            from_origin(&mut head, shared.clock.wall()).and_then(|()| head.headers.append(VIA, via)).ok()?;
            client.begin(&head, Bytes::new()).await.ok()?;
            // One that breaks off has no end, and the client is made to see that.
            while let Some(piece) = origin.read().await.ok()? {
                client.piece(piece).await.ok()?;
            }
            client.end().await.ok()
        };
        let is_whole = passed.await.is_some();
        let (bytes, mut gate) = (client.sent_bytes(), client.into_gate());
        if is_whole {
            // Under TLS too the end is said. What the client has sent meanwhile is not looked at.
            let _ = shared.clock.timeout(shared.limits.client_stall, gate.stream().shutdown()).await;
            self.linger(gate, true).await;
        }
        bytes
    }
}

/// The head of the origin's answer: of a 101 to one of these protocols, or of its final one. Interim ones are passed on before.
async fn answer_to(
    origin: &mut Connection,
    (request, protocols): (&Request, &str),
    client: &mut H1,
    via: &Via,
) -> Result<ResponseHead, Failure> {
    let mut before = 0;
    loop {
        let mut head = tokio::select! {
            head = origin.read_head() => head?,
            () = client.gone() => return Err(Failure::ClientLeft),
        };
        if !head.status.is_informational() {
            return Ok(head);
        }
        if hops::interim(head.status, request.is_http10(), true, before) == Interim::Refuse {
            return Err(Failure::Origin("it sends interim answers without end".into()));
        }
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            switched(&mut head, protocols)?;
            head.headers.append(VIA, via.member(head.version))?;
            return Ok(head);
        }
        hops::not_interim(&head.headers).iter().for_each(|name| head.headers.remove(name));
        client.interim(&head).await.map_err(|_| Failure::ClientLeft)?;
        before += 1;
    }
}
