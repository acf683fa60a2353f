//! The address where figures and health are asked for, by HTTP: `/metrics`, `/healthz`, `/readyz`; and `/purge`, for whoever has credentials.

mod purge;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tinaja_http::judge::{Judged, Target, judge};
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
pub(crate) use purge::{CarryOut, Purger};

/// Connections at a time. One more takes the place of the one that has been there longest.
const MOST_AT_ONCE: usize = 64;
/// The longest question, in bytes.
const MOST_REQUEST_BYTES: usize = 8 * 1024;
/// Whoever has connected has this long to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a text is.
const TEXT: &str = "text/plain; charset=utf-8";

/// Who answers.
pub(crate) struct MetricsServer {
    pub shared: Arc<Shared>,
    pub storage: Storage,
    pub crowd: Crowd,
    pub origins: Arc<Origins>,
    /// Who knows of a cluster.
    pub cluster: Option<Describe>,
    /// Who purges, if somebody may ask for that here.
    pub purger: Option<Purger>,
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
                let serving = server.shared.clock.timeout(PATIENCE, server.serve(stream));
                let Some(Ok(Ok(Some((form, stream))))) = guest.unless_needed(serving).await else { return };
                // What was asked for is done, however many others come meanwhile.
                drop(guest);
                server.purge(&form, stream).await;
            });
            // Its question is heard before a burst of others takes its place.
            yield_now().await;
        }
    }

    /// Answers a question, but for a purge: its form comes back, and where to answer.
    async fn serve(&self, mut stream: TcpStream) -> io::Result<Option<(Vec<u8>, TcpStream)>> {
        let (mut head, mut end) = (Vec::new(), None);
        while end.is_none() && head.len() < MOST_REQUEST_BYTES {
            if read_some(&mut stream, &mut head).await? == 0 {
                break;
            }
            end = head.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        }
        let mut form = end.map_or(Vec::new(), |end| head.split_off(end));
        if let (Some(purger), Ok(judged)) = (&self.purger, judge(&head))
            && path_of(&judged) == purge::PATH
        {
            let length = match purger.form_bytes(&head, &judged) {
                Ok(length) => length,
                Err((status, why)) => {
                    say(&mut stream, status, TEXT, format!("{why}\n").as_bytes(), false).await?;
                    return Ok(None);
                }
            };
            while form.len() < length && read_some(&mut stream, &mut form).await? > 0 {}
            form.truncate(length);
            return Ok((form.len() == length).then_some((form, stream)));
        }
        let (status, kind, body) = self.answer(&head).await;
        say(&mut stream, status, kind, &body, head.starts_with(b"HEAD ")).await?;
        Ok(None)
    }

    /// Takes back what a form names, and answers.
    async fn purge(&self, form: &[u8], mut stream: TcpStream) {
        let Some(purger) = &self.purger else { return };
        let (status, text) = purger.purge(form).await;
        // Whoever has left has had its purge.
        let _ = self.shared.clock.timeout(PATIENCE, say(&mut stream, status, TEXT, text.as_bytes(), false)).await;
    }

    async fn answer(&self, head: &[u8]) -> (&'static str, &'static str, Vec<u8>) {
        let text = |status, text: &str| (status, TEXT, format!("{text}\n").into_bytes());
        let Ok(judged) = judge(head) else { return text("400 Bad Request", "the request is malformed") };
        if !matches!(judged.method.as_str(), "GET" | "HEAD") {
            return text("405 Method Not Allowed", "there is nothing here but to read");
        }
        match path_of(&judged) {
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

/// What is asked for, without its query.
fn path_of(judged: &Judged) -> &str {
    match &judged.target {
        Target::Origin(path) | Target::Absolute { path, .. } => path.split('?').next().unwrap_or_default(),
        _ => "",
    }
}

async fn read_some(stream: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<usize> {
    let mut some = [0; 1024];
    let read = stream.read(&mut some).await?;
    into.extend_from_slice(some.get(..read).unwrap_or_default());
    Ok(read)
}

/// Answers, and ends the connection.
async fn say(stream: &mut TcpStream, status: &str, kind: &str, body: &[u8], no_body: bool) -> io::Result<()> {
    let (length, unknown) = (body.len(), status.starts_with("401"));
    let challenge = if unknown { "WWW-Authenticate: Bearer, Basic realm=\"tinaja\"\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{challenge}Cache-Control: no-store\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    if !no_body {
        stream.write_all(body).await?;
    }
    stream.shutdown().await
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
