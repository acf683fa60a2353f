//! Connections to neighbours: HTTP/2 over mutual TLS, one to each address, made when there is something to send.
//!
//! ```text
//! GET  /memory?at=A&bytes=B   so many bytes of the neighbour's memory
//! POST /messages              messages, one after the other, each after its length; the request never ends
//! POST /gossip                who is there; `from` says where an answer goes
//! GET  /lends                 what is needed to read the neighbour's memory without its help
//! GET  /still                 the neighbour is to leave UCX alone for a moment
//! POST /remove                a key that is to be removed from the neighbour's disk
//! POST /call                  what the program says to the neighbour's
//! ```
//!
//! A connection on which something takes too long is given up, and a new one made for what comes next.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Method, Request, StatusCode};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tinaja_clock::Clock;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::limits::{MAX_CALL_ANSWER_BYTES, MAX_LINKS, MAX_QUEUED, MAX_TOLD_BYTES};

/// What is needed to read a neighbour's memory without its help.
pub const LENDS: &str = "/lends";
/// It is to leave UCX alone for a moment.
pub const STILLS: &str = "/still";
/// Where an answer to gossip goes.
pub const FROM: &str = "from";
/// How long a neighbour may take to accept a connection.
const CONNECTING: Duration = Duration::from_secs(2);
/// After a neighbour could not be reached, it is not tried again for so long.
const RETRY: Duration = Duration::from_millis(200);
/// How long it may take no messages.
const STALL: Duration = Duration::from_secs(2);
/// What one stream, and one connection, may bring unasked.
const STREAM_BYTES: u32 = 2 << 20;
const CONNECTION_BYTES: u32 = 16 << 20;

/// Whom to tell what a read has brought.
pub type Tell = Box<dyn FnOnce(Option<Box<[u8]>>) + Send>;

/// What is sent to a neighbour.
pub enum Work {
    /// A message of the protocol's.
    Message(Vec<u8>),
    /// Who is there.
    Gossip(Vec<u8>),
    /// A read; it is not begun after that time. What it brings is told, whatever becomes of it.
    Read {
        /// From this byte on.
        at: u64,
        /// So many.
        bytes: usize,
        /// When nobody waits for it any more.
        until: Instant,
        /// Whom to tell.
        tell: Tell,
    },
    /// A question without more words to it; it is not asked after that time. What is answered is told, whatever becomes of it.
    Ask {
        /// Which.
        path: &'static str,
        /// When nobody waits for it any more.
        until: Instant,
        /// Whom to tell.
        tell: Tell,
    },
    /// Remove this from the disk; whether it was there, if it is gone.
    Remove(Bytes, oneshot::Sender<Option<bool>>),
    /// Say this to the neighbour's program; what that answers.
    Call(Bytes, oneshot::Sender<Option<Bytes>>),
}

impl Work {
    /// It will not be done.
    fn fail(self) {
        match self {
            Work::Read { tell, .. } | Work::Ask { tell, .. } => tell(None),
            Work::Message(_) | Work::Gossip(_) | Work::Remove(..) | Work::Call(..) => {}
        }
    }
}

/// All connections of one node.
#[derive(Clone)]
pub struct Links(Arc<Shared>);

struct Shared {
    tls: Arc<ClientConfig>,
    clock: Clock,
    /// Where this node is reached.
    own: SocketAddr,
    links: Mutex<HashMap<SocketAddr, Link>>,
    lost: AtomicU64,
    runtime: tokio::runtime::Handle,
}

/// The way to one address.
struct Link {
    work: mpsc::Sender<Work>,
    task: JoinHandle<()>,
    is_up: Arc<AtomicBool>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Links {
    /// None yet. They run on this runtime.
    pub fn new(tls: Arc<ClientConfig>, own: SocketAddr, clock: Clock, runtime: tokio::runtime::Handle) -> Links {
        let (links, lost) = (Mutex::default(), AtomicU64::new(0));
        Links(Arc::new(Shared { tls, clock, own, links, lost, runtime }))
    }

    /// Send something to an address. What there is no room for, and what its connection does not take, is lost and counted.
    pub fn send(&self, to: SocketAddr, work: Work) {
        let mut links = self.0.links.lock();
        if !links.contains_key(&to) && links.len() >= MAX_LINKS {
            // Those that were for gossip with nodes that are gone.
            links.retain(|_, link| link.is_up.load(Relaxed));
        }
        let link = match links.get(&to) {
            Some(link) => Some(link),
            None if links.len() >= MAX_LINKS => None,
            None => {
                links.insert(to, self.start(to));
                links.get(&to)
            }
        };
        let refused = match link {
            Some(link) => match link.work.try_send(work) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(work) | mpsc::error::TrySendError::Closed(work)) => work,
            },
            None => work,
        };
        drop(links);
        self.0.lost.fetch_add(1, Relaxed);
        refused.fail();
    }

    fn start(&self, to: SocketAddr) -> Link {
        let (work, comes) = mpsc::channel(MAX_QUEUED);
        let is_up = Arc::new(AtomicBool::new(false));
        let way =
            Way { shared: self.0.clone(), to, is_up: is_up.clone(), connection: None, not_before: None, why: None };
        let task = self.0.runtime.spawn(way.run(comes));
        Link { work, task, is_up }
    }

    /// Whether there is a connection to this address.
    pub fn is_up(&self, to: SocketAddr) -> bool {
        self.0.links.lock().get(&to).is_some_and(|link| link.is_up.load(Relaxed))
    }

    /// End the connection to this address.
    pub fn forget(&self, to: SocketAddr) {
        self.0.links.lock().remove(&to);
    }

    /// What was to be sent and was not.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Relaxed)
    }

    /// End all of them.
    pub fn end(&self) {
        self.0.links.lock().clear();
    }
}

/// What a link's task does.
struct Way {
    shared: Arc<Shared>,
    to: SocketAddr,
    is_up: Arc<AtomicBool>,
    connection: Option<Connection>,
    not_before: Option<Instant>,
    /// Why it was not reached the last time.
    why: Option<String>,
}

struct Connection {
    requests: SendRequest<Bytes>,
    messages: SendStream<Bytes>,
    /// Something has taken too long on it, or failed.
    is_broken: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Way {
    async fn run(mut self, mut comes: mpsc::Receiver<Work>) {
        let mut next = comes.recv().await;
        while let Some(work) = next.take() {
            if !self.connect().await {
                self.shared.lost.fetch_add(1, Relaxed);
                work.fail();
                next = comes.recv().await;
                continue;
            }
            if let Work::Message(first) = work {
                // All that wait go together.
                let mut all = BytesMut::new();
                append(&mut all, &first);
                while all.len() < STREAM_BYTES as usize {
                    match comes.try_recv() {
                        Ok(Work::Message(more)) => append(&mut all, &more),
                        Ok(other) => {
                            next = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                self.send_messages(all.freeze()).await;
            } else {
                self.request(work).await;
            }
            if next.is_none() {
                next = comes.recv().await;
            }
        }
    }

    /// Whether there is a connection.
    async fn connect(&mut self) -> bool {
        if self.connection.as_ref().is_some_and(|connection| connection.is_broken.load(Relaxed)) {
            self.connection = None;
        }
        let now = self.shared.clock.now();
        if self.connection.is_none() && self.not_before.is_none_or(|not_before| now >= not_before) {
            let made = self.shared.clock.timeout(CONNECTING, dial(&self.shared, self.to, self.is_up.clone())).await;
            match made.map_err(|late| late.to_string()).and_then(|made| made) {
                Ok(connection) => (self.connection, self.why) = (Some(connection), None),
                Err(why) => {
                    // Once for each reason, and not for each attempt.
                    if self.why.as_ref() != Some(&why) {
                        tracing::warn!(to = %self.to, why, "a node of the cluster cannot be reached");
                        self.why = Some(why);
                    }
                    self.not_before = Some(self.shared.clock.now() + RETRY);
                }
            }
        }
        let is_up = self.connection.is_some();
        self.is_up.store(is_up, Relaxed);
        is_up
    }

    async fn send_messages(&mut self, mut all: Bytes) {
        let Some(connection) = &mut self.connection else { return };
        let messages = &mut connection.messages;
        let sending = async {
            while !all.is_empty() {
                messages.reserve_capacity(all.len());
                match poll_fn(|cx| messages.poll_capacity(cx)).await {
                    Some(Ok(0)) => {}
                    Some(Ok(room)) => messages.send_data(all.split_to(room.min(all.len())), false).map_err(drop)?,
                    Some(Err(_)) | None => return Err(()),
                }
            }
            Ok(())
        };
        if self.shared.clock.timeout(STALL, sending).await != Ok(Ok(())) {
            self.shared.lost.fetch_add(1, Relaxed);
            self.connection = None;
        }
    }

    /// Begin what has an answer. It goes on beside what comes next.
    async fn request(&mut self, work: Work) {
        let Some(connection) = &mut self.connection else { return work.fail() };
        let now = self.shared.clock.now();
        let (method, path, body, patience) = match &work {
            Work::Message(_) => return,
            Work::Read { until, .. } | Work::Ask { until, .. } if *until <= now => return work.fail(),
            Work::Ask { path, until, .. } => (Method::GET, (*path).to_owned(), Bytes::new(), until.duration_since(now)),
            Work::Read { at, bytes, until, .. } => {
                (Method::GET, format!("/memory?at={at}&bytes={bytes}"), Bytes::new(), until.duration_since(now))
            }
            Work::Gossip(body) => (Method::POST, "/gossip".to_owned(), Bytes::copy_from_slice(body), STALL),
            Work::Remove(body, _) => (Method::POST, "/remove".to_owned(), body.clone(), REMOVING),
            Work::Call(body, _) => (Method::POST, "/call".to_owned(), body.clone(), REMOVING),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("https://node.cluster{path}"))
            .header(FROM, self.shared.own.to_string())
            .body(());
        let ready = self.shared.clock.timeout(STALL, poll_fn(|cx| connection.requests.poll_ready(cx))).await;
        let sent = match (request, ready) {
            (Ok(request), Ok(Ok(()))) => connection.requests.send_request(request, body.is_empty()).ok(),
            _ => None,
        };
        let Some((answer, mut sending)) = sent else {
            self.connection = None;
            return work.fail();
        };
        if !body.is_empty() {
            // What is longer than the neighbour takes at once waits in the connection.
            let _ = sending.send_data(body, true);
        }
        let (shared, is_broken) = (self.shared.clone(), connection.is_broken.clone());
        self.shared.clock.start(async move {
            let is_gossip = matches!(work, Work::Gossip(_));
            let most = match &work {
                Work::Read { bytes, .. } => *bytes,
                Work::Ask { .. } => MAX_TOLD_BYTES,
                Work::Remove(..) => 1,
                Work::Call(..) => MAX_CALL_ANSWER_BYTES,
                Work::Message(_) | Work::Gossip(_) => 0,
            };
            let answered = shared.clock.timeout(patience, answered(answer, most)).await;
            // Who reads may be in a hurry, and a disk slow. Gossip is for the connection alone.
            if is_gossip && !matches!(answered, Ok(Some(_))) {
                is_broken.store(true, Relaxed);
            }
            let answered = answered.ok().flatten();
            match work {
                Work::Read { tell, bytes, .. } => tell(answered.filter(|brought| brought.len() == bytes)),
                Work::Ask { tell, .. } => tell(answered),
                // Whoever asked may have gone.
                Work::Call(_, tell) => drop(tell.send(answered.map(Bytes::from))),
                Work::Remove(_, tell) => drop(tell.send(answered.map(|was_there| !was_there.is_empty()))),
                Work::Message(_) | Work::Gossip(_) => {}
            }
        });
    }
}

/// How long a neighbour's disk may take to have something removed, and its program to answer.
pub const REMOVING: Duration = Duration::from_secs(10);

fn append(all: &mut BytesMut, message: &[u8]) {
    all.extend_from_slice(&u32::try_from(message.len()).unwrap_or_default().to_le_bytes());
    all.extend_from_slice(message);
}

async fn dial(shared: &Shared, to: SocketAddr, is_up: Arc<AtomicBool>) -> Result<Connection, String> {
    let stream = TcpStream::connect(to).await.map_err(|cause| cause.to_string())?;
    stream.set_nodelay(true).map_err(|cause| cause.to_string())?;
    let name = ServerName::from(to.ip());
    let stream = TlsConnector::from(shared.tls.clone())
        .connect(name, stream)
        .await
        .map_err(|cause| format!("it is not of the same authority, or does not accept this node: {cause}"))?;
    let (requests, connection) = Builder::new()
        .initial_window_size(STREAM_BYTES)
        .initial_connection_window_size(CONNECTION_BYTES)
        .enable_push(false)
        .handshake::<_, Bytes>(stream)
        .await
        .map_err(|cause| cause.to_string())?;
    let is_broken = Arc::new(AtomicBool::new(false));
    let ended = is_broken.clone();
    let task = shared.clock.start(async move {
        let ending = connection.await;
        tracing::debug!(%to, ?ending, "a connection to a node of the cluster has ended");
        ended.store(true, Relaxed);
        is_up.store(false, Relaxed);
    });
    let request = Request::builder().method(Method::POST).uri("https://node.cluster/messages").body(());
    let mut requests = requests.ready().await.map_err(|cause| cause.to_string())?;
    let request = request.map_err(|cause| cause.to_string())?;
    let (_, messages) = requests.send_request(request, false).map_err(|cause| cause.to_string())?;
    Ok(Connection { requests, messages, is_broken, task })
}

/// What an answer brings, if it is a good one and not too long.
async fn answered(answer: ResponseFuture, most: usize) -> Option<Box<[u8]>> {
    let answer = answer.await.ok()?;
    if !matches!(answer.status(), StatusCode::OK | StatusCode::NO_CONTENT) {
        return None;
    }
    collect(answer.into_body(), most).await
}

/// A body of so many bytes at most.
pub async fn collect(mut body: RecvStream, most: usize) -> Option<Box<[u8]>> {
    let mut all = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.ok()?;
        let _ = body.flow_control().release_capacity(piece.len());
        if all.len() + piece.len() > most {
            return None;
        }
        all.extend_from_slice(&piece);
    }
    Some(all.into_boxed_slice())
}
