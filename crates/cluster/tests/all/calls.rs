//! What one program says to another's ends, whatever the other does, and holds nothing afterwards. The node goes by a clock that the test moves, so nothing
//! here depends on how busy the machine is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Method, Request, StatusCode};
use rustls::pki_types::ServerName;
use tinaja_cluster::comers::calls;
use tinaja_cluster::limits::MAX_CALLS_AT_ONCE;
use tinaja_cluster::tls::Identity;
use tinaja_cluster::{Comers, Pooled};
use tinaja_store::{Cache, CacheOptions, Clock, ManualClock};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::support::{files, joining};

const SECOND: Duration = Duration::from_secs(1);
/// What has not happened after so much real time will not happen.
const IN_VAIN: Duration = Duration::from_secs(60);

/// A call on its way: its status and what it brings.
type Call = JoinHandle<(StatusCode, Vec<u8>)>;

/// A connection to a node, by another that does nothing of its own accord.
struct Neighbour {
    requests: SendRequest<Bytes>,
    hand: ManualClock,
    connection: JoinHandle<()>,
}

impl Neighbour {
    async fn of(node: &Pooled, hand: ManualClock) -> Neighbour {
        let address = node.node().address();
        let identity = Identity::read(&files(false), "", &Clock::system()).unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::from(address.ip());
        let stream = TlsConnector::from(identity.client).connect(name, stream).await.unwrap();
        let (requests, connection) = Builder::new().handshake::<_, Bytes>(stream).await.unwrap();
        let connection = tokio::spawn(async move { drop(connection.await) });
        Neighbour { requests, hand, connection }
    }

    async fn ask(&mut self, method: Method, path: &str, is_all: bool) -> (ResponseFuture, SendStream<Bytes>) {
        let mut requests = self.requests.clone().ready().await.unwrap();
        let request = Request::builder().method(method).uri(format!("https://node.cluster{path}")).body(()).unwrap();
        requests.send_request(request, is_all).unwrap()
    }

    async fn call(&mut self, said: &'static str) -> Call {
        let (answer, mut sending) = self.ask(Method::POST, "/call", false).await;
        sending.send_data(Bytes::from_static(said.as_bytes()), true).unwrap();
        tokio::spawn(ended(answer))
    }

    /// Moves the node's clock, a second at a time. What was asked before is mostly taken up before the clock moves: a later request has been answered, by
    /// another thread perhaps. What the node gave on it had taken up for certain.
    async fn wait(&mut self, seconds: u32) {
        for _ in 0..seconds {
            let (answer, _) = self.ask(Method::GET, "/memory?at=0&bytes=64", true).await;
            assert_eq!(ended(answer).await.0, StatusCode::OK);
            self.hand.advance(SECOND);
        }
    }

    /// Moves the node's clock until all of these have ended.
    async fn wait_for(&mut self, calls: &[Call]) {
        let began = Instant::now();
        while !calls.iter().all(Call::is_finished) {
            assert!(began.elapsed() < IN_VAIN, "calls do not end, however long they have taken by the node's clock");
            self.wait(1).await;
        }
    }
}

/// How a call ends whose time is over.
async fn end_of(call: Call) -> (StatusCode, Vec<u8>) {
    tokio::time::timeout(IN_VAIN, call).await.expect("a call does not end, and its time is over").unwrap()
}

async fn ended(answer: ResponseFuture) -> (StatusCode, Vec<u8>) {
    let (head, mut body): (_, RecvStream) = answer.await.unwrap().into_parts();
    let mut all = Vec::new();
    while let Some(piece) = body.data().await {
        all.extend_from_slice(&piece.unwrap());
    }
    (head.status, all)
}

/// A program that never answers keeps nobody for ever: whoever has its turn is told after 10 s, whoever waits for a turn after 5 s, and one that does not say what it
/// began to say after 5 s. Then all turns are free again.
#[tokio::test]
async fn calls_that_are_not_answered_end() {
    let hand = ManualClock::new();
    let dir = tempfile::tempdir().unwrap();
    let options = CacheOptions::new(dir.path()).disk_bytes(64 << 20).memory_bytes(0).clock(hand.clock());
    let (tell, mut taken) = calls();
    let comers = Comers { calls: Some(tell), ..Comers::default() };
    let below = Arc::new(Cache::open(options).unwrap());
    let node =
        tokio::task::spawn_blocking(|| Pooled::join(below, joining("node", &[]), comers).unwrap()).await.unwrap();
    let mut neighbour = Neighbour::of(&node, hand).await;
    for _ in 0..2 {
        let (mut silent, mut held) = (Vec::new(), Vec::new());
        for _ in 0..MAX_CALLS_AT_ONCE {
            silent.push(neighbour.call("to nobody").await);
            held.push(taken.recv().await.unwrap().1);
        }
        let one_more = neighbour.call("one too many").await;
        neighbour.wait(4).await;
        assert!(!one_more.is_finished() && silent.iter().all(|call| !call.is_finished()));
        // Its five seconds may have begun a second late. The others' ten are not over, so it ends without a turn.
        neighbour.wait(5).await;
        assert_eq!(end_of(one_more).await, (StatusCode::SERVICE_UNAVAILABLE, Vec::new()));
        assert!(held.iter().all(|answer| !answer.is_closed()), "after nine seconds all are waited for");
        neighbour.wait(2).await;
        for (call, answer) in silent.into_iter().zip(&mut held) {
            assert_eq!(end_of(call).await, (StatusCode::SERVICE_UNAVAILABLE, Vec::new()));
            answer.closed().await;
        }
        assert!(taken.try_recv().is_err(), "what had no turn does not come to the program");
    }
    // As many as there are turns begin to say something, and stop.
    let (mut begun, mut unsaid) = (Vec::new(), Vec::new());
    for _ in 0..MAX_CALLS_AT_ONCE {
        let (answer, sending) = neighbour.ask(Method::POST, "/call", false).await;
        begun.push(tokio::spawn(ended(answer)));
        unsaid.push(sending);
    }
    neighbour.wait(4).await;
    assert!(begun.iter().all(|call| !call.is_finished()));
    neighbour.wait_for(&begun).await;
    for call in begun {
        assert_eq!(end_of(call).await.0, StatusCode::BAD_REQUEST);
    }
    drop(unsaid);
    let answered = neighbour.call("to somebody").await;
    let (said, answer) = taken.recv().await.unwrap();
    assert_eq!(said, "to somebody");
    answer.send(Bytes::from_static(b"heard")).unwrap();
    assert_eq!(end_of(answered).await, (StatusCode::OK, b"heard".to_vec()));
    neighbour.connection.abort();
    drop(neighbour);
    tokio::task::spawn_blocking(move || drop(node)).await.unwrap();
}
