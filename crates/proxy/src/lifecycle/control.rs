//! The server's side of the socket: reads a request, has it done, answers.
//!
//! An operator's script is enough of a client: it writes one line of JSON and reads one. Bounds on time and number keep a bad
//! client from blocking the others.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tinaja_clock::Clock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::yield_now;

use super::explain::explain;
use super::handover::{Heir, Heirs, PROTOCOL};
use super::reload::Requests;
use crate::accepting::Recovery;
use crate::admin::words::{Answer, Ask, Figures};
use crate::admin::{Describe, Upgrade, Url, purge, purge_by, top_hosts};
use crate::bans::Bans;
use crate::crowd::Crowd;
use crate::current::Current;
use crate::guests::{Guest, Guests};
use crate::nodes::Nodes;
use crate::storage::Storage;
use crate::stored::Families;

/// Connections that have not asked yet. One more takes the place of the one that has been there longest.
const MOST_SILENT: usize = 64;
/// Requests that are worked on at a time; further ones wait for their turn.
const MOST_AT_ONCE: usize = 4;
/// Requests that are worked on or wait; further ones are refused.
const MOST_ASKED: usize = 64;
/// The longest request, in bytes: a URL of the longest kind, escaped, and some.
const MOST_REQUEST_BYTES: u64 = 64 * 1024;
/// Whoever has connected has this long to say what it wants, and to take each answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Hosts are counted for so long at most.
const COUNTING: Duration = Duration::from_secs(30);
/// Hosts in an answer, at most.
const MOST_LISTED: u32 = 10_000;

/// Who answers.
pub(crate) struct ControlServer {
    pub clock: Clock,
    pub storage: Storage,
    /// What was taken back.
    pub bans: Arc<Bans>,
    pub families: Arc<Families>,
    /// Who else hears of what is taken back.
    pub nodes: Option<Arc<Nodes>>,
    pub current: Arc<Current>,
    /// Who reads settings again, if somebody does.
    pub reload: Option<Requests>,
    /// To whom this server is handed over.
    pub heirs: Option<Heirs>,
    /// One hand-over at a time.
    pub handing_over: Arc<Semaphore>,
    /// The cache's directories, as the system knows them.
    pub dirs: Vec<PathBuf>,
    /// Who starts a new process, and what became of it.
    pub upgrade: Upgrade,
    /// Who knows of a cluster.
    pub cluster: Option<Describe>,
}

/// Who is worked on, and who waits for that.
struct Turns {
    asked: Crowd,
    working: Arc<Semaphore>,
}

impl Turns {
    fn new() -> Turns {
        Turns { asked: Crowd::new(MOST_ASKED), working: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }

    /// A turn, when it comes, until it is dropped; none if too many wait already.
    async fn wait(&self) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let place = self.asked.enter()?;
        Some((place, self.working.clone().acquire_owned().await.ok()?))
    }
}

impl ControlServer {
    /// Answers until it is dropped. Nothing that one client does is felt by another, or by the server.
    pub async fn open(self: Arc<Self>, listener: io::Result<std::os::unix::net::UnixListener>) {
        let listener = match listener.and_then(UnixListener::from_std) {
            Ok(listener) => listener,
            Err(error) => return tracing::warn!(%error, "purge and inspect cannot reach this server"),
        };
        let server = self;
        let (guests, turns) = (Guests::new(MOST_SILENT), Arc::new(Turns::new()));
        let mut recovery = Recovery::default();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    recovery.after(&server.clock, error).await;
                    continue;
                }
            };
            let (server, guest, turns) = (server.clone(), guests.enter(), turns.clone());
            server.clock.clone().start(async move {
                if let Err(error) = server.serve(stream, guest, &turns).await {
                    tracing::debug!(%error, "a client of the control socket disconnected early");
                }
            });
            // Its request is heard before a burst of others takes its place.
            yield_now().await;
        }
    }

    async fn serve(&self, mut stream: UnixStream, mut guest: Guest, turns: &Turns) -> io::Result<()> {
        let Some(question) = guest.unless_needed(self.question(&mut stream)).await else { return Ok(()) };
        // Whoever has asked is answered, however many others are silent.
        drop(guest);
        let _telling = self.upgrade.telling();
        let answer = match question {
            Ok(Ask::HandOver { protocol, cache }) => match self.heir(protocol, &cache) {
                Ok((heirs, only)) => {
                    return heirs.send(Heir::new(stream, only, self.clock.clone())).await.map_err(io::Error::other);
                }
                Err(why) => Answer::Failed { why },
            },
            Ok(ask) => match turns.wait().await {
                Some(_turn) => self.answer(ask).await,
                None => Answer::Failed { why: "too many requests wait for this server: try again later".into() },
            },
            Err(why) => Answer::Failed { why },
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        self.clock.timeout(PATIENCE, stream.write_all(&line)).await?
    }

    async fn question(&self, stream: &mut UnixStream) -> Result<Ask, String> {
        let user = stream.peer_cred().map_err(|error| error.to_string())?.uid();
        if user != 0 && user != rustix::process::geteuid().as_raw() {
            return Err("this server is another user's".into());
        }
        let mut line = String::new();
        let mut reader = BufReader::new(stream.take(MOST_REQUEST_BYTES));
        match self.clock.timeout(PATIENCE, reader.read_line(&mut line)).await {
            Ok(Ok(_)) if line.ends_with('\n') => {}
            Ok(Ok(_)) => return Err(format!("a request is one line of at most {MOST_REQUEST_BYTES} bytes")),
            Ok(Err(error)) => return Err(format!("the request cannot be read: {error}")),
            Err(_) => return Err("no request came in time".into()),
        }
        serde_json::from_str(&line).map_err(|error| format!("this server does not know the request: {error}"))
    }

    /// Whether this server may be handed over to whoever asks so, and by whom.
    fn heir(&self, protocol: u32, dirs: &[PathBuf]) -> Result<(&Heirs, OwnedSemaphorePermit), String> {
        if protocol != PROTOCOL {
            return Err(format!(
                "it speaks version {PROTOCOL} of the hand-over, and the new process version {protocol}: stop it, and \
                 then start the new one"
            ));
        }
        if dirs != self.dirs {
            let shown =
                |dirs: &[PathBuf]| dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
            let (own, other) = (shown(&self.dirs), shown(dirs));
            return Err(format!("its cache is in {own}, and the new process was told {other}: name the same ones"));
        }
        let only = self.handing_over.clone().try_acquire_owned();
        let only = only.map_err(|_| "it is handing over to another process already: wait for the end of that")?;
        Ok((self.heirs.as_ref().ok_or("it runs inside another program, which would have to end with it")?, only))
    }

    /// Has the settings read again; the names of those that wait for the next start.
    async fn reload(&self) -> Result<Vec<String>, String> {
        let (done, wait) = oneshot::channel();
        let requests = self.reload.as_ref().ok_or("this server has no settings to read again")?;
        let stopping = "the server is stopping";
        requests.send(done).await.map_err(|_| stopping)?;
        wait.await.map_err(|_| stopping)?
    }

    /// Has done what is asked, and says what came of it.
    pub(super) async fn answer(&self, ask: Ask) -> Answer {
        let failed = |why: String| Answer::Failed { why };
        let store = &self.storage;
        match ask {
            Ask::Purge { url } => match url.parse::<Url>() {
                Ok(url) => match purge(store, (&self.bans, &self.families), &self.current.listeners(), &url).await {
                    Ok(objects) => Answer::Purged { objects },
                    Err(error) => failed(error.to_string()),
                },
                Err(error) => failed(error.to_string()),
            },
            Ask::PurgeBy { what, soft } => {
                let listeners = self.current.listeners();
                match purge_by((&self.bans, self.nodes.as_ref()), &self.clock, &listeners, &what, soft).await {
                    Ok(()) => Answer::PurgedBy,
                    Err(why) => failed(why),
                }
            }
            // Its connection goes another way, and is not for one answer.
            Ask::HandOver { .. } => failed("a hand-over goes on by itself".into()),
            Ask::Reload => match self.reload().await {
                Ok(later) => Answer::Reloaded { later },
                Err(why) => failed(why),
            },
            Ask::Upgrade => match self.upgrade.run().await {
                Ok(process) => Answer::Upgraded { process },
                Err(why) => failed(why),
            },
            Ask::Cluster => {
                let status = match &self.cluster {
                    Some(describe) => describe().await,
                    None => return failed("its configuration has no [cluster]: it serves alone".into()),
                };
                let busy = "its node of the cluster is not there: its log says why, or it is about to stop";
                status.map_or_else(|| failed(busy.into()), |status| Answer::Cluster { status })
            }
            Ask::Explain { url, fields } => {
                let listeners = self.current.listeners();
                match explain((store, &self.bans), &self.clock, &listeners, &url, &fields).await {
                    Ok(ways) => Answer::Explained { ways },
                    Err(why) => failed(why),
                }
            }
            Ask::Inspect { top } => {
                let figures = Box::new(Figures::from(&store.stats()));
                match top {
                    0 => Answer::Inspected { figures, top: None },
                    most => match top_hosts(&**store, most.min(MOST_LISTED) as usize, COUNTING).await {
                        Ok(top) => Answer::Inspected { figures, top: Some(top) },
                        Err(error) => failed(error.to_string()),
                    },
                }
            }
        }
    }
}
