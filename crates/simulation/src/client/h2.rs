//! HTTP/2: each request is a stream of one connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, HOST};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Answer, Reads, Request};
use crate::network::End;
use crate::random::Random;

/// What all streams together may bring before it is read: a slow reader of one holds up none of the others.
const CONNECTION_BYTES: u32 = 1 << 20;

/// Streams of a connection, which ends with the last of them.
pub struct H2 {
    requests: SendRequest<Bytes>,
    connection: Arc<oneshot::Sender<()>>,
    random: Random,
    /// The proxy takes no more requests here.
    pub was_sent_away: bool,
}

impl H2 {
    /// Begins; `None` if the connection breaks at once.
    pub async fn on(end: End, mut random: Random) -> Option<H2> {
        let mut builder = Builder::new();
        builder.enable_push(false).initial_connection_window_size(CONNECTION_BYTES);
        let (requests, connection) = builder.handshake(end).await.ok()?;
        let (connected, is_over) = oneshot::channel();
        // Some leave in order, others without a word.
        let grace = if random.per_mille(500) { Duration::from_secs(60) } else { Duration::ZERO };
        tokio::spawn(async move {
            let left = async {
                let _ = is_over.await;
                sleep(grace).await;
            };
            tokio::select! {
                biased;
                _ = connection => {}
                () = left => {}
            }
        });
        Some(H2 { requests, connection: Arc::new(connected), random, was_sent_away: false })
    }

    /// Another stream.
    pub fn another(&mut self) -> H2 {
        let (requests, connection) = (self.requests.clone(), self.connection.clone());
        H2 { requests, connection, random: self.random.fork(), was_sent_away: false }
    }

    /// See [`super::Client::ask`].
    pub async fn ask(&mut self, request: &Request, reads: Reads) -> Option<Answer> {
        let answered = self.answered(request).await;
        let failed = |error: h2::Error| {
            self.was_sent_away = error.reason() == Some(Reason::NO_ERROR) && error.is_go_away();
        };
        let (parts, content) = answered.map_err(failed).ok()?.into_parts();
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let fields = parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        let mut answer = Answer { status: parts.status.as_u16(), fields, body: Vec::new(), is_whole: false };
        answer.is_whole = self.body(content, &mut answer.body, reads).await;
        Some(answer)
    }

    async fn answered(&mut self, request: &Request) -> Result<http::Response<RecvStream>, h2::Error> {
        let Request { method, path, fields, body } = request;
        let mut head = http::Request::builder().method(*method).uri(format!("http://site.example{path}"));
        for (name, value) in fields.lines().filter_map(|line| line.split_once(": ")).filter(|(name, _)| *name != HOST) {
            head = head.header(name, value);
        }
        // Some say how much they send, others send until it ends.
        if !body.is_empty() && self.random.per_mille(500) {
            head = head.header(CONTENT_LENGTH, body.len());
        }
        let head = head.body(()).expect("a request");
        let mut requests = self.requests.clone().ready().await?;
        let (answer, mut content) = requests.send_request(head, body.is_empty())?;
        drop(requests);
        if !body.is_empty() {
            content.send_data(body.clone(), true)?;
        }
        answer.await
    }

    /// Whether all of it has come.
    async fn body(&mut self, mut content: RecvStream, into: &mut Vec<u8>, reads: Reads) -> bool {
        loop {
            if matches!(reads, Reads::Until(most) if into.len() >= most && !content.is_end_stream()) {
                return false;
            }
            if let Reads::Slowly(pause) = reads {
                sleep(self.random.millis(0..pause.as_millis() as u64 + 1)).await;
            }
            match content.data().await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(piece)) => {
                    into.extend_from_slice(&piece);
                    let _ = content.flow_control().release_capacity(piece.len());
                }
            }
        }
    }
}
