//! One stream: a request like any other, once its head has been judged.

use std::sync::Arc;
use std::time::Instant;

use ::h2::RecvStream;
use ::h2::ext::Protocol;
use ::h2::server::SendResponse;
use bytes::Bytes;
use http::{HeaderName, Method, Version};
use tinaja_http::body::Framing;
use tinaja_http::http2;
use tinaja_http::judge::{Judged, Target, judge};
use tinaja_http::lines::lines;
use tinaja_http::message::{BadField, ResponseHead};
use tinaja_http::refusal::Refusal;
use tokio::sync::OwnedSemaphorePermit;

use super::limits::FIELD_BYTES;
use crate::boxed::boxed;
use crate::client::{Client, Connection, Content, H2, Queue, Queued};
use crate::exchange::{Request, Ticket};
use crate::failure::Failure;
use crate::front::lean::{Lean, MaybePlain, To};
use crate::front::{Caller, Front};
use crate::held::{SMALL_HEAD_BYTES, STREAM_BYTES};
use crate::ids::RequestId;
use crate::neighbours::{CLIENT, INTERCEPTED, OBJECT};
use crate::page;
use crate::rules::Purging;

impl Front {
    /// Carries one stream's request out; without a place in the crowd it is refused.
    pub(super) async fn stream(
        self: Arc<Self>,
        (request, began): (http::Request<RecvStream>, Instant),
        (respond, queue): (SendResponse<Queued>, Queue),
        mut caller: Caller,
        place: Option<OwnedSemaphorePermit>,
    ) {
        let (parts, content) = request.into_parts();
        let brings_content = !content.is_end_stream();
        let head = http2::head(&parts, brings_content);
        let head_only = parts.method == Method::HEAD;
        // A head is there twice: as fields, and as the lines that are judged.
        let lines = head.as_ref().map_or(0, Bytes::len);
        let long = (2 * lines + FIELD_BYTES * parts.headers.len()).saturating_sub(2 * SMALL_HEAD_BYTES);
        let kept = if caller.neighbour {
            Some(self.shared.held.nothing())
        } else {
            self.shared.held.keep(STREAM_BYTES + long)
        };
        let crowded = place.is_none() || kept.is_none();
        let patience = self.shared.patience();
        let content = Content::new(content, &parts.headers);
        let mut client = H2::new((respond, queue), content, head_only, patience, place);
        let judged = head.and_then(|head| Ok((judge(&head)?, head)));
        let (judged, head) = match judged {
            Ok((judged, head)) => {
                caller.address = self.client_of(&caller, &judged, &head);
                (judged, head)
            }
            Err(refusal) => {
                drop(parts);
                let failure = Failure::Refused(refusal);
                return boxed(|| self.refuse_stream((client, !crowded), &caller, began, None, &failure)).await;
            }
        };
        let object = if caller.neighbour { told(&mut caller, &judged, &head) } else { None };
        let id = self.id(&caller, &judged, &head);
        // Tunnels are for connections of their own, so far.
        let tunnel = judged.target == Target::Tunnel || parts.extensions.get::<Protocol>().is_some();
        let of_client = self.of_request(&caller);
        let ticket = if let Err(over) = &of_client {
            Err(Failure::TooMuchOfClient(*over))
        } else if crowded {
            Err(Failure::TooManyConnections)
        } else if tunnel {
            Err(Failure::Refused(Refusal::Method))
        } else {
            self.ticket(&caller, began, &judged, id.clone()).await
        };
        // One that announces nothing and sends something is malformed, and nobody must hear of it.
        let ticket = match ticket {
            Ok(ticket) if judged.framing == Framing::Length(0) => match client.read_content().await {
                Ok(_) => Ok(ticket),
                Err(bad) => Err(bad.into()),
            },
            ticket => ticket,
        };
        let ticket = match ticket {
            // Neighbours ask for what may be stored.
            Ok(ticket) if ticket.neighbour && Purging::of(&judged.method).is_some() => {
                Err(Failure::Misdirected { host: ticket.host.clone() })
            }
            Ok(ticket) if Purging::of(&judged.method).is_some() => {
                return boxed(|| self.purge_stream(client, &judged, &head, &ticket)).await;
            }
            ticket => ticket,
        };
        let request = ticket.and_then(|ticket| {
            let fields = http2::fields(parts, brings_content);
            Request::of(ticket, &judged.method, fields, Version::HTTP_2, self.shared.via.name())
        });
        let request = match request {
            // Its listener or its key rules are others than here: nothing is given for what it is not.
            Ok(request) if request.ticket.neighbour && object.as_ref() != Some(&request.mark()) => {
                Err(Failure::Misdirected { host: request.ticket.host.clone() })
            }
            request => request,
        };
        match request {
            Err(failure) => {
                let judged = Some((&judged, &id));
                boxed(|| self.refuse_stream((client, !crowded), &caller, began, judged, &failure)).await;
            }
            Ok(request) => {
                let (shared, exchange, via) = (&*self.shared, &*self.exchange, &self.via);
                let plain = MaybePlain { shared, exchange, via, request: &request, keep: true };
                let looked = match plain.answer(To::H2(&mut client)).await {
                    Lean::Answered(answer) => return self.log_hit(&request, &answer),
                    Lean::Passed(looked) => Some(looked),
                    Lean::NoRoom => None,
                };
                let Some(looked) = looked else {
                    let (judged, failure) = (Some((&judged, &id)), Failure::TooManyConnections);
                    return boxed(|| self.refuse_stream((client, false), &caller, began, judged, &failure)).await;
                };
                let mut client = Client::new(Connection::H2(Box::new(client)));
                // What a request needs is boxed, as for HTTP/1.
                boxed(|| self.exchange.answer(&request, &mut client, looked)).await;
            }
        }
    }

    /// Answers with a page; the connection and its other streams go on. Unless the client is `waited_for`, what it does not take at once is not sent.
    async fn refuse_stream(
        &self,
        (client, waited_for): (H2, bool),
        caller: &Caller,
        began: Instant,
        judged: Option<(&Judged, &RequestId)>,
        failure: &Failure,
    ) {
        let body = page::page(failure, judged.map(|(_, id)| id));
        let head = page::head(failure, body.len()).and_then(|mut head| {
            if let Some((_, id)) = judged {
                self.shared.tell(id, &mut head)?;
            }
            Ok(head)
        });
        self.log_failure(caller, began, judged, failure);
        if waited_for {
            send(client, head, body).await;
        } else {
            // There is no room for this client, nor for its answer to wait until it has a window.
            send_at_once(client, head, body);
        }
    }

    async fn purge_stream(&self, client: H2, judged: &Judged, head: &Bytes, ticket: &Ticket) {
        let (status, text) = self.purged(judged, head, ticket).await;
        self.log_purge(judged, ticket, status, text.len());
        send(client, page::text_head(status, text.len()), text).await;
    }
}

/// What a neighbour says with its request: which object it means; and for whom, who takes its place. One that names nobody speaks for itself.
fn told(caller: &mut Caller, judged: &Judged, head: &Bytes) -> Option<String> {
    let fields = head.get(judged.fields.clone()).unwrap_or_default();
    let field = |name: &HeaderName| {
        let line = lines(fields).find(|line| line.is(name))?;
        std::str::from_utf8(line.value).ok().map(str::to_owned)
    };
    if let Some(client) = field(&CLIENT).and_then(|client| client.parse().ok()) {
        (caller.address, caller.peer) = (client, client);
    }
    caller.intercepted = field(&INTERCEPTED).is_some();
    field(&OBJECT)
}

/// Sends a whole answer of the proxy's own.
async fn send(mut client: H2, head: Result<ResponseHead, BadField>, body: String) {
    let Ok(head) = head else { return };
    if client.begin(&head, Bytes::from(body)).await.is_err() || client.end().await.is_err() {
        tracing::debug!("the client left before its page");
    }
}

/// Sends what the client takes at once of such an answer.
fn send_at_once(mut client: H2, head: Result<ResponseHead, BadField>, body: String) {
    let Ok(head) = head else { return };
    if client.begin_at_once(&head, Bytes::from(body)).is_err() {
        tracing::debug!("a client that was refused did not take its page");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of_future<A, F>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    /// Each stream's future is on the heap. What few requests need is boxed, or each hit would copy it.
    #[test]
    fn a_stream_is_small_enough_to_move() {
        type Sending = (SendResponse<Queued>, Queue);
        type Asked = (http::Request<RecvStream>, Instant);
        type All = (Arc<Front>, Asked, Sending, Caller, Option<OwnedSemaphorePermit>);
        let bytes = bytes_of_future(|(front, request, respond, caller, place): All| {
            front.stream(request, respond, caller, place)
        });
        println!("{bytes} bytes");
        assert!(bytes <= 8 * 1024, "{bytes} bytes");
    }
}
