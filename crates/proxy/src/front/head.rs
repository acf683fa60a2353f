//! Reading one request head, within its time, and judging it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Version};
use pingora_http::RequestHeader;
use tinaja_http::control::request_directives;
use tinaja_http::head::{HeadEnd, head_end};
use tinaja_http::judge::{Judged, judge};
use tinaja_http::lines::{header_map, lines};
use tinaja_http::refusal::Refusal;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::Gate;
use crate::exchange::{Request, Ticket};
use crate::failure::Failure;
use crate::front::h2::PREFACE;
use crate::limits::Limits;

/// What came of waiting for a request.
pub(super) enum Arrival {
    /// A head beyond doubt; its bytes are taken from the gate.
    Request { judged: Judged, head: Bytes, began: Instant },
    /// The connection preface of HTTP/2, which is left in the gate.
    Http2,
    /// A head that is refused.
    Refused { refusal: Refusal, began: Instant },
    /// The client left, was idle for too long, or the proxy stops.
    Gone,
}

/// Waits for the next request of a connection, or, where it is its `first`, for one to speak HTTP/2.
pub(super) async fn next_request(
    gate: &mut Gate,
    first: bool,
    limits: &Limits,
    ending: &mut watch::Receiver<bool>,
) -> Arrival {
    if gate.waiting().is_empty() && !first_byte(gate, limits.idle, ending).await {
        return Arrival::Gone;
    }
    let began = Instant::now();
    let whole = async {
        if first && is_http2(gate).await {
            return Ok(Some(None));
        }
        whole_head(gate).await.map(|head| head.map(Some))
    };
    match timeout(limits.head, whole).await {
        Ok(Ok(Some(None))) => Arrival::Http2,
        Ok(Ok(Some(Some(head)))) => match judge(&head) {
            Ok(judged) => Arrival::Request { judged, head, began },
            Err(refusal) => Arrival::Refused { refusal, began },
        },
        Ok(Ok(None)) => Arrival::Gone,
        Ok(Err(refusal)) => Arrival::Refused { refusal, began },
        Err(_) => Arrival::Refused { refusal: Refusal::TooSlow, began },
    }
}

/// Whether a byte came before the connection was idle for too long. A proxy that stops does not wait.
async fn first_byte(gate: &mut Gate, idle: Duration, ending: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        biased;
        read = timeout(idle, gate.read_more()) => matches!(read, Ok(Ok(1..))),
        _ = ending.wait_for(|ending| *ending) => false,
    }
}

/// Whether the first bytes are the connection preface; reads no more than it takes to know. `PRI * HTTP/2.0` with
/// anything else behind it is left to the judge.
async fn is_http2(gate: &mut Gate) -> bool {
    while gate.waiting().len() < PREFACE.len() {
        if !PREFACE.starts_with(gate.waiting()) || !matches!(gate.read_more().await, Ok(1..)) {
            return false;
        }
    }
    gate.waiting().starts_with(PREFACE)
}

/// Reads until the head is whole and takes it from the gate; nothing if the client leaves before.
async fn whole_head(gate: &mut Gate) -> Result<Option<Bytes>, Refusal> {
    let mut seen = 0;
    loop {
        if let HeadEnd::At { start, end } = head_end(gate.waiting(), seen)? {
            let head = Bytes::copy_from_slice(gate.waiting().get(start..end).unwrap_or_default());
            gate.drop_waiting(end);
            return Ok(Some(head));
        }
        seen = gate.waiting().len();
        match gate.read_more().await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return Ok(None),
        }
    }
}

/// The request that was judged, with a path for a target and the one Host. Also its fields as they came, those for
/// this hop among them.
pub(super) fn request_of(judged: &Judged, head: &Bytes, ticket: Ticket) -> Result<(HeaderMap, Request), Failure> {
    let malformed = |_: Box<pingora_error::Error>| Failure::BadRequest;
    let fields = head.slice(judged.fields.clone());
    let came = header_map(&fields, |_| true).ok_or(Failure::BadRequest)?;
    let size = came.len() + 4;
    let mut made =
        RequestHeader::build(judged.method.as_str(), ticket.path.as_bytes(), Some(size)).map_err(malformed)?;
    made.insert_header("Host", ticket.host.as_str()).map_err(malformed)?;
    for line in lines(&fields).filter(|line| !line.is(&HOST)) {
        let value = HeaderValue::from_maybe_shared(fields.slice_ref(line.value)).map_err(|_| Failure::BadRequest)?;
        made.append_header(fields.slice_ref(line.name), value).map_err(malformed)?;
    }
    let version = if judged.http11 { Version::HTTP_11 } else { Version::HTTP_10 };
    let directives = request_directives(&came);
    Ok((came, Request { ticket: Arc::new(ticket), head: made, version, directives }))
}

#[cfg(test)]
mod tests {
    use tinaja_http::judge::judge;

    use super::*;
    use crate::config::Listener;
    use crate::ids::RequestId;
    use crate::origin::Destination;

    #[test]
    fn one_host() {
        let head = Bytes::from_static(b"GET http://A:80/x HTTP/1.1\r\nHOST: a\r\nX: y\r\nHosted: z\r\n\r\n");
        let judged = judge(&head).unwrap();
        let ticket = Ticket {
            id: RequestId::Made(1),
            began: Instant::now(),
            client: None,
            listener: Arc::new(Listener::forward("127.0.0.1:80".parse().unwrap())),
            destination: Destination { tls: false, host: "a".into(), port: 80 },
            behind: None,
            tls: false,
            host: "a".into(),
            path: "/x".into(),
            url: String::new(),
            framing: judged.framing,
        };
        let (_, request) = request_of(&judged, &head, ticket).unwrap();
        assert_eq!((request.head.raw_path(), request.version), (&b"/x"[..], Version::HTTP_11));
        let mut wire = Vec::new();
        request.head.header_to_h1_wire(&mut wire);
        assert_eq!(wire, b"Host: a\r\nX: y\r\nHosted: z\r\n");
    }
}
