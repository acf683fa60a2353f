//! A client over HTTP/2.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::Request;
use tokio::time::{sleep, timeout};

use super::client::Dial;
use super::{Answer, PATIENCE, Turn};

/// Asks until it is over.
pub async fn run(dial: Arc<Dial>, mut turn: Turn) {
    let mut connection: Option<SendRequest<Bytes>> = None;
    while !turn.is_over() {
        let (path, began) = (turn.path(), Instant::now());
        // A connection that the server has said it ends takes no request: that is found before one is sent.
        let ready = match connection.take() {
            Some(kept) => kept.ready().await.ok(),
            None => None,
        };
        let mut asked = timeout(PATIENCE, ask(&dial, &turn, ready, &path)).await;
        if matches!(&asked, Ok(Err(error)) if is_untouched(error)) {
            turn.tally.again.fetch_add(1, Ordering::SeqCst);
            asked = timeout(PATIENCE, ask(&dial, &turn, None, &path)).await;
        }
        let came = match asked {
            Ok(Ok((answer, kept))) => {
                connection = Some(kept);
                Ok(answer)
            }
            Ok(Err(error)) => Err(format!("HTTP/2: {error}")),
            Err(_) => Err("HTTP/2: no answer in time".into()),
        };
        turn.count(&path, began, came);
        sleep(turn.plan.pause).await;
    }
}

/// Whether the server has said that it did not look at this request, and that the connection ends in peace: whoever speaks
/// HTTP/2 then asks again elsewhere (RFC 9113 6.8). It happens where the request was written behind the answer to the
/// server's last PING.
fn is_untouched(error: &io::Error) -> bool {
    let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<h2::Error>()) else { return false };
    error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
}

async fn ask(
    dial: &Dial,
    turn: &Turn,
    ready: Option<SendRequest<Bytes>>,
    path: &str,
) -> io::Result<(Answer, SendRequest<Bytes>)> {
    let request = Request::get(format!("https://{}{path}", turn.plan.name)).body(()).unwrap();
    let sent =
        ready.and_then(|mut sender| match sender.send_request(request.clone(), true).map_err(io::Error::other) {
            // Told to end in this very moment: nothing was sent.
            Err(error) if is_untouched(&error) => None,
            sent => Some(sent.map(|(answer, _)| (answer, sender))),
        });
    let (answer, sender) = match sent {
        Some(sent) => sent?,
        None => {
            turn.tally.connections.fetch_add(1, Ordering::SeqCst);
            let stream = dial.connect(b"h2").await?;
            let (sender, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
            tokio::spawn(connection);
            let mut sender = sender.ready().await.map_err(io::Error::other)?;
            (sender.send_request(request, true).map_err(io::Error::other)?.0, sender)
        }
    };
    let (head, mut content) = answer.await.map_err(io::Error::other)?.into_parts();
    let cache_status = head.headers.get("cache-status").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut body = Vec::new();
    while let Some(piece) = content.data().await {
        let piece = piece.map_err(io::Error::other)?;
        let _ = content.flow_control().release_capacity(piece.len());
        body.extend_from_slice(&piece);
    }
    let answer = Answer { status: head.status.as_u16(), cache_status: cache_status.to_owned(), body, last: false };
    Ok((answer, sender))
}
