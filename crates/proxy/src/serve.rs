//! Starting and stopping.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Version;
use parking_lot::Mutex;
use pingora_core::server::Fds;
use pingora_core::services::Service as _;
use pingora_core::services::listening::Service;
use tinaja_http::hops::via_member;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::Storage;
use crate::access::AccessLog;
use crate::admin::Desk;
use crate::admin::socket::{NAME, Socket};
use crate::config::{Config, Listener, Mode};
use crate::crowd::Crowd;
use crate::exchange::Exchange;
use crate::front::Front;
use crate::metrics::{self, Metrics};
use crate::origin::authorities;
use crate::reload::{Current, Reload, Reloader};
use crate::shared::{Shared, unique_name};
use crate::tls::BadCertificate;

/// Threads that wait for name servers, at most; they exist while there is something to wait for.
const MOST_RESOLVING: usize = 64;
/// Why a proxy could not start. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No address to listen on.
    #[error("there is no address to listen on; give one, as in 127.0.0.1:3128")]
    NoAddress,
    /// Two listeners want the same connections.
    #[error("{0} and {1} overlap: a connection could belong to either listener; give one of them another port")]
    Overlap(SocketAddr, SocketAddr),
    /// Another program listens there.
    #[error("{0} is in use by another program; stop that one, or listen on another port (--listen)")]
    InUse(SocketAddr),
    /// The system does not let this user listen there.
    #[error("listening on {0} is not permitted; ports below 1024 need a privilege, choose a higher one (--listen)")]
    NotPermitted(SocketAddr),
    /// Something else is wrong with the address.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// The access log cannot be opened.
    #[error("cannot open the access log {path}: {cause}; choose another file, or turn it off (--access-log off)")]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The authorities that origins' certificates are checked against cannot be read, or there are none for an origin
    /// with TLS.
    #[error(
        "cannot read the certificates of trusted authorities: {0}; check SSL_CERT_FILE and SSL_CERT_DIR, or unset \
         them and install the package ca-certificates"
    )]
    Certificates(String),
    /// A certificate of a listener is of no use.
    #[error("{address} cannot speak TLS: {cause}")]
    Certificate {
        /// The listener's address.
        address: SocketAddr,
        /// What is wrong with which file.
        cause: BadCertificate,
    },
    /// Threads or signal handlers could not be set up.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Runs a proxy until SIGTERM or SIGINT, and then ends requests in progress within `limits.stop`; a second signal
/// ends them at once. `on_ready` is told the addresses once clients can connect.
///
/// On SIGHUP, and when [`crate::admin`] is asked to, `reload` is called for other settings, which are gone by from then
/// on if they are good; if not, that is logged, and those from before stay.
///
/// Returns when nothing uses the storage any more. Errors: [`ServeError`], before `on_ready` is called.
pub fn serve(
    config: Config,
    storage: Storage,
    on_ready: impl FnOnce(&[SocketAddr]),
    reload: impl FnMut() -> Result<Reload, String> + Send + 'static,
) -> Result<(), ServeError> {
    let runtime = runtime(&config)?;
    // Before anybody can see that it runs, and ask it to stop: that would kill it otherwise.
    let (mut term, mut int, hangup) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
    };
    let mut server = Server::bind_on(runtime, config, storage)?;
    if let Some(reloader) = server.reloader.take() {
        let (requests, asked) = mpsc::channel(1);
        if let Some((desk, _)) = &mut server.control {
            desk.reload = Some(requests);
        }
        server.runtime.spawn(reloader.run(hangup, asked, reload));
    }
    on_ready(server.addresses());
    server.run(async move || {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    });
    Ok(())
}

/// A proxy that listens, and does not serve yet.
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    /// One for each listener.
    services: Vec<Service<Front>>,
    crowd: Crowd,
    exchange: Arc<Exchange>,
    runtime: Runtime,
    control: Option<(Desk, Socket)>,
    /// Where figures are asked for.
    metrics: Option<TcpListener>,
    /// Until somebody takes it.
    reloader: Option<Reloader>,
    stop: Duration,
}

impl Server {
    /// Listens on every address and prepares everything, so that what can go wrong goes wrong now.
    pub fn bind(config: Config, storage: Storage) -> Result<Server, ServeError> {
        Server::bind_on(runtime(&config)?, config, storage)
    }

    fn bind_on(runtime: Runtime, config: Config, storage: Storage) -> Result<Server, ServeError> {
        check(&config)?;
        let current = Arc::new(Current::load(&config.listeners)?);
        let began = config.clone();
        // Before anybody can connect: whoever finds the proxy listening finds this as well.
        let socket = config.control.as_deref().and_then(control);
        let listeners = config.listeners.iter().map(|listener| listen(listener.address));
        let listeners: Vec<_> = listeners.collect::<Result<_, _>>()?;
        let addresses: Vec<_> = listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let metrics = config.metrics.map(listen).transpose()?;
        let log = AccessLog::open(config.access_log.as_deref(), config.access_log_format)
            .map_err(|cause| ServeError::AccessLog { path: config.access_log.unwrap_or_default(), cause })?;
        let workers = config.workers.max(1);
        let shared = Arc::new(Shared {
            limits: config.limits,
            name: config.name.unwrap_or_else(unique_name),
            addresses: addresses.clone(),
            log,
            metrics: config.metrics.map(|_| Metrics::new()).transpose().map_err(io::Error::other)?,
        });
        let crowd = Crowd::new(config.limits.connections);
        let exchange = Arc::new(Exchange::new(shared.clone(), storage.clone(), workers));
        let services = addresses.iter().enumerate().map(|(index, address)| {
            let current = current.clone();
            let (shared, exchange, crowd) = (shared.clone(), exchange.clone(), crowd.clone());
            let via = via_member(Version::HTTP_11, &shared.name);
            let front = Front { shared, current, index, exchange, crowd, via };
            let mut service = Service::new("proxy".into(), front);
            service.add_tcp(&address.to_string());
            service
        });
        let services = services.collect();
        let desk = Desk { storage, current: current.clone(), reload: None };
        let control = socket.map(|socket| (desk, socket));
        let (reloader, stop) = (Reloader { shared: shared.clone(), current, began }, config.limits.stop);
        Ok(Server {
            services,
            listeners,
            addresses,
            crowd,
            exchange,
            runtime,
            control,
            metrics,
            reloader: Some(reloader),
            stop,
        })
    }

    /// Where it listens, in the order of the listeners; ports that were given as 0 are the real ones here.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until `stop` returns, and then ends requests in progress within `limits.stop`, or when `stop`, called
    /// once more, returns again. Nothing uses the storage when this returns.
    pub fn run(mut self, mut stop: impl AsyncFnMut()) {
        let mut fds = Fds::new();
        for (listener, address) in self.listeners.drain(..).zip(&self.addresses) {
            fds.add(address.to_string(), listener.into_raw_fd());
        }
        let fds = Arc::new(Mutex::new(fds));
        let (stopping, stopped) = watch::channel(false);
        let services = self.services;
        let control = self.control;
        let desk = self.metrics.map(|listener| {
            let (shared, storage) = (self.exchange.shared.clone(), self.exchange.store.clone());
            let desk = metrics::Desk { shared, storage, crowd: self.crowd.clone(), stopping: stopped.clone() };
            self.runtime.spawn(desk.open(listener))
        });
        self.runtime.block_on(async {
            let desk = control.map(|(desk, socket)| tokio::spawn(desk.open(socket)));
            let mut serving = JoinSet::new();
            for mut service in services {
                let (fds, stopped) = (fds.clone(), stopped.clone());
                serving.spawn(async move { service.start_service(Some(fds), stopped, 1).await });
            }
            stop().await;
            if let Some(desk) = desk {
                desk.abort();
            }
            // Nobody listening means that the service has ended already.
            let _ = stopping.send(true);
            tokio::select! {
                () = stop() => {}
                _ = async {
                    while serving.join_next().await.is_some() {}
                    self.crowd.emptied(self.stop).await;
                    self.exchange.finished(self.stop).await
                } => {}
            }
        });
        if let Some(desk) = desk {
            desk.abort();
        }
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

/// Threads for requests, and for waiting for name servers.
fn runtime(config: &Config) -> Result<Runtime, ServeError> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(config.workers.max(1))
        .max_blocking_threads(MOST_RESOLVING)
        .thread_name("proxy")
        .enable_all()
        .build()?;
    Ok(runtime)
}

/// Checks a configuration as [`Server::bind`] does, but for what can only be known by listening.
///
/// Errors: [`ServeError`].
pub fn check(config: &Config) -> Result<(), ServeError> {
    config.check()?;
    Current::load(&config.listeners)?;
    check_authorities(&config.listeners)
}

/// Finds out now whether origins' certificates can be checked: Pingora panics if it cannot read what it checks against.
fn check_authorities(listeners: &[Listener]) -> Result<(), ServeError> {
    let trusted = authorities().map_err(ServeError::Certificates)?;
    let mut origins = listeners.iter().filter_map(|listener| match &listener.mode {
        Mode::Forward => None,
        Mode::Reverse(routes) => Some(routes.origins()),
    });
    if trusted == 0 && origins.any(|mut origins| origins.any(|origin| origin.destination().tls)) {
        return Err(ServeError::Certificates("there is none, and the origin's would be refused".into()));
    }
    Ok(())
}

/// The socket for [`crate::admin`]. Without it the proxy serves all the same.
fn control(dir: &Path) -> Option<Socket> {
    match Socket::make(dir) {
        Ok(socket) => Some(socket),
        Err(error) => {
            let path = dir.join(NAME);
            tracing::warn!(path = %path.display(), %error, "no control socket: purge and inspect cannot reach this server");
            None
        }
    }
}

/// Listens here rather than in Pingora's service, which can only panic when that fails.
fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind(address).map_err(|cause| match cause.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse(address),
        io::ErrorKind::PermissionDenied => ServeError::NotPermitted(address),
        _ => ServeError::Listen { address, cause },
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
