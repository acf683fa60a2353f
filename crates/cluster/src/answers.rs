//! What a node answers its neighbours: reads of its memory, messages, gossip, removals and what its program says, each as `links` asks for it.
//!
//! Reads are answered by the connection's task. The node's own thread does not take part.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Method, Request, Response, StatusCode};
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tinaja_clock::Clock;
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::arena::{Arena, copy};
use crate::comers::Comers;
use crate::inbox::{Came, Inbox};
use crate::lent::Lending;
use crate::limits::{
    MAX_CALL_BYTES, MAX_CONNECTIONS, MAX_GOSSIP_BYTES, MAX_MESSAGE_BYTES, MAX_REMOVAL_BYTES, MAX_STREAMS,
};
use crate::links::{FROM, LENDS, STILLS, collect};
use crate::packed;
use crate::tls::FETCH;
use tinaja_store::{Key, Pending, Store};

/// How long a neighbour may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a connection may bring no request.
const IDLE: Duration = Duration::from_secs(60);
/// How long it may take nothing of an answer.
const STALL: Duration = Duration::from_secs(5);
/// How long this node's program may take to answer one of another node's.
const ANSWER: Duration = Duration::from_secs(10);
/// How often a full inbox is tried again.
const FULL: Duration = Duration::from_millis(1);
/// When the system has no sockets left, after how long to try again.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// How often it is looked whether more of a first message has come.
const PEEK: Duration = Duration::from_millis(5);
/// Bytes of ciphertext that are read at once: a record has up to 16 KiB.
const READ_BYTES: usize = 16 * 1024;
const STREAM_BYTES: u32 = 1 << 20;
const CONNECTION_BYTES: u32 = 8 << 20;
const WORD: u64 = 8;

/// Has a node forget a key in its own memory.
pub type Forget = Box<dyn Fn(&Key) -> Pending<()> + Send + Sync>;

/// What a node answers from.
pub struct Answers<A, C> {
    /// The memory that it lends.
    pub arena: A,
    /// The largest part of it that is read at once.
    pub most_bytes: usize,
    /// What others are told of it, if they may read it without help.
    pub lending: Option<Arc<Lending>>,
    /// Where messages go.
    pub inbox: Arc<Inbox<C>>,
    /// Where gossip goes, with where its answer is to go.
    pub gossip: mpsc::Sender<(SocketAddr, Bytes)>,
    /// What is removed from.
    pub below: Arc<dyn Store>,
    /// Has the node forget a key; ready when it has.
    pub forget: Forget,
    /// Who is told of what else they want.
    pub comers: Comers,
    /// How much may be said to the program at once: [`crate::limits::MAX_CALLS_AT_ONCE`].
    pub turns: Semaphore,
    /// Its clock.
    pub clock: Clock,
}

impl<A: Arena + 'static, C: Send + 'static> Answers<A, C> {
    /// Answer whoever connects, until this is dropped.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, tls: Arc<ServerConfig>) {
        let (acceptor, room) = (TlsAcceptor::from(tls), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(seat) = room.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, from)) => {
                    let (own, acceptor) = (self.clone(), acceptor.clone());
                    connections.spawn(async move {
                        if let Err(why) = own.connection(stream, from, acceptor).await {
                            tracing::debug!(%from, why, "a connection from a node of the cluster has ended");
                        }
                        drop(seat);
                    });
                }
                Err(_) => self.clock.timer(EXHAUSTED).await,
            }
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        from: SocketAddr,
        acceptor: TlsAcceptor,
    ) -> Result<(), String> {
        stream.set_nodelay(true).map_err(|cause| cause.to_string())?;
        let shake = async {
            if self.asks_for_objects(&stream).await? {
                let stream = stream.into_std().map_err(|cause| cause.to_string())?;
                // Where many come at once each waits for its turn, within the time for a handshake: whoever is sent away takes this node for dead.
                let visitors = self.comers.visitors.as_ref().ok_or("it asks for objects, and nobody answers here")?;
                visitors
                    .send((stream, from))
                    .await
                    .map_err(|_| "it asks for objects, and nobody takes them up any more")?;
                return Ok(None);
            }
            let stream = BufReader::with_capacity(READ_BYTES, stream);
            let stream = acceptor.accept(stream).await.map_err(|cause| cause.to_string())?;
            let shaken = Builder::new()
                .initial_window_size(STREAM_BYTES)
                .initial_connection_window_size(CONNECTION_BYTES)
                .max_concurrent_streams(MAX_STREAMS)
                .max_header_list_size(4096)
                .handshake::<_, Bytes>(stream);
            shaken.await.map(Some).map_err(|cause| cause.to_string())
        };
        let shaken = self.clock.timeout(HANDSHAKE, shake).await.map_err(|late| late.to_string())??;
        let Some(mut connection) = shaken else { return Ok(()) };
        let mut streams = JoinSet::new();
        loop {
            // A neighbour that is there gossips: one that has gone without a word keeps its seat no longer.
            let accepted = match self.clock.timeout(IDLE, connection.accept()).await {
                Ok(Some(accepted)) => accepted,
                Ok(None) => break,
                Err(_) => return Err("nothing has come for a minute".to_owned()),
            };
            let (request, respond) = accepted.map_err(|cause| cause.to_string())?;
            while streams.try_join_next().is_some() {}
            streams.spawn(self.clone().answer(request, respond));
        }
        Ok(())
    }

    /// Whether that is what the first message says; nothing is taken. Whoever answers such connections shakes hands by itself.
    async fn asks_for_objects(&self, stream: &TcpStream) -> Result<bool, String> {
        let mut room = vec![0; READ_BYTES];
        loop {
            let came = stream.peek(&mut room).await.map_err(|cause| cause.to_string())?;
            let mut first = room.get(..came).unwrap_or_default();
            let is_all = came == 0 || came == room.len();
            let mut acceptor = Acceptor::default();
            acceptor.read_tls(&mut first).map_err(|cause| cause.to_string())?;
            match acceptor.accept() {
                Ok(Some(accepted)) => {
                    return Ok(accepted.client_hello().alpn().is_some_and(|mut all| all.any(|one| one == FETCH)));
                }
                // The handshake says what is wrong.
                Ok(None) if is_all => return Ok(false),
                Err(_) => return Ok(false),
                Ok(None) => self.clock.timer(PEEK).await,
            }
        }
    }

    async fn answer(self: Arc<Self>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let (head, body) = request.into_parts();
        let answer = match (&head.method, head.uri.path()) {
            (&Method::GET, "/memory") => match self.part(head.uri.query().unwrap_or_default()) {
                Some(part) => (StatusCode::OK, part),
                None => (StatusCode::RANGE_NOT_SATISFIABLE, Bytes::new()),
            },
            (&Method::GET, LENDS) => match self.lending.as_ref().and_then(|lending| lending.told(self.clock.now())) {
                Some(told) => {
                    self.inbox.wake();
                    (StatusCode::OK, told)
                }
                None => (StatusCode::NOT_FOUND, Bytes::new()),
            },
            (&Method::GET, STILLS) => match &self.lending {
                Some(lending) => {
                    lending.be_still(self.clock.now());
                    (StatusCode::OK, Bytes::new())
                }
                None => (StatusCode::NOT_FOUND, Bytes::new()),
            },
            (&Method::POST, "/messages") => {
                self.messages(body).await;
                (StatusCode::BAD_REQUEST, Bytes::new())
            }
            (&Method::POST, "/gossip") => {
                let from = head.headers.get(FROM).and_then(|from| from.to_str().ok()?.parse().ok());
                let gossip = self.clock.timeout(STALL, collect(body, MAX_GOSSIP_BYTES)).await.ok().flatten();
                match from.zip(gossip) {
                    Some((from, gossip)) => {
                        // What there is no room for is said again.
                        let _ = self.gossip.try_send((from, gossip.into()));
                        (StatusCode::NO_CONTENT, Bytes::new())
                    }
                    None => (StatusCode::BAD_REQUEST, Bytes::new()),
                }
            }
            (&Method::POST, "/call") => {
                // Nothing of it is read before it is its turn.
                match self.clock.timeout(STALL, self.turns.acquire()).await {
                    Ok(Ok(_turn)) => {
                        match self.clock.timeout(STALL, collect(body, MAX_CALL_BYTES)).await.ok().flatten() {
                            None => (StatusCode::BAD_REQUEST, Bytes::new()),
                            // Whoever asks waits no longer either, and the turn is another's.
                            Some(call) => {
                                match self.clock.timeout(ANSWER, self.called(call.into())).await.ok().flatten() {
                                    Some(said) => (StatusCode::OK, said),
                                    None => (StatusCode::SERVICE_UNAVAILABLE, Bytes::new()),
                                }
                            }
                        }
                    }
                    _ => (StatusCode::SERVICE_UNAVAILABLE, Bytes::new()),
                }
            }
            (&Method::POST, "/remove") => {
                let key = self.clock.timeout(STALL, collect(body, MAX_REMOVAL_BYTES)).await.ok().flatten();
                match key.and_then(|key| packed::key_from_bytes(&key)) {
                    None => (StatusCode::BAD_REQUEST, Bytes::new()),
                    Some(key) => {
                        // A removal does not say for certain whether there was something.
                        let was_there = self.below.find(&key).await.is_some();
                        match self.below.remove(&key).await {
                            Ok(_) => {
                                (self.forget)(&key).await;
                                (StatusCode::OK, Bytes::from_static(if was_there { b"1" } else { b"" }))
                            }
                            Err(why) => {
                                tracing::warn!(%why, "a removal that another node of the cluster asked for failed");
                                (StatusCode::INTERNAL_SERVER_ERROR, Bytes::new())
                            }
                        }
                    }
                }
            }
            _ => (StatusCode::NOT_FOUND, Bytes::new()),
        };
        let (status, mut body) = answer;
        let mut head = Response::new(());
        *head.status_mut() = status;
        let Ok(mut sending) = respond.send_response(head, body.is_empty()) else { return };
        while !body.is_empty() {
            sending.reserve_capacity(body.len());
            match self.clock.timeout(STALL, poll_fn(|cx| sending.poll_capacity(cx))).await {
                Ok(Some(Ok(room))) => {
                    let piece = body.split_to(room.min(body.len()));
                    if sending.send_data(piece, body.is_empty()).is_err() {
                        return;
                    }
                }
                _ => return sending.send_reset(Reason::CANCEL),
            }
        }
    }

    /// What the program answers, if it takes it up.
    async fn called(&self, call: Bytes) -> Option<Bytes> {
        let (reply, answer) = oneshot::channel();
        self.comers.calls.as_ref()?.try_send((call, reply)).ok()?;
        answer.await.ok()
    }

    /// A part of the memory, in whole words.
    fn part(&self, query: &str) -> Option<Bytes> {
        let number = |name: &str| {
            let value = query.split('&').find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
            value?.parse::<u64>().ok()
        };
        let (at, bytes) = (number("at")?, number("bytes")?);
        if bytes > self.most_bytes as u64 || at % WORD != 0 || bytes % WORD != 0 {
            return None;
        }
        let from = usize::try_from(at / WORD).ok()?;
        let words = self.arena.words().get(from..from.checked_add((bytes / WORD) as usize)?)?;
        Some(copy(words).into())
    }

    /// Messages, until there are no more, or one that is none.
    async fn messages(&self, mut body: RecvStream) {
        let mut left = BytesMut::new();
        while let Some(Ok(piece)) = body.data().await {
            left.extend_from_slice(&piece);
            while let Some(length) = left.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize) {
                if length > MAX_MESSAGE_BYTES {
                    return;
                }
                if left.len() < 4 + length {
                    break;
                }
                left.advance(4);
                let mut message = left.split_to(length).to_vec();
                // The neighbour is told to wait by what is not released of its window.
                while let Err(again) = self.inbox.put(Came::Message(message)) {
                    message = again;
                    self.clock.timer(FULL).await;
                }
            }
            let _ = body.flow_control().release_capacity(piece.len());
        }
    }
}
