//! CONNECT where tunnels may be looked into: what the client says first decides, as far as rules do not.
//!
//! Where a rule opens the tunnel to the host that was asked for, nothing is connected to before the client's TLS has ended here.
//! Where no rule is about that host, the tunnel stands first, and is given up if the name inside is one to be opened up.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use parking_lot::Mutex;
use tinaja_http::judge::Judged;
use tinaja_http::refusal::Refusal;
use tinaja_logs::{CacheResult, Record};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::connect::Connect;
use super::tunnel::Reached;
use super::{Caller, Front, tunnel};
use crate::client::Gate;
use crate::failure::Failure;
use crate::held::Kept;
use crate::ids::RequestId;
use crate::intercept::{Decision, First, Interceptor, MAX_HELLO_BYTES, OnReject, read_hello};
use crate::metrics::{Source, Tunnels};
use crate::origin::Destination;
use crate::rules::Denied;
use crate::stream::{Ahead, Stream};

/// What becomes of a tunnel whose client has spoken.
pub(super) enum Verdict {
    Open(OnReject, String),
    Alone,
    Refused(Failure),
}

impl Front {
    /// Answers a CONNECT, the last that is said on its connection outside the tunnel.
    pub(super) async fn tunnel(
        self: &Arc<Self>,
        gate: Gate,
        caller: &Caller,
        began: Instant,
        (judged, id): (&Judged, &RequestId),
        kept: Kept,
        stopping: &watch::Receiver<bool>,
    ) {
        let refused = match (&judged.authority, &caller.inside) {
            (_, Some(_)) => Failure::NoUpgrade,
            _ if caller.diverted.is_some() => Failure::NoConnect,
            (None, _) => Failure::Refused(Refusal::ConnectTarget),
            (Some(authority), None) => {
                let Some(serving) = self.current.of(self.index) else { return };
                let destination = Destination::of(true, authority);
                let listener = serving.listener;
                let kept = Mutex::new(Some(kept));
                let connect = Connect { caller, began, judged, id, authority, destination, listener, kept };
                return match serving.interceptor {
                    None => self.plain(gate, &connect).await,
                    Some(interceptor) => self.perhaps(gate, connect, interceptor, stopping).await,
                };
            }
        };
        self.refuse(gate, caller, began, Some((judged, id)), &refused).await;
    }

    /// A tunnel that nobody looks into.
    pub(super) async fn plain(&self, gate: Gate, connect: &Connect<'_>) {
        match tunnel::reach(&self.shared, &connect.listener, connect.asked(), &connect.destination).await {
            Err(failure) => self.turn_down(gate, connect, &failure).await,
            Ok(reached) => {
                let (stream, ahead) = gate.into_parts();
                let greeting: &[u8] = if connect.caller.diverted.is_some() { b"" } else { tunnel::GREETING };
                self.relay(connect, stream, (greeting, ahead), reached).await;
            }
        }
    }

    /// A tunnel that may be looked into.
    async fn perhaps(
        self: &Arc<Self>,
        mut gate: Gate,
        connect: Connect<'_>,
        interceptor: Arc<Interceptor>,
        stopping: &watch::Receiver<bool>,
    ) {
        let (client, host) = (connect.client(), connect.destination.host.clone());
        let decision = self.heeding_rejections(interceptor.rules.decide(client, &host), client, &host);
        let is_about_host = matches!(decision, Decision::Cache(_));
        let reached = match decision {
            Decision::Refuse(number) => {
                self.count_tunnel(|tunnels| tunnels.refused.inc());
                let failure = Failure::Denied(Denied::Interception(number));
                return self.turn_down(gate, &connect, &failure).await;
            }
            Decision::Tunnel { by_rule } if by_rule || !interceptor.rules.concern(client) => {
                return self.plain(gate, &connect).await;
            }
            Decision::Tunnel { .. } => {
                match tunnel::reach(&self.shared, &connect.listener, connect.asked(), &connect.destination).await {
                    Err(failure) => return self.turn_down(gate, &connect, &failure).await,
                    Ok(reached) => Some(reached),
                }
            }
            Decision::Cache(_) => match connect.listener.check_request(connect.asked()) {
                Err(failure) => return self.turn_down(gate, &connect, &failure).await,
                Ok(()) => None,
            },
        };
        let greet = async {
            gate.stream().write_all(tunnel::GREETING).await?;
            gate.stream().flush().await
        };
        if !matches!(self.shared.clock.timeout(self.shared.limits.client_stall, greet).await, Ok(Ok(()))) {
            return;
        }
        let first = self.first_words(&mut gate, reached.as_ref().map(|reached| &reached.stream)).await;
        let Some(first) = first else { return };
        let verdict = self.verdict(&connect, &interceptor, first, is_about_host);
        self.go_on((gate, reached), &connect, &interceptor, verdict, stopping).await;
    }

    /// Does what was decided of a tunnel whose client has spoken. `reached` is its far end, where that was connected to before.
    pub(super) async fn go_on(
        self: &Arc<Self>,
        (gate, reached): (Gate, Option<Reached>),
        connect: &Connect<'_>,
        interceptor: &Interceptor,
        verdict: Verdict,
        stopping: &watch::Receiver<bool>,
    ) {
        let (stream, ahead) = gate.into_parts();
        match verdict {
            Verdict::Open(on_reject, name) => {
                drop(reached);
                let stream = Ahead { ahead, stream };
                self.open(connect, stream, interceptor, (on_reject, name), stopping).await;
            }
            Verdict::Alone => self.leave_alone(connect, stream, ahead, reached).await,
            Verdict::Refused(failure) => self.log_connect(connect, &failure),
        }
    }

    /// What was decided, but for clients that have said no to a certificate and are not to be asked again.
    fn heeding_rejections(&self, decision: Decision, client: IpAddr, name: &str) -> Decision {
        match decision {
            Decision::Cache(OnReject::Tunnel) if self.shared.rejections.has(client, name, self.shared.clock.now()) => {
                self.count_tunnel(|tunnels| tunnels.after_rejection.inc());
                Decision::Tunnel { by_rule: true }
            }
            Decision::Tunnel { by_rule: true } => {
                self.count_tunnel(|tunnels| tunnels.by_rule.inc());
                decision
            }
            decision => decision,
        }
    }

    /// Reads what a client says first, until it is known what it is. A server that speaks before its client does is no server of
    /// HTTPS: then, and where a client says nothing, it is not TLS. Nothing if the client has gone.
    pub(super) async fn first_words(&self, gate: &mut Gate, origin: Option<&TcpStream>) -> Option<First> {
        let read = async {
            loop {
                match read_hello(gate.waiting()) {
                    First::More if gate.waiting().len() < MAX_HELLO_BYTES => {}
                    first => return Some(first),
                }
                match gate.read_more().await {
                    Ok(1..) => {}
                    // What has come may be all of another protocol's question.
                    Ok(0) if !gate.waiting().is_empty() => return Some(First::Malformed),
                    Ok(0) | Err(_) => return None,
                }
            }
        };
        let spoken = async {
            match origin {
                Some(origin) => drop(origin.readable().await),
                None => std::future::pending().await,
            }
        };
        let first = self.shared.clock.timeout(self.shared.limits.head, async {
            tokio::select! {
                biased;
                first = read => first,
                () = spoken => Some(First::NotTls),
            }
        });
        match first.await {
            Ok(first) => first,
            Err(_) if gate.waiting().is_empty() => Some(First::NotTls),
            Err(_) => Some(First::Malformed),
        }
    }

    /// What becomes of a tunnel, by what its client has said first.
    fn verdict(&self, connect: &Connect<'_>, interceptor: &Interceptor, first: First, is_about_host: bool) -> Verdict {
        let (client, host) = (connect.client(), &connect.destination.host);
        let name = first.name().unwrap_or(host);
        let decision = match name == host && is_about_host {
            // A client that has said no since its CONNECT gets what it would have got.
            true => interceptor.rules.decide(client, name),
            false => interceptor.rules.decide_both(client, host, name),
        };
        self.decided(connect, first, decision, is_about_host)
    }

    /// The same by what rules say of the name that it gave. `is_about_host` says that they would open it up, whatever it had said.
    pub(super) fn decided(
        &self,
        connect: &Connect<'_>,
        first: First,
        decision: Decision,
        is_about_host: bool,
    ) -> Verdict {
        let hello = match first {
            First::Hello(hello) => hello,
            First::Malformed if is_about_host => {
                self.count_tunnel(|tunnels| tunnels.failed.inc());
                return Verdict::Refused(Failure::ClientTls(
                    "its first message makes no sense, or did not come in time".into(),
                ));
            }
            // Of what nobody wants to look into it is not known better.
            First::Malformed | First::NotTls | First::More => {
                self.count_tunnel(|tunnels| tunnels.not_https.inc());
                return Verdict::Alone;
            }
        };
        let name = hello.name.unwrap_or_else(|| connect.destination.host.clone());
        match self.heeding_rejections(decision, connect.client(), &name) {
            Decision::Refuse(number) => {
                self.count_tunnel(|tunnels| tunnels.refused.inc());
                Verdict::Refused(Failure::Denied(Denied::Interception(number)))
            }
            Decision::Tunnel { .. } => Verdict::Alone,
            Decision::Cache(_) if hello.is_not_http => {
                self.count_tunnel(|tunnels| tunnels.not_https.inc());
                Verdict::Alone
            }
            Decision::Cache(on_reject) => Verdict::Open(on_reject, name),
        }
    }

    /// A tunnel whose client has heard already that it stands.
    async fn leave_alone(&self, connect: &Connect<'_>, stream: Stream, ahead: BytesMut, reached: Option<Reached>) {
        let reached = match reached {
            Some(reached) => Ok(reached),
            None => tunnel::reach(&self.shared, &connect.listener, connect.asked(), &connect.destination).await,
        };
        match reached {
            Ok(reached) => self.relay(connect, stream, (b"", ahead), reached).await,
            Err(failure) => self.log_connect(connect, &failure),
        }
    }

    async fn relay(
        &self,
        connect: &Connect<'_>,
        stream: Stream,
        (greeting, ahead): (&[u8], BytesMut),
        Reached { stream: origin, address, outgoing }: Reached,
    ) {
        if connect.caller.diverted.is_some_and(|ends| self.shared.dialled.has(ends.peer, ends.chosen)) {
            // It was not known yet when it came.
            return self.log_connect(connect, &Failure::Loop);
        }
        let Some(kept) = connect.kept.lock().take() else { return };
        let relayed = tunnel::run(&self.shared, stream, (greeting, ahead), origin, kept).await;
        drop(outgoing);
        self.shared.count(&CacheResult::Tunnel, Source::Tunnel, 200, relayed.to_client, connect.began);
        self.shared.log.write(Record {
            id: Some(connect.id.to_string()),
            method: connect.judged.method.clone(),
            url: connect.authority.to_string(),
            status: 200,
            bytes: relayed.to_client,
            result: CacheResult::Tunnel,
            origin: Some(address.ip().to_string()),
            why: relayed.why(),
            ..connect.caller.record(connect.began, &self.shared.clock)
        });
    }

    /// Answers with a page: no tunnel stands.
    async fn turn_down(&self, gate: Gate, connect: &Connect<'_>, failure: &Failure) {
        if connect.caller.diverted.is_some() {
            return self.log_connect(connect, failure);
        }
        let told = Some((connect.judged, connect.id));
        self.refuse(gate, connect.caller, connect.began, told, failure).await;
    }

    /// Says in the log why a tunnel came to its end whose client cannot be told: it would take any answer for its server's.
    pub(super) fn log_connect(&self, connect: &Connect<'_>, failure: &Failure) {
        self.log_failure(connect.caller, connect.began, Some((connect.judged, connect.id)), failure);
    }

    pub(super) fn count_tunnel(&self, count: impl FnOnce(&Tunnels)) {
        if let Some(metrics) = &self.shared.metrics {
            count(&metrics.tunnels);
        }
    }
}
