//! The front: every connection of a client's, from its first byte to its last.
//!
//! Each request head is read raw under a deadline and judged before anything else is done with it, a pipelined one
//! too. Tunnels are run here, and plain hits are answered here; all else goes to the exchange.
//!
//! Each listener has a `Front` of its own over one exchange. So mode, routes and rules need no lookup, while the cache, the
//! limits and the end are common to all.

mod answers;
mod caller;
mod connect;
mod diverted;
mod h2;
mod head;
mod inside;
mod intercept;
mod lean;
mod open;
mod proxied;
mod relay;
#[cfg(feature = "simulated")]
mod simulated;
mod tunnel;
mod upgrade;
mod visits;
mod way;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Version};
use tinaja_http::judge::{Judged, Target};
use tinaja_http::lines::lines;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};

use answers::LINGER;
use caller::Caller;
use head::{Arrival, next_request};
use inside::Inside;
use lean::{Lean, MaybePlain, To};
pub(crate) use visits::visits;
pub(crate) use way::{Came, Way, way};

use crate::accepting::Recovery;
use crate::boxed::boxed;
use crate::client::{Client, Connection, Gate, H1};
use crate::clients::OfClient;
use crate::config::{Listener, Mode};
use crate::crowd::Crowd;
use crate::current::Current;
use crate::exchange::{Exchange, Request, Ticket};
use crate::failure::Failure;
use crate::held::{
    CONNECTION_BYTES, Kept, MOST_SEND_BUFFER_BYTES, REQUEST_BYTES, SMALL_HEAD_BYTES, TLS_BYTES, TUNNEL_BYTES,
};
use crate::ids::RequestId;
use crate::page::raw_answer;
use crate::quotas::{Over, Taken};
use crate::rules::{Asked, Purging};
use crate::shared::Shared;
use crate::stream::{Stream, bound_send_buffer};
use crate::tls::Accepted;

/// What answers the connections of one listener.
pub(crate) struct Front {
    pub shared: Arc<Shared>,
    /// What this listener goes by, among all.
    pub current: Arc<Current>,
    pub index: usize,
    pub exchange: Arc<Exchange>,
    pub crowd: Crowd,
    /// This proxy's member of Via in the answers that it gives from its cache.
    pub via: HeaderValue,
}

impl Front {
    /// Accepts connections until `stopping` says so, and answers each in a task of its own, which learns of it as well.
    pub async fn accept(self: Arc<Self>, listener: TcpListener, stopping: watch::Receiver<bool>) {
        let mut stop = pin!(stopped(stopping.clone()));
        let mut recovery = Recovery::default();
        loop {
            let connection = tokio::select! {
                () = &mut stop => return,
                connection = listener.accept() => connection,
            };
            let (stream, address) = match connection {
                Ok(connection) => connection,
                Err(error) => {
                    recovery.after(&self.shared.clock, error).await;
                    continue;
                }
            };
            // Answers are written whole; waiting for more only delays them. Failing is harmless.
            let _ = stream.set_nodelay(true);
            let send_buffer = self.shared.held.send_buffer_bytes();
            if send_buffer < MOST_SEND_BUFFER_BYTES {
                bound_send_buffer(&stream, send_buffer);
            }
            let (front, stopping) = (self.clone(), stopping.clone());
            self.shared.clock.start(async move { front.connection(stream, address.ip(), &stopping).await });
        }
    }

    /// Answers one connection to its end.
    async fn connection(self: &Arc<Self>, mut stream: TcpStream, address: IpAddr, stopping: &watch::Receiver<bool>) {
        let mut caller = Caller::new(address);
        let serving = self.current.of(self.index);
        let diversion = serving.as_ref().and_then(|serving| serving.listener.mode.diversion());
        let is_told = serving.as_ref().is_some_and(|serving| serving.listener.is_told_by(address));
        let listener = serving.as_ref().map(|serving| serving.listener.clone());
        let tls = serving.and_then(|serving| serving.tls);
        // Whoever says who the client is counts as none.
        let is_proxy = |address| listener.as_ref().is_some_and(|listener| listener.is_proxy(address));
        let of_client = if is_told || is_proxy(address) { Ok(None) } else { self.of_client(address).map(Some) };
        let place = of_client.and_then(|of_client| Ok((of_client, self.place(tls.is_some())?)));
        let (_of_client, (_place, mut kept)) = match place {
            Ok(place) => place,
            Err(failure) => return self.turn_away(stream, &caller, tls.is_some(), &failure).await,
        };
        let mut _of_told = None;
        if is_told {
            let Some(client) = boxed(|| self.told(&mut stream, address, &mut kept)).await else { return };
            (caller.address, caller.peer) = (client, client);
            match self.of_client(client) {
                _ if is_proxy(client) => {}
                Ok(of_client) => _of_told = Some(of_client),
                Err(failure) => return self.turn_away(stream, &caller, tls.is_some(), &failure).await,
            }
        }
        drop(listener);
        if let Some(diversion) = diversion {
            return boxed(|| self.diverted(stream, caller, kept, diversion, stopping)).await;
        }
        let Some(tls) = tls else {
            // Without TLS only a connection's first bytes can say that it is HTTP/2; under TLS its handshake has said it.
            return self.requests(Stream::Plain(stream), caller, kept, true, stopping).await;
        };
        let handshake = self.shared.clock.timeout(self.shared.limits.head, Box::pin(tls.accept(stream)));
        let Ok(accepted) = kept.idle(handshake).await else { return };
        match accepted {
            Ok(Ok(Accepted { stream, served, is_http2 })) => {
                caller.served = Some(served);
                if is_http2 {
                    boxed(|| self.http2(stream, BytesMut::new(), caller, kept, stopping)).await;
                } else {
                    self.requests(stream, caller, kept, false, stopping).await;
                }
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a client's TLS handshake failed");
                self.shared.metrics.as_ref().inspect(|metrics| metrics.handshakes_failed.inc());
            }
            Err(_) => {}
        }
    }

    /// Refuses a connection. One attempt: whoever is turned away must not cost more than that. Under TLS it would cost a handshake.
    async fn turn_away(&self, mut stream: TcpStream, caller: &Caller, by_tls: bool, failure: &Failure) {
        let began = self.shared.clock.now();
        if !by_tls {
            let answer = raw_answer(failure, None, true);
            let _ = self.shared.clock.timeout(LINGER, stream.write_all(&answer)).await;
        }
        self.log_failure(caller, began, None, failure);
    }

    /// A place among the connections of one client.
    fn of_client(&self, client: IpAddr) -> Result<OfClient, Failure> {
        self.shared.clients.enter(client).ok_or(Failure::TooManyOfClient)
    }

    /// A place among the requests of one client. Another node has counted its own.
    fn of_request(&self, caller: &Caller) -> Result<Taken, Over> {
        if caller.neighbour {
            return Ok(Taken::nothing());
        }
        // By the present time: a head may have taken a minute to come, and a later one's share was counted meanwhile.
        self.shared.quotas.request(caller.address, self.shared.clock.now())
    }

    /// A place for a connection, and the memory that it takes.
    fn place(&self, by_tls: bool) -> Result<(OwnedSemaphorePermit, Kept), Failure> {
        let bytes = CONNECTION_BYTES + if by_tls { TLS_BYTES } else { 0 };
        let place = self.crowd.enter().and_then(|place| Some((place, self.shared.held.keep(bytes)?)));
        place.ok_or(Failure::TooManyConnections)
    }

    /// Answers one request after the other. `may_be_http2` says that the first bytes may be HTTP/2's.
    async fn requests(
        self: &Arc<Self>,
        stream: Stream,
        mut caller: Caller,
        mut kept: Kept,
        may_be_http2: bool,
        stopping: &watch::Receiver<bool>,
    ) {
        let mut first = may_be_http2;
        let mut ending = self.shared.ending.subscribe();
        let mut gate = Gate::new(stream);
        // What a request needs is boxed, or each idle connection would hold the room for it.
        loop {
            let arrival =
                next_request((&mut gate, &mut kept), std::mem::take(&mut first), &self.shared, &mut ending).await;
            caller.address = match &arrival {
                Arrival::Request { judged, head, .. } => self.client_of(&caller, judged, head),
                _ if caller.is_end() => caller.address,
                _ => caller.peer,
            };
            let of_client = match &arrival {
                Arrival::Request { .. } => self.of_request(&caller),
                _ => Ok(Taken::nothing()),
            };
            match arrival {
                Arrival::Request { judged, head, began } if let Err(over) = &of_client => {
                    let (id, failure) = (self.id(&caller, &judged, &head), Failure::TooMuchOfClient(*over));
                    return boxed(|| self.refuse(gate, &caller, began, Some((&judged, &id)), &failure)).await;
                }
                Arrival::Gone => return,
                Arrival::Http2 => {
                    let (stream, ahead) = gate.into_parts();
                    return boxed(|| self.http2(stream, ahead, caller, kept, stopping)).await;
                }
                Arrival::Refused { refusal, began } => {
                    let failure = Failure::Refused(refusal);
                    return boxed(|| self.refuse(gate, &caller, began, None, &failure)).await;
                }
                Arrival::Request { judged, began, head } if judged.target == Target::Tunnel => {
                    let id = self.id(&caller, &judged, &head);
                    let Some(of_tunnel) = self.shared.held.keep(TUNNEL_BYTES) else {
                        let failure = Failure::TooManyConnections;
                        return boxed(|| self.refuse(gate, &caller, began, Some((&judged, &id)), &failure)).await;
                    };
                    return boxed(|| self.tunnel(gate, &caller, began, (&judged, &id), of_tunnel, stopping)).await;
                }
                Arrival::Request { judged, head, began } => {
                    // A large head is there twice more while its request is carried out.
                    let large = (head.len() > SMALL_HEAD_BYTES).then(|| self.shared.held.keep(2 * head.len()));
                    if large.as_ref().is_some_and(Option::is_none) {
                        let (id, failure) = (self.id(&caller, &judged, &head), Failure::TooManyConnections);
                        return boxed(|| self.refuse(gate, &caller, began, Some((&judged, &id)), &failure)).await;
                    }
                    match boxed(|| self.request(gate, &caller, began, judged, head, stopping)).await {
                        Some(next) => gate = next,
                        None => return,
                    }
                }
            }
        }
    }

    /// Answers one request; the gate comes back if another may follow.
    async fn request(
        &self,
        mut gate: Gate,
        caller: &Caller,
        began: Instant,
        judged: Judged,
        head: Bytes,
        stopping: &watch::Receiver<bool>,
    ) -> Option<Gate> {
        let id = self.id(caller, &judged, &head);
        let ticket = match self.ticket(caller, began, &judged, id.clone()).await {
            Ok(ticket) => ticket,
            Err(failure) => {
                self.refuse(gate, caller, began, Some((&judged, &id)), &failure).await;
                return None;
            }
        };
        if Purging::of(&judged.method).is_some() {
            self.purge(gate, &judged, &head, &ticket).await;
            return None;
        }
        gate.open(judged.framing);
        let version = if judged.http11 { Version::HTTP_11 } else { Version::HTTP_10 };
        let request = match Request::read(ticket, &judged, &head, version, self.shared.via.name()) {
            Ok(request) => request,
            Err(failure) => {
                self.refuse(gate, caller, began, Some((&judged, &id)), &failure).await;
                return None;
            }
        };
        let switching = match request.may_switch_to() {
            Ok(switching) => switching,
            Err(failure) => {
                self.refuse(gate, caller, began, Some((&judged, &id)), &failure).await;
                return None;
            }
        };
        if (caller.inside.is_some() || caller.diverted.is_some()) && Inside::leaves_http(&request) {
            boxed(|| self.upgrade(gate, caller, &request, (&judged, &id))).await;
            return None;
        }
        let keep = !*stopping.borrow() && !request.closes();
        if let Some(protocols) = switching {
            return boxed(|| self.switch((gate, keep), caller, &request, (&judged, &id), &protocols)).await;
        }
        let (shared, exchange, via) = (&*self.shared, &*self.exchange, &self.via);
        let looked =
            match (MaybePlain { shared, exchange, via, request: &request, keep }).answer(To::H1(&mut gate)).await {
                Lean::Answered(answer) => {
                    self.log_hit(&request, &answer);
                    return answer.keep.then_some(gate);
                }
                Lean::Passed(looked) => Some(looked),
                Lean::NoRoom => None,
            };
        let kept = looked.and_then(|looked| Some((looked, self.shared.held.keep(REQUEST_BYTES)?)));
        let Some((looked, _kept)) = kept else {
            self.refuse(gate, caller, began, Some((&judged, &id)), &Failure::TooManyConnections).await;
            return None;
        };
        let head_only = *request.method() == Method::HEAD;
        let patience = self.shared.patience();
        let h1 = H1::new(gate, judged.http11, head_only, keep, patience);
        let mut client = Client::new(Connection::H1(Box::new(h1)));
        // Boxed by itself: what a plain hit needs would have to be moved together with all that a fetch needs.
        boxed(|| self.exchange.answer(&request, &mut client, looked)).await;
        match client.into_connection() {
            Connection::H1(h1) => h1.finish().await,
            Connection::H2(_) => None,
        }
    }

    /// What this listener is, at this moment.
    fn listener(&self) -> Result<Arc<Listener>, Failure> {
        let serving = self.current.of(self.index);
        serving.map(|serving| serving.listener).ok_or_else(|| Failure::Internal("it has lost a listener".into()))
    }

    /// Whose a request with this head is: the caller's, or the client's for whom it says that it asks, if it is a proxy that is believed.
    fn client_of(&self, caller: &Caller, judged: &Judged, head: &Bytes) -> IpAddr {
        if caller.is_end() {
            return caller.address;
        }
        let fields = head.get(judged.fields.clone()).unwrap_or_default();
        let told = self.current.with(self.index, |listener| listener.client_of(caller.peer, fields));
        told.unwrap_or(caller.peer)
    }

    /// The id of a request with this head.
    fn id(&self, caller: &Caller, judged: &Judged, head: &Bytes) -> RequestId {
        // What is in a tunnel is in no log, an id that its client has chosen neither.
        let fields = if caller.inside.is_some() { None } else { head.get(judged.fields.clone()) }.unwrap_or_default();
        // By who says it, which is not always the client.
        self.shared.ids.of(caller.peer, |name| lines(fields).find(|line| line.is(name)).map(|line| line.value))
    }

    /// Where a judged request goes and what is known of it, if rules and routes let it go there.
    async fn ticket(
        &self,
        caller: &Caller,
        began: Instant,
        judged: &Judged,
        id: RequestId,
    ) -> Result<Arc<Ticket>, Failure> {
        let listener = self.listener()?;
        let way = match (&caller.inside, caller.diverted) {
            (Some(inside), diverted) => inside.way(judged, diverted.map(|ends| ends.chosen))?,
            (None, Some(ends)) => self.way_to(&listener, caller.address, ends.chosen, judged).await?,
            (None, None) => way(&listener, judged)?,
        };
        let client = caller.address;
        // A neighbour's client came to this listener's like.
        let tls = caller.served.is_some() || (caller.neighbour && !listener.certificates.is_empty());
        let is_reverse = matches!(listener.mode, Mode::Reverse(_));
        if let Some(served) = caller.served.as_ref().filter(|_| is_reverse)
            && let asked_for = judged.authority.as_ref().unwrap_or(&way.host).host()
            && !served.is_for(asked_for)
        {
            return Err(Failure::Misdirected { host: asked_for.to_owned() });
        }
        // A key rule may send it elsewhere; what its client asked for is judged all the same.
        let chosen = way.chosen;
        let (neighbour, intercepted) = (caller.neighbour, caller.intercepted);
        let came = Came { id, began, client, peer: caller.peer, tls, index: self.index, neighbour, intercepted };
        let ticket = way.ticket(came, listener, self.shared.own.clone(), judged)?;
        ticket.check_request(&judged.method)?;
        if let Some(chosen) = chosen {
            let asked = Asked { client, method: &judged.method, port: ticket.destination.port, upgrade: None };
            self.check_chosen(&ticket.listener, asked, chosen.address)?;
        }
        if Purging::of(&judged.method).is_some() {
            let asked = Asked { client, method: &judged.method, port: ticket.destination.port, upgrade: None };
            ticket.listener.rules.check_purge(asked)?;
        }
        Ok(ticket)
    }
}

/// Returns when the proxy stops.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
