//! Reading one request head, within its time, and judging it.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pingora_core::server::ShutdownWatch;
use tinaja_http::authority::Authority;
use tinaja_http::head::{HeadEnd, head_end};
use tinaja_http::judge::{Judged, judge};
use tinaja_http::refusal::Refusal;
use tokio::time::timeout;

use super::gate::Gate;
use crate::config::Limits;

/// What came of waiting for a request.
pub(super) enum Arrival {
    /// A head beyond doubt; its bytes are taken from the gate.
    Request { judged: Judged, head: Bytes, began: Instant },
    /// A head that is refused.
    Refused { refusal: Refusal, began: Instant },
    /// The client left, was idle for too long, or the proxy stops.
    Gone,
}

/// Waits for the next request of a connection.
pub(super) async fn next_request(gate: &mut Gate, limits: &Limits, shutdown: &mut ShutdownWatch) -> Arrival {
    if gate.waiting().is_empty() && !first_byte(gate, limits.idle, shutdown).await {
        return Arrival::Gone;
    }
    let began = Instant::now();
    match timeout(limits.head, whole_head(gate)).await {
        Ok(Ok(Some(head))) => match judge(&head) {
            Ok(judged) => Arrival::Request { judged, head, began },
            Err(refusal) => Arrival::Refused { refusal, began },
        },
        Ok(Ok(None)) => Arrival::Gone,
        Ok(Err(refusal)) => Arrival::Refused { refusal, began },
        Err(_) => Arrival::Refused { refusal: Refusal::TooSlow, began },
    }
}

/// Whether a byte came before the connection was idle for too long. A proxy that stops does not wait.
async fn first_byte(gate: &mut Gate, idle: Duration, shutdown: &mut ShutdownWatch) -> bool {
    tokio::select! {
        biased;
        read = timeout(idle, gate.read_more()) => matches!(read, Ok(Ok(1..))),
        _ = shutdown.wait_for(|stopping| *stopping) => false,
    }
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

/// The head as Pingora gets it: with a path for a target, and the one Host that was judged.
pub(super) fn canonical(judged: &Judged, head: &[u8], path: &str, host: &Authority, default_port: u16) -> Bytes {
    let fields = head.get(judged.fields.clone()).unwrap_or_default();
    let host = host.host_field(default_port);
    let version = if judged.http11 { "HTTP/1.1" } else { "HTTP/1.0" };
    let mut out = BytesMut::with_capacity(head.len() + path.len() + host.len() + 32);
    for part in [judged.method.as_str(), " ", path, " ", version, "\r\nHost: ", &host, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    for line in fields.split_inclusive(|byte| *byte == b'\n') {
        let is_host = line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"host:"));
        if !is_host {
            out.extend_from_slice(line);
        }
    }
    out.extend_from_slice(b"\r\n");
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host() {
        let head = b"GET http://A:80/x HTTP/1.1\r\nHOST: a\r\nX: y\r\nHosted: z\r\n\r\n";
        let judged = judge(head).unwrap();
        let host = judged.authority.clone().unwrap();
        let out = canonical(&judged, head, "/x", &host, 80);
        assert_eq!(out, &b"GET /x HTTP/1.1\r\nHost: a\r\nX: y\r\nHosted: z\r\n\r\n"[..]);
        let head = b"GET /x HTTP/1.0\r\n\r\n";
        let out = canonical(&judge(head).unwrap(), head, "/x", &Authority::parse(b"[::1]:81").unwrap(), 80);
        assert_eq!(out, &b"GET /x HTTP/1.0\r\nHost: [::1]:81\r\n\r\n"[..]);
    }
}
