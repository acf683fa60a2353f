//! Requests over HTTP/2 by TLS from one thread, many at once on each connection: for measuring servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Request};
use tokio::runtime;
use tokio::task::JoinSet;

use super::client::Dial;
use crate::client::says_hit;

/// Content that a server may send ahead on a stream and on a connection: what Chromium gives.
const STREAM_WINDOW_BYTES: u32 = 6 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 15 << 20;

/// Whom to ask, and how many requests there are at once.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Where the server listens.
    pub server: SocketAddr,
    /// The server's name, and whose word is taken for it.
    pub name: String,
    /// The file with the authority that the client trusts.
    pub authority: PathBuf,
    /// Connections; each is made anew for a run.
    pub connections: usize,
    /// Requests at once on each.
    pub streams: usize,
}

impl Streams {
    /// Asks for everything, and compares every body with `body`. How many answers say that they are hits.
    ///
    /// Panics at an answer that is not 200 with that body.
    pub fn ask(&self, paths: &[String], body: &[u8]) -> usize {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let work = Arc::new(Work {
            targets: paths.iter().map(|path| format!("https://{}{path}", self.name)).collect(),
            next: AtomicUsize::new(0),
            hits: AtomicUsize::new(0),
            body: Bytes::copy_from_slice(body),
        });
        let dial = Dial::to(self.server, &self.name, &self.authority);
        runtime.block_on(async {
            let mut clients = JoinSet::new();
            for _ in 0..self.connections {
                let stream = dial.connect(b"h2").await.unwrap();
                let mut builder = Builder::new();
                builder
                    .initial_window_size(STREAM_WINDOW_BYTES)
                    .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
                let (sender, connection) = builder.handshake(stream).await.unwrap();
                tokio::spawn(connection);
                for _ in 0..self.streams {
                    clients.spawn(client(sender.clone(), work.clone()));
                }
            }
            while let Some(ended) = clients.join_next().await {
                ended.unwrap();
            }
        });
        work.hits.load(Ordering::SeqCst)
    }
}

/// What is asked for, and what has come of it.
struct Work {
    targets: Vec<String>,
    next: AtomicUsize,
    hits: AtomicUsize,
    body: Bytes,
}

/// One request after the other, until all are made.
async fn client(mut sender: SendRequest<Bytes>, work: Arc<Work>) {
    while let Some(target) = work.targets.get(work.next.fetch_add(1, Ordering::SeqCst)) {
        let request = Request::get(target).header("user-agent", "bench").header("accept", "*/*").body(()).unwrap();
        sender = sender.ready().await.unwrap();
        let (head, mut content) = sender.send_request(request, true).unwrap().0.await.unwrap().into_parts();
        assert_eq!(head.status, 200, "{target}");
        let mut at = 0;
        while let Some(piece) = content.data().await {
            let piece = piece.unwrap();
            content.flow_control().release_capacity(piece.len()).unwrap();
            assert_eq!(work.body.get(at..at + piece.len()), Some(&piece[..]), "another body for {target}");
            at += piece.len();
        }
        assert_eq!(at, work.body.len(), "a short body for {target}");
        work.hits.fetch_add(usize::from(is_hit(&head.headers)), Ordering::SeqCst);
    }
}

fn is_hit(fields: &HeaderMap) -> bool {
    let field = |name: &str| fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    says_hit(field("cache-status")) || field("x-cache-status").eq_ignore_ascii_case("hit")
}
