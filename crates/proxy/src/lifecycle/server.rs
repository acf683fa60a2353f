//! A proxy with all it needs, before it serves.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::Version;
use tinaja_http::hops::Via;
use tinaja_store::Store as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, watch};

use super::control::ControlServer;
use super::handover::{Heir, Sockets, listen, reserve};
use super::reload::{Reloader, Requests, check, warn};
use crate::access::AccessLog;
use crate::admin::socket::{NAME, Socket};
use crate::admin::{Describe, Successor, Upgrade};
use crate::bans::Bans;
use crate::clients::Clients;
use crate::config::{Config, behind};
use crate::crowd::Crowd;
use crate::current::Current;
use crate::diverted::{Dialled, Diversion, Vouched, take_any_address};
use crate::errors::ServeError;
use crate::exchange::Exchange;
use crate::front::Front;
use crate::held::Held;
use crate::ids::Ids;
use crate::intercept::Rejections;
use crate::latest::Latest;
use crate::limits::LEAST_CLIENT_MEMORY;
use crate::metrics::Metrics;
use crate::mirrors::Credentials;
use crate::neighbours::Neighbours;
use crate::nodes::Nodes;
use crate::quotas::Quotas;
use crate::rules::Own;
use crate::shared::{Shared, unique_name};
use crate::sparing::Sparing;
use crate::storage::{Storage, Switch};
use crate::stored::Prepared;

/// Threads that wait for name servers, or for a cache to open, at most; they exist while there is something to wait for.
const MOST_WAITING: usize = 64;
/// Turns of tasks on a thread before it looks for ready sockets again. A client who asks once waits for so many turns of those who keep it busy.
const TURNS_AT_ONCE: u32 = 24;
/// Ready sockets that a thread takes from the system in one go: half as many come as leave. With more, its own queue of 256 would run over into the
/// one that all threads share, whose turn comes seldom: of a thousand busy clients some waited 180 ms while others were answered in 10.
const EVENTS_AT_ONCE: usize = TURNS_AT_ONCE as usize / 2;

/// A proxy that listens, and does not serve yet.
pub struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) proxy: Proxy,
}

/// What runs on the threads of a [`Server`].
pub(crate) struct Proxy {
    pub(crate) sockets: Sockets,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) crowd: Crowd,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) current: Arc<Current>,
    pub(crate) switch: Arc<Switch>,
    pub(crate) control_server: Arc<ControlServer>,
    /// Who may purge at the address of the metrics.
    pub(crate) purge_credentials: Option<Credentials>,
    /// Where the time is written down, if there is a directory.
    pub(crate) latest: Option<Arc<Latest>>,
    pub(crate) control: Option<Socket>,
    /// Processes that are to take over.
    pub(crate) heirs: mpsc::Receiver<Heir>,
}

/// What a proxy is asked to do from outside, and by whom.
#[derive(Default)]
pub(crate) struct Outside {
    /// Sockets that another process has passed on. Those that the settings do not name are closed.
    pub given: Sockets,
    /// Who reads settings again, if somebody does.
    pub reload: Option<Requests>,
    /// The cache's directories as the system knows them, where it may be handed over.
    pub dirs: Option<Vec<PathBuf>>,
    /// Who starts a process that takes over.
    pub successor: Option<Successor>,
    /// Who knows of a cluster.
    pub cluster: Option<Describe>,
    /// With whom it has one cache.
    pub neighbours: Option<Arc<Neighbours>>,
    /// The other nodes of its cluster.
    pub nodes: Option<Arc<Nodes>>,
}

/// Finds out whether a proxy could listen, before anything is made for it. Errors: as of [`Server::bind`].
pub fn can_listen(config: &Config) -> Result<(), ServeError> {
    let addresses = config.listeners.iter().map(|listener| listener.address).chain(config.metrics);
    // All at once: two listeners can be in each other's way.
    addresses.map(reserve).collect::<Result<Vec<_>, _>>().map(drop)
}

impl Server {
    /// Listens on every address and prepares everything, so that what can go wrong goes wrong now.
    pub fn bind(config: Config, storage: Storage) -> Result<Server, ServeError> {
        let (runtime, switch) = (runtime(&config)?, Switch::holding(storage));
        let (proxy, _) = Proxy::bind(config, switch, Outside::default())?;
        Ok(Server { runtime, proxy })
    }

    /// Where it listens, in the order of the listeners; ports that were given as 0 are the real ones here.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.proxy.addresses
    }
}

impl Proxy {
    /// Listens, over a cache that may come later.
    pub fn bind(config: Config, switch: Arc<Switch>, outside: Outside) -> Result<(Proxy, Reloader), ServeError> {
        let Outside { mut given, reload, dirs, successor, cluster, neighbours, nodes } = outside;
        let clock = switch.clock();
        check(&config, &clock)?;
        warn(&config, &clock);
        let current = Arc::new(Current::load(&config.listeners, clock.wall())?);
        let began = config.clone();
        // What can fail comes before anybody can connect: their connections would end with the process.
        let log = AccessLog::open(config.access_log.as_deref(), config.access_log_format, &clock)
            .map_err(|cause| ServeError::AccessLog { path: config.access_log.unwrap_or_default(), cause })?;
        let counted = config.metrics.map(|_| Metrics::new()).transpose().map_err(io::Error::other)?;
        // Before that, too: whoever finds the proxy listening finds this as well.
        let control = config.control.as_deref().and_then(|dir| control(dir, given.control.take()));
        let known = given.metrics.take().filter(|(told, _)| Some(*told) == config.metrics);
        let metrics = match (config.metrics, known) {
            (Some(told), None) => Some((told, listen(told)?)),
            (_, known) => known,
        };
        let mut place = |told| given.take(told).map_or_else(|| listen(told), Ok);
        let listeners = config.listeners.iter().map(|listener| Ok((listener.address, place(listener.address)?)));
        let listeners: Vec<(SocketAddr, TcpListener)> = listeners.collect::<Result<_, ServeError>>()?;
        for (listener, (address, socket)) in config.listeners.iter().zip(&listeners) {
            if listener.mode.diversion() == Some(Diversion::Tproxy) {
                let refused = |cause| ServeError::Transparent { address: *address, cause };
                take_any_address(socket).map_err(refused)?;
            }
        }
        let addresses = listeners.iter().map(|(_, listener)| listener.local_addr());
        let addresses: Vec<_> = addresses.collect::<Result<_, _>>()?;
        let sockets = Sockets {
            listeners,
            metrics,
            control: control.as_ref().map(|socket| socket.listener.try_clone()).transpose()?,
        };
        let workers = config.workers.max(1);
        let latest = config.control.as_deref().map(|dir| Arc::new(Latest::new(dir, &clock)));
        let bans = Arc::new(Bans::away(config.control.as_deref(), cluster.is_some()));
        if !switch.is_away() {
            bans.take(clock.wall(), switch.saved_epoch());
        }
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            limits: config.limits,
            clients: Clients::new(config.limits.client_connections),
            quotas: Quotas::new(&config.limits, clock.now()),
            held: Held::new(config.limits.client_memory.max(LEAST_CLIENT_MEMORY)),
            via: Via::new(config.name.unwrap_or_else(unique_name)),
            addresses: addresses.clone(),
            own: Arc::new(Own::of_interfaces(clock.clone())),
            log,
            explained: Sparing::new(clock.now()),
            ids: Ids::new(config.request_ids),
            metrics: counted,
            rejections: Rejections::default(),
            vouched: Vouched::default(),
            dialled: Dialled::default(),
            bans,
            families: Arc::default(),
            prepared: Prepared::new(),
            neighbours,
            nodes,
            ending: watch::Sender::new(false),
            leaving: AtomicBool::new(false),
        });
        let crowd = Crowd::new(config.limits.connections);
        let exchange = Arc::new(Exchange::new(shared.clone(), switch.clone(), workers));
        exchange.origins.exchange(exchange.origins.prepare(behind(&began.listeners), &began.trust)?);
        let (come, heirs) = mpsc::channel(1);
        let control_server = Arc::new(ControlServer {
            clock: clock.clone(),
            storage: switch.clone(),
            bans: shared.bans.clone(),
            families: shared.families.clone(),
            nodes: shared.nodes.clone(),
            current: current.clone(),
            reload,
            heirs: dirs.is_some().then_some(come),
            handing_over: Arc::new(Semaphore::new(1)),
            dirs: dirs.unwrap_or_default(),
            upgrade: Upgrade::new(successor, clock),
            cluster,
        });
        let origins = exchange.origins.clone();
        let purge_credentials = began.purge_credentials.clone();
        let reloader = Reloader { shared, current: current.clone(), began, origins };
        let proxy = Proxy {
            sockets,
            addresses,
            crowd,
            exchange,
            current,
            switch,
            control_server,
            purge_credentials,
            latest,
            control,
            heirs,
        };
        Ok((proxy, reloader))
    }

    /// What answers the connections of one of the listeners.
    pub(crate) fn front(&self, index: usize) -> Arc<Front> {
        let (exchange, crowd) = (self.exchange.clone(), self.crowd.clone());
        let (shared, current) = (exchange.shared.clone(), self.current.clone());
        let via = shared.via.member(Version::HTTP_11);
        Arc::new(Front { shared, current, index, exchange, crowd, via })
    }
}

/// Threads for requests, and for waiting for name servers.
pub(crate) fn runtime(config: &Config) -> Result<Runtime, ServeError> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(config.workers.max(1))
        .max_blocking_threads(MOST_WAITING)
        .max_io_events_per_tick(EVENTS_AT_ONCE)
        .event_interval(TURNS_AT_ONCE)
        .thread_name("proxy")
        .enable_all()
        .build()?;
    Ok(runtime)
}

/// The socket for [`crate::admin`]: the one that was passed on, or a new one. Without it the proxy serves all the same.
fn control(dir: &Path, given: Option<std::os::unix::net::UnixListener>) -> Option<Socket> {
    let made = match given {
        Some(listener) => Socket::passed_on(listener, dir),
        None => Socket::make(dir),
    };
    match made {
        Ok(socket) => Some(socket),
        Err(error) => {
            let path = dir.join(NAME);
            tracing::warn!(path = %path.display(), %error, "cannot create the control socket; purge and inspect cannot reach this server");
            None
        }
    }
}

/// Of a thousand clients that asked again as soon as they were answered, half were answered in 10 ms and some in 180, where nginx answers all in 33.
/// Those that had just had a turn had the next one first.
#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::task::Poll;

    use tokio::net::UdpSocket;
    use tokio::sync::Barrier;
    use tokio::task::JoinSet;

    use super::*;

    const SOCKETS: usize = 600;
    const TURNS: u32 = 50;

    /// Takes turns as long as there are any: a message to itself is all that a socket waits for.
    async fn take_turns(left: &AtomicU32, all_are_there: &Barrier) -> u32 {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(socket.local_addr().unwrap()).await.unwrap();
        all_are_there.wait().await;
        let mut taken = 0;
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            assert_eq!(socket.send(b"x").await.unwrap(), 1);
            socket.readable().await.unwrap();
            // Nothing is left of it afterwards, so that the next one is waited for.
            while socket.try_recv(&mut [0; 8]).is_ok() {}
            taken += 1;
        }
        taken
    }

    #[test]
    fn sockets_that_are_always_ready_have_their_turns_one_after_the_other() {
        let runtime = runtime(&Config { workers: 1, ..Config::default() }).unwrap();
        let left = Arc::new(AtomicU32::new(SOCKETS as u32 * TURNS));
        let all_are_there = Arc::new(Barrier::new(SOCKETS));
        let mut tasks = JoinSet::new();
        for _ in 0..SOCKETS {
            let (left, all_are_there) = (left.clone(), all_are_there.clone());
            tasks.spawn_on(async move { take_turns(&left, &all_are_there).await }, runtime.handle());
        }
        let mut taken = runtime.block_on(tasks.join_all());
        taken.sort_unstable();
        let (least, most) = (taken[0], taken[SOCKETS - 1]);
        println!("{TURNS} turns for each of {SOCKETS} sockets: {least} to {most}");
        assert!(most <= 2 * least, "{least} to {most}");
    }

    /// Streams over HTTP/2 came by the thousand, and a hit for somebody else, a millisecond usually, waited for 61 turns of theirs and more: that
    /// is how seldom the runtime looks at sockets by itself while there is anything to do. Here it was 110.
    #[test]
    fn a_socket_is_looked_at_between_the_turns_of_busy_tasks() {
        const BUSY: u32 = 8;
        let runtime = runtime(&Config { workers: 1, ..Config::default() }).unwrap();
        let (turns, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        for _ in 0..BUSY {
            let (turns, over) = (turns.clone(), over.clone());
            runtime.spawn(poll_fn(move |cx| {
                turns.fetch_add(1, Ordering::Relaxed);
                cx.waker().wake_by_ref();
                if over.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
            }));
        }
        let turns_so_far = turns.clone();
        let asks = runtime.spawn(async move {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            socket.connect(socket.local_addr().unwrap()).await.unwrap();
            let mut longest = 0;
            for _ in 0..200 {
                let began = turns_so_far.load(Ordering::Relaxed);
                assert_eq!(socket.send(b"x").await.unwrap(), 1);
                socket.readable().await.unwrap();
                while socket.try_recv(&mut [0; 8]).is_ok() {}
                longest = longest.max(turns_so_far.load(Ordering::Relaxed) - began);
            }
            longest
        });
        let longest = runtime.block_on(asks).unwrap();
        over.store(true, Ordering::Relaxed);
        println!("after {longest} turns of others at the latest");
        assert!(longest <= 2 * TURNS_AT_ONCE, "{longest} turns of others");
    }
}
