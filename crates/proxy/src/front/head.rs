//! Reading one request head, within its time, and judging it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_http::head::{HeadEnd, head_end};
use tinaja_http::judge::{Judged, judge};
use tinaja_http::refusal::Refusal;
use tokio::sync::watch;

use crate::client::Gate;
use crate::front::h2::PREFACE;
use crate::held::{Kept, LetGo};
use crate::shared::Shared;

/// A connection whose last answer is no longer ago is busy, and not idle.
const BUSY: Duration = Duration::from_secs(1);

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
    (gate, kept): (&mut Gate, &mut Kept),
    first: bool,
    shared: &Shared,
    ending: &mut watch::Receiver<bool>,
) -> Arrival {
    if gate.waiting().is_empty() && !first_byte((gate, kept), first, shared, ending).await {
        return Arrival::Gone;
    }
    let began = shared.clock.now();
    let whole = async {
        if first && is_http2(gate, kept).await {
            return Ok(Some(None));
        }
        whole_head(gate, kept).await.map(|head| head.map(Some))
    };
    match shared.clock.timeout(shared.limits.head, whole).await {
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

/// Whether a byte came before the connection was idle for too long, or is let go because others need what it holds. A proxy that
/// stops does not wait.
async fn first_byte(
    (gate, kept): (&mut Gate, &mut Kept),
    first: bool,
    shared: &Shared,
    ending: &mut watch::Receiver<bool>,
) -> bool {
    let is_tight = shared.held.is_tight();
    let busy = if is_tight && !first { Duration::ZERO } else { BUSY.min(shared.limits.idle) };
    let clock = &shared.clock;
    let byte = async {
        let soon = clock.timeout(busy, gate.read_more());
        // Its first request is on its way, so it is let go in its order, and not before all others.
        let soon = if is_tight && first { kept.amid(soon).await } else { Ok(soon.await) };
        match soon {
            Err(LetGo) => false,
            Ok(Ok(read)) => matches!(read, Ok(1..)),
            Ok(Err(_)) => {
                let read = kept.idle(clock.timeout(shared.limits.idle - busy, gate.read_more()));
                matches!(read.await, Ok(Ok(Ok(1..))))
            }
        }
    };
    tokio::select! {
        biased;
        came = byte => came,
        _ = ending.wait_for(|ending| *ending) => false,
    }
}

/// Reads more of a head that is not whole. Whether there was more, and the connection was not let go.
async fn more_of_head(gate: &mut Gate, kept: &mut Kept) -> bool {
    let held = kept.head(gate.waiting_bytes());
    held && matches!(kept.idle(gate.read_more()).await, Ok(Ok(1..)))
}

/// Whether the first bytes are the connection preface; reads no more than it takes to know. `PRI * HTTP/2.0` with
/// anything else behind it is left to the judge.
async fn is_http2(gate: &mut Gate, kept: &mut Kept) -> bool {
    while gate.waiting().len() < PREFACE.len() {
        if !PREFACE.starts_with(gate.waiting()) || !more_of_head(gate, kept).await {
            return false;
        }
    }
    gate.waiting().starts_with(PREFACE)
}

/// Reads until the head is whole and takes it from the gate; nothing if the client leaves before.
async fn whole_head(gate: &mut Gate, kept: &mut Kept) -> Result<Option<Bytes>, Refusal> {
    let mut seen = 0;
    loop {
        if let HeadEnd::At { start, end } = head_end(gate.waiting(), seen)? {
            let head = Bytes::copy_from_slice(gate.waiting().get(start..end).unwrap_or_default());
            gate.drop_waiting(end);
            return Ok(Some(head));
        }
        seen = gate.waiting().len();
        if !more_of_head(gate, kept).await {
            return Ok(None);
        }
    }
}
