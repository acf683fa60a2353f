//! The address where figures and health are asked for, by HTTP: `/metrics`, `/healthz`, `/readyz`.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tinaja_http::judge::{Target, judge};
use tinaja_store::Stats;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::yield_now;

use crate::accepting::Recovery;
use crate::admin::{Describe, of_cluster};
use crate::crowd::Crowd;
use crate::guests::Guests;
use crate::latest;
use crate::metrics::{of_clients, of_origins};
use crate::origin::Origins;
use crate::shared::Shared;
use crate::storage::Storage;

/// Connections at a time. One more takes the place of the one that has been there longest.
const MOST_AT_ONCE: usize = 64;
/// The longest question, in bytes.
const MOST_REQUEST_BYTES: usize = 8 * 1024;
/// Whoever has connected has this long to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who answers.
pub(crate) struct MetricsServer {
    pub shared: Arc<Shared>,
    pub storage: Storage,
    pub crowd: Crowd,
    pub origins: Arc<Origins>,
    /// Who knows of a cluster.
    pub cluster: Option<Describe>,
    /// Whether the proxy stops.
    pub stopping: watch::Receiver<bool>,
}

impl MetricsServer {
    /// Answers until it is dropped.
    pub async fn open(self, listener: TcpListener) {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::warn!(%error, "nobody can ask for metrics"),
        };
        let (server, guests) = (Arc::new(self), Guests::new(MOST_AT_ONCE));
        let mut recovery = Recovery::default();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    recovery.after(&server.shared.clock, error).await;
                    continue;
                }
            };
            let (server, mut guest) = (server.clone(), guests.enter());
            server.shared.clock.clone().start(async move {
                // Who leaves early, or asks for nothing in time, gets nothing.
                let _ = guest.unless_needed(server.shared.clock.timeout(PATIENCE, server.serve(stream))).await;
            });
            // Its question is heard before a burst of others takes its place.
            yield_now().await;
        }
    }

    async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && head.len() < MOST_REQUEST_BYTES {
            let mut some = [0; 1024];
            match stream.read(&mut some).await? {
                0 => break,
                read => head.extend_from_slice(some.get(..read).unwrap_or_default()),
            }
        }
        let (status, kind, body) = self.answer(&head).await;
        let no_body = head.starts_with(b"HEAD ");
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await?;
        if !no_body {
            stream.write_all(&body).await?;
        }
        stream.shutdown().await
    }

    async fn answer(&self, head: &[u8]) -> (&'static str, &'static str, Vec<u8>) {
        const TEXT: &str = "text/plain; charset=utf-8";
        let text = |status, text: &str| (status, TEXT, format!("{text}\n").into_bytes());
        let Ok(judged) = judge(head) else { return text("400 Bad Request", "the request is malformed") };
        if !matches!(judged.method.as_str(), "GET" | "HEAD") {
            return text("405 Method Not Allowed", "there is nothing here but to read");
        }
        let path = match &judged.target {
            Target::Origin(path) | Target::Absolute { path, .. } => path.split('?').next().unwrap_or_default(),
            _ => "",
        };
        match path {
            "/metrics" => {
                let stats = self.storage.stats();
                let metrics = self.shared.metrics.as_ref();
                let shared = &self.shared;
                let of_bans = shared.bans.families();
                let clients = of_clients(&shared.held, &shared.clients, &shared.quotas);
                let of_clock = latest::families(&shared.clock);
                let of_cluster = of_cluster(self.cluster.as_ref(), &shared.clock).await;
                let of_origins = of_origins(&self.origins);
                let kept = || [shared.log.families(), clients, of_origins, of_bans, of_clock, of_cluster].concat();
                match metrics.map(|metrics| metrics.text(&stats, self.crowd.present(), kept())) {
                    Some(Ok(figures)) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", figures),
                    _ => text("500 Internal Server Error", "the figures cannot be written"),
                }
            }
            // It runs. Less than well is no reason to end it: what is stored on the other disks is served on.
            "/healthz" => text("200 OK", &health(&self.storage.stats(), self.shared.clock.behind())),
            "/readyz" if *self.stopping.borrow() => text("503 Service Unavailable", "stopping"),
            "/readyz" => text("200 OK", "ready"),
            _ => text("404 Not Found", "there are /metrics, /healthz and /readyz"),
        }
    }
}

/// Whether all of the store is in use, and the clock is right as far as anybody knows, in words.
/// A clock that is less behind is no fault: it is so much off at a start already where another steers it.
const FAR_BEHIND: Duration = Duration::from_secs(60);

fn health(stats: &Stats, behind: Duration) -> String {
    let faults = [
        (stats.disks_retired, "of the disks fail and are written to no more"),
        (stats.engines_stopped, "of the engines found themselves broken; restart, and report what the log says"),
    ];
    let faults = faults.iter().filter(|(count, _)| *count > 0).map(|(count, of)| format!("{count} {of}"));
    let seconds = behind.as_secs();
    let of_clock = (behind >= FAR_BEHIND).then(|| {
        format!(
            "the system's clock is {seconds} s behind the time at which the cache was written to, which counts instead"
        )
    });
    let faults: Vec<_> = faults.chain(of_clock).collect();
    if faults.is_empty() { "ok".into() } else { format!("degraded: {}", faults.join("; ")) }
}
