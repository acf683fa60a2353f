//! Serving, until it is stopped or handed over.

use std::sync::Arc;
use std::time::Duration;

use tinaja_store::{Clock, OpenError, trim_heap};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::handover::{Predecessor, Sockets};
use super::passing::Left;
use super::server::{Proxy, Server};
use crate::accepting::NO_FILES;
use crate::errors::TakeOverError;
use crate::forgetting::keep_forgetting;
use crate::front::visits;
use crate::held::Held;
use crate::monitoring::{CarryOut, MetricsServer, Purger};
use crate::nodes::{answer_nodes, keep_meeting};
use crate::origin::check_all;
use crate::storage::Opener;

/// What accepts connections at this moment. Dropped, it answers no more about metrics, and checks no origins.
pub(super) struct Accepting {
    stopping: watch::Sender<bool>,
    listeners: JoinSet<()>,
    _beside: JoinSet<()>,
}

impl Accepting {
    /// Accepts no more. Connections that there are learn of it, and go on to their end.
    pub(super) async fn stop(&mut self) {
        // Nobody listening means that the service has ended already.
        let _ = self.stopping.send(true);
        while self.listeners.join_next().await.is_some() {}
    }
}

impl Server {
    /// Serves until `stop` returns, and then ends requests in progress within `limits.stop`, or when `stop`, called
    /// once more, returns again. Nothing uses the storage when this returns.
    pub fn run(self, stop: impl AsyncFnMut()) {
        let nothing: Opener = Arc::new(|| Err(OpenError::Setting("there is nothing to open".into())));
        if let Err(error) = self.run_after(None, &nothing, Box::new(|_| ()), stop) {
            tracing::error!(%error, "the proxy stopped");
        }
    }

    /// The same, or until another process has taken over. Where there is a predecessor, its cache is taken over first,
    /// while requests pass by.
    ///
    /// Errors: [`TakeOverError`], when what was to be taken over could not be.
    pub(crate) fn run_after(
        self,
        predecessor: Option<Predecessor>,
        open: &Opener,
        on_handed_over: Box<dyn FnOnce(u32) + Send>,
        mut stop: impl AsyncFnMut(),
    ) -> Result<(), TakeOverError> {
        let Server { runtime, mut proxy } = self;
        let ended = runtime.block_on(proxy.live(predecessor, open, on_handed_over, &mut stop));
        drop(proxy);
        runtime.shutdown_timeout(Duration::from_secs(1));
        ended
    }
}

impl Proxy {
    async fn live(
        &mut self,
        predecessor: Option<Predecessor>,
        open: &Opener,
        on_handed_over: Box<dyn FnOnce(u32) + Send>,
        stop: &mut impl AsyncFnMut(),
    ) -> Result<(), TakeOverError> {
        let mut accepting = self.accept().await;
        if let Some(predecessor) = predecessor
            && let Err(error) = self.take_over(predecessor, open, &mut accepting, stop).await
        {
            self.listen_no_more();
            self.drain(stop).await;
            return Err(error);
        }
        let mut control = self.open_control();
        loop {
            let heir = tokio::select! {
                () = stop() => break,
                Some(heir) = self.heirs.recv() => heir,
            };
            let left = tokio::select! {
                () = stop() => break,
                left = self.hand_over(heir, &mut accepting, &mut control, open) => left,
            };
            match left {
                Left::All { process } => {
                    on_handed_over(process);
                    self.control_server.upgrade.handed_over(process);
                    self.listen_no_more();
                    self.drain(stop).await;
                    self.control_server.upgrade.told().await;
                    return Ok(());
                }
                Left::Nothing => {}
            }
        }
        control.shutdown().await;
        // Before connections learn that they are to end: they need not wait for another request then.
        self.exchange.shared.ending.send_replace(true);
        accepting.stop().await;
        self.listen_no_more();
        self.end(stop).await;
        if let Some(latest) = self.latest.as_ref().filter(|_| !self.switch.is_away()) {
            latest.end().await;
        }
        Ok(())
    }

    /// Gives up the sockets that were kept to be handed over. Nobody accepts on them here any more, and a client that comes
    /// is to be refused, not to wait for the end of this process.
    fn listen_no_more(&mut self) {
        self.sockets = Sockets::default();
    }

    /// Begins to accept connections, and questions about metrics.
    pub(super) async fn accept(&self) -> Accepting {
        let (stopping, stopped) = watch::channel(false);
        let mut listeners = JoinSet::new();
        for (index, ((_, listener), address)) in self.sockets.listeners.iter().zip(&self.addresses).enumerate() {
            // The socket itself is kept: it may have to be handed over.
            let socket = loop {
                match listener.try_clone().and_then(TcpListener::from_std) {
                    Ok(socket) => break socket,
                    Err(error) => tracing::error!(%error, %address, "cannot accept connections yet"),
                }
                self.exchange.shared.clock.timer(NO_FILES).await;
            };
            listeners.spawn(self.front(index).accept(socket, stopped.clone()));
        }
        if let Some(neighbours) = self.exchange.shared.neighbours.clone() {
            let fronts = (0..self.addresses.len()).map(|index| self.front(index)).collect();
            listeners.spawn(visits(neighbours, fronts, stopped.clone()));
        }
        let mut answering = JoinSet::new();
        let shared = &self.exchange.shared;
        if let Some(nodes) = &shared.nodes {
            answering.spawn(answer_nodes(nodes.clone(), shared.bans.clone(), shared.clock.clone()));
            answering.spawn(keep_meeting(nodes.clone(), shared.bans.clone(), shared.clock.clone()));
        }
        match self.sockets.metrics.as_ref().map(|(_, listener)| listener.try_clone()) {
            Some(Ok(listener)) => {
                let (shared, storage) = (self.exchange.shared.clone(), self.exchange.store.clone());
                let (crowd, origins) = (self.crowd.clone(), self.exchange.origins.clone());
                let cluster = self.control_server.cluster.clone();
                let purger = self.purge_credentials.clone().map(|credentials| {
                    let control = self.control_server.clone();
                    let carry_out: CarryOut = Arc::new(move |ask| {
                        let control = control.clone();
                        Box::pin(async move { control.answer(ask).await })
                    });
                    Purger::new(credentials, carry_out)
                });
                let stopping = stopped.clone();
                let server = MetricsServer { shared, storage, crowd, origins, cluster, purger, stopping };
                answering.spawn(server.open(listener));
            }
            Some(Err(error)) => tracing::warn!(%error, "metrics are not available"),
            None => {}
        }
        answering.spawn(keep_forgetting(shared.bans.clone(), self.exchange.store.clone(), shared.clock.clone()));
        answering.spawn(give_back_heap(shared.held.clone(), shared.clock.clone()));
        if let Some(latest) = self.latest.clone() {
            let switch = self.switch.clone();
            answering.spawn(async move { latest.keep(&switch).await });
        }
        let shared = self.exchange.shared.clone();
        let refuse = move |address| shared.check_self(address);
        let current = self.control_server.current.clone();
        answering.spawn(check_all(self.exchange.origins.clone(), refuse, move || current.is_offline()));
        Accepting { stopping, listeners, _beside: answering }
    }

    /// Begins to answer those who administer.
    pub(super) fn open_control(&self) -> JoinSet<()> {
        let mut control = JoinSet::new();
        if let Some(socket) = &self.sockets.control {
            control.spawn(self.control_server.clone().open(socket.try_clone()));
        }
        control
    }

    /// Lets connections end with their next answer, and what they carry come to its end.
    async fn drain(&self, stop: &mut impl AsyncFnMut()) {
        let limit = self.exchange.shared.limits.drain;
        tokio::select! {
            () = stop() => {}
            emptied = self.crowd.emptied(&self.exchange.shared.clock, limit) => if !emptied {
                let left = self.crowd.present();
                tracing::warn!("closing connections that did not end within limits.drain ({limit:?}): {left}");
            }
        }
        self.end(stop).await;
    }

    /// Ends connections that wait, and lets the others come to their end within `limits.stop`.
    async fn end(&self, stop: &mut impl AsyncFnMut()) {
        let shared = &self.exchange.shared;
        shared.ending.send_replace(true);
        tokio::select! {
            () = stop() => {}
            _ = async {
                self.crowd.emptied(&shared.clock, shared.limits.stop).await;
                self.exchange.finished(shared.limits.stop).await
            } => {}
        }
        self.exchange.leave().await;
    }
}

/// How often it is looked at whether clients have given back much.
const LOOK_AT_HEAP_EVERY: Duration = Duration::from_secs(10);

/// Makes the heap smaller after each peak of what clients hold, for ever.
async fn give_back_heap(held: Arc<Held>, clock: Clock) {
    loop {
        clock.timer(LOOK_AT_HEAP_EVERY).await;
        if held.has_fallen() {
            // It takes a moment, and requests go on meanwhile.
            let _ = clock.block(trim_heap).await;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/support/altered.rs"]
#[allow(dead_code)]
mod altered;

/// The cache changes hands while somebody looks something up.
///
/// In one of many runs of the hand-over's test, a request was told `fwd=uri-miss` of an object that was in the cache all the
/// time: it had been looked for where there was no cache yet, and whether the cache was there was asked only afterwards.
#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::OnceLock;

    use tinaja_store::Reference;
    use tinaja_testkit::origin::Origin;
    use tokio::sync::oneshot;

    use super::super::server::{Outside, runtime};
    use super::*;
    use crate::config::{Config, Listener};
    use crate::storage::{Storage, Switch};

    /// What one client that sends these fields is told by a proxy over this cache.
    fn cache_status(switch: Arc<Switch>, fields: &str) -> String {
        let origin = Origin::of_patterns();
        let listener = Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap());
        let config = Config { listeners: vec![listener], ..Config::default() };
        let runtime = runtime(&config).unwrap();
        let (proxy, _) = Proxy::bind(config, switch, Outside::default()).unwrap();
        let address: SocketAddr = proxy.addresses[0];
        let (stop, stopped) = oneshot::channel::<()>();
        let mut stopped = Some(stopped);
        let running = std::thread::spawn(move || {
            Server { runtime, proxy }.run(async move || match stopped.take() {
                Some(stopped) => drop(stopped.await),
                None => std::future::pending().await,
            });
        });
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET /300/object HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        stop.send(()).unwrap();
        running.join().unwrap();
        let field = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("cache-status:"));
        field.unwrap_or(&answer).to_owned()
    }

    /// A store that finds nothing, and `then` happens before it says so.
    fn finding_nothing(then: impl Fn() + Send + Sync + Clone + 'static) -> Storage {
        let nothing = move |_| -> Option<tinaja_store::Pending<Option<tinaja_store::Hit>>> {
            let then = then.clone();
            Some(Box::pin(async move {
                then();
                None
            }))
        };
        Arc::new(super::altered::Altered::looking(nothing))
    }

    #[test]
    fn nobody_is_told_of_a_miss_for_want_of_the_cache() {
        // Looked for by what answers plain hits alone, and by what answers all else.
        for fields in ["", "If-None-Match: \"1\"\r\n"] {
            let of: Arc<OnceLock<Arc<Switch>>> = Arc::default();
            let cell = of.clone();
            let leaving = Switch::holding(finding_nothing(move || cell.get().unwrap().leave()));
            of.set(leaving.clone()).ok().unwrap();
            let told = cache_status(leaving, fields);
            assert!(told.contains("fwd=bypass"), "left while it was looked for: {told}");

            let of: Arc<OnceLock<Arc<Switch>>> = Arc::default();
            let cell = of.clone();
            let come = move || cell.get().unwrap().take_in(Arc::new(Reference::new()));
            let coming = Switch::coming(finding_nothing(come));
            of.set(coming.clone()).ok().unwrap();
            let told = cache_status(coming, fields);
            assert!(told.contains("fwd=bypass"), "come while it was looked for: {told}");
        }
    }
}
