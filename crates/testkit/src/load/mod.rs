//! Steady load from many connections, over HTTP/1.1 and HTTP/2 by TLS, in which nothing may fail.
//!
//! Each client asks for one object after the other and compares every byte. It ends a connection only where the server says
//! so, and takes a new one then: whatever else ends early is a failure, also what a browser would silently try again.

mod client;
mod h1;
mod h2;
mod https;
mod streams;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::body::Pattern;
use crate::client::says_hit;
pub use https::Https;
pub use streams::Streams;

/// A request and its answer must be over within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// So many failures are told in words.
const MOST_TOLD: usize = 10;

/// What is asked for, where, and by how many.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the server listens.
    pub server: SocketAddr,
    /// The server's name, and whose word is taken for it.
    pub name: String,
    /// The file with the authority that clients trust.
    pub authority: PathBuf,
    /// Connections over HTTP/1.1.
    pub http1: usize,
    /// Connections over HTTP/2.
    pub http2: usize,
    /// Objects, each of the origin of patterns.
    pub paths: Vec<String>,
    /// Each client waits so long between two requests.
    pub pause: Duration,
}

/// What clients have seen so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests that were answered with the right bytes.
    pub answered: AtomicU64,
    /// Of these, answers that were hits.
    pub hits: AtomicU64,
    /// Answers that passed by the cache.
    pub bypassed: AtomicU64,
    /// Answers that were neither.
    pub others: AtomicU64,
    /// Connections that were made.
    pub connections: AtomicU64,
    /// Requests over HTTP/2 that the server said it had not looked at, when it ended the connection: they were asked again.
    pub again: AtomicU64,
    /// The longest time from a request to the end of its answer.
    pub slowest_us: AtomicU64,
    /// Requests that were not answered as they should be.
    pub failed: AtomicU64,
    told: Mutex<Vec<String>>,
}

/// Clients at work. Dropped, they leave amid what they do.
pub struct Load {
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
    runtime: Runtime,
}

impl Load {
    /// Begins.
    pub fn start(plan: &Plan) -> Load {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (tally, stop) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
        let mut clients = JoinSet::new();
        let dial = Arc::new(client::Dial::new(plan));
        for number in 0..plan.http1 + plan.http2 {
            let (dial, plan) = (dial.clone(), plan.clone());
            let turn = Turn { tally: tally.clone(), stop: stop.clone(), next: number * 7, plan };
            if number < turn.plan.http1 {
                clients.spawn_on(h1::run(dial, turn), runtime.handle());
            } else {
                clients.spawn_on(h2::run(dial, turn), runtime.handle());
            }
        }
        Load { tally, stop, clients, runtime }
    }

    /// What clients have seen so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Waits until so many more requests have been answered; panics if that takes longer than a minute, or one has failed.
    pub fn more(&self, answers: u64) {
        let enough = self.tally.answered.load(Ordering::SeqCst) + answers;
        let until = Instant::now() + Duration::from_secs(60);
        while self.tally.answered.load(Ordering::SeqCst) < enough {
            self.tally.check();
            assert!(Instant::now() < until, "the load stands still: {}", self.tally.figures());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.tally.check();
    }

    /// Lets each client end its request, and gives what all have seen.
    pub fn end(mut self) -> Arc<Tally> {
        self.stop.store(true, Ordering::SeqCst);
        self.runtime.block_on(async { while self.clients.join_next().await.is_some() {} });
        self.tally.clone()
    }
}

impl Tally {
    /// Panics with what failed, if anything has.
    pub fn check(&self) {
        let failed = self.failed.load(Ordering::SeqCst);
        assert_eq!(failed, 0, "{:#?}\n{}", self.told.lock().unwrap(), self.figures());
    }

    /// All figures in a line.
    pub fn figures(&self) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        format!(
            "answered {}, failed {}, hits {}, passed by {}, neither {}, asked again {}, connections {}, slowest {} ms",
            of(&self.answered),
            of(&self.failed),
            of(&self.hits),
            of(&self.bypassed),
            of(&self.others),
            of(&self.again),
            of(&self.connections),
            of(&self.slowest_us) / 1000,
        )
    }
}

/// One client's place in the load.
struct Turn {
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    next: usize,
    plan: Plan,
}

/// An answer as far as the load looks at it.
struct Answer {
    status: u16,
    cache_status: String,
    body: Vec<u8>,
    /// The server ends the connection.
    last: bool,
}

impl Turn {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// What to ask for next.
    fn path(&mut self) -> String {
        self.next += 1;
        self.plan.paths[self.next % self.plan.paths.len()].clone()
    }

    /// Counts what came of a request.
    fn count(&self, path: &str, began: Instant, came: Result<Answer, String>) {
        let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::SeqCst);
        let answer = match came {
            Ok(answer) if answer.status != 200 => return self.fail(path, format!("status {}", answer.status)),
            Ok(answer) => answer,
            Err(why) => return self.fail(path, why),
        };
        let length = path.split('/').nth(1).and_then(|length| length.parse().ok()).unwrap_or(0);
        if answer.body.len() != length || !Pattern::of(path).matches(&answer.body) {
            return self.fail(path, format!("{} bytes that are not the right ones", answer.body.len()));
        }
        add(&self.tally.answered);
        add(match &answer.cache_status {
            status if says_hit(status) => &self.tally.hits,
            status if status.contains("fwd=bypass") => &self.tally.bypassed,
            _ => &self.tally.others,
        });
        let took = began.elapsed().as_micros();
        self.tally.slowest_us.fetch_max(u64::try_from(took).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    fn fail(&self, path: &str, why: String) {
        self.tally.failed.fetch_add(1, Ordering::SeqCst);
        let mut told = self.tally.told.lock().unwrap();
        if told.len() < MOST_TOLD {
            told.push(format!("{path}: {why}"));
        }
    }
}
