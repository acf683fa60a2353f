//! A request that asks for another protocol, as WebSockets do (RFC 9110 7.8), of a client that takes this proxy for the origin: inside an
//! intercepted tunnel, or on a connection that the kernel sent here.
//!
//! Its head goes to the origin as it came, and all that follows is passed on both ways: the tunnel is one again, but for its TLS,
//! which is checked as ever. Nothing of it is stored, and the client's connection ends with it, whatever the origin answers.

use bytes::BytesMut;
use http::header::VIA;
use tinaja_http::body::Framing;
use tinaja_http::hops::via_member;
use tinaja_http::judge::Judged;
use tinaja_logs::{CacheResult, Record};
use tokio::io::AsyncWriteExt;

use super::tunnel::Reached;
use super::{Caller, Front, tunnel};
use crate::client::Gate;
use crate::exchange::Request;
use crate::failure::Failure;
use crate::ids::RequestId;
use crate::metrics::Source;
use crate::origin::{Destination, secure};

impl Front {
    /// Passes on a request that leaves HTTP, and whatever comes of it.
    pub(super) async fn upgrade(
        &self,
        gate: Gate,
        caller: &Caller,
        request: &Request,
        (judged, id): (&Judged, &RequestId),
    ) {
        let (ticket, shared) = (&request.ticket, &self.shared);
        let reached = async {
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
            let Reached { stream, address, outgoing } = tunnel::reach(shared, &ticket.listener, asked, &end).await?;
            let target = self.exchange.origins.anywhere();
            let secured = secure(stream, &ticket.destination, &target, address);
            let late = Failure::ConnectTimeout { address };
            let (mut origin, _) = shared.clock.timeout(shared.limits.connect, secured).await.unwrap_or(Err(late))?;
            let mut head = request.head.clone();
            head.headers.append(VIA, via_member(request.version, &shared.name))?;
            let mut bytes = Vec::new();
            head.write_to(&mut bytes);
            let sent = shared.clock.timeout(shared.limits.origin_stall, origin.write_all(&bytes)).await;
            match sent {
                Ok(Ok(())) => Ok((origin, address, outgoing)),
                Ok(Err(error)) => Err(Failure::Origin(format!("it took no more: {error}"))),
                Err(_) => Err(Failure::OriginTimeout),
            }
        };
        let (origin, address, _outgoing) = match reached.await {
            Ok(reached) => reached,
            Err(failure) => return self.refuse(gate, caller, ticket.began, Some((judged, id)), &failure).await,
        };
        let (stream, ahead): (_, BytesMut) = gate.into_parts();
        let relayed = tunnel::run(shared, stream, (b"", ahead), origin).await;
        shared.count(&CacheResult::Tunnel, Source::Tunnel, 200, relayed.to_client, ticket.began);
        shared.log.write(Record {
            id: Some(id.to_string()),
            method: judged.method.clone(),
            url: ticket.url(),
            status: 200,
            bytes: relayed.to_client,
            result: CacheResult::Tunnel,
            origin: Some(address.ip().to_string()),
            ..caller.record(ticket.began, &shared.clock)
        });
    }
}
