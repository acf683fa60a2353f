//! Starting and stopping.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tinaja_store::OpenError;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::Storage;
use crate::admin::Successor;
use crate::config::{Config, Listener, Mode};
use crate::handover::{Predecessor, Switch, TakeOverError, canonical};
use crate::origin::{Behind, Origins, authorities};
use crate::reload::{Current, Reload};
use crate::server::{Outside, Proxy, Server, runtime};
use crate::tls::BadCertificate;

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
    /// Another process's work could not be taken over, after this one had begun to serve.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// What a route speaks TLS to its origins with is of no use.
    #[error("the route {route} cannot speak TLS to its origins: {cause}")]
    OriginTls {
        /// The route's host and path, `*` for any.
        route: String,
        /// What is wrong with which file.
        cause: BadCertificate,
    },
    /// Threads or signal handlers could not be set up.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Opens a cache that another process has left. Errors: [`OpenError`], also that the other process still has it.
pub type Opener = Arc<dyn Fn() -> Result<Storage, OpenError> + Send + Sync>;

/// What [`serve`] is given besides its settings.
pub struct Service {
    /// The cache; [`Switch::waiting`] where there is a predecessor.
    pub cache: Arc<Switch>,
    /// Its directories, in order.
    pub dirs: Vec<PathBuf>,
    /// Opens it, when it is another process's: to take over from that, or to take it back.
    pub open: Opener,
    /// Reads the settings again.
    pub reload: Box<dyn FnMut() -> Result<Reload, String> + Send>,
    /// Opens logs that are not the proxy's anew by their names.
    pub reopen: Box<dyn FnMut() + Send>,
    /// Whoever is taken over from.
    pub predecessor: Option<Predecessor>,
    /// Starts a process that takes over, when [`crate::admin`] is asked to.
    pub successor: Option<Successor>,
    /// Called with the id of the process that has taken over, as soon as it has.
    pub on_handed_over: Box<dyn FnOnce(u32) + Send>,
}

/// Runs a proxy until SIGTERM or SIGINT, and then ends requests in progress within `limits.stop`; a second signal
/// ends them at once. `on_ready` is told the addresses once clients can connect.
///
/// On SIGHUP, and when [`crate::admin`] is asked to, `reload` is called for other settings, which are gone by from then
/// on if they are good; if not, that is logged, and those from before stay. Then and on SIGUSR1 the access log is opened
/// anew by its name, and `reopen` is called for other logs. When another process asks to take over, its
/// is the cache and all that comes, and this returns once the connections that there are have ended, within
/// `limits.drain`.
///
/// Returns when nothing uses the cache any more. Errors: [`ServeError`], before `on_ready` is called; and
/// [`ServeError::TakeOver`] after it.
pub fn serve(config: Config, service: Service, on_ready: impl FnOnce(&[SocketAddr])) -> Result<(), ServeError> {
    let Service { cache, dirs, open, reload, reopen, mut predecessor, successor, on_handed_over } = service;
    let runtime = runtime(&config)?;
    // Before anybody can see that it runs, and ask it to stop: that would kill it otherwise.
    let (mut term, mut int, hangup, rotated) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::user_defined1())?,
        )
    };
    let (requests, asked) = mpsc::channel(1);
    let given = predecessor.as_mut().map(Predecessor::sockets).unwrap_or_default();
    let outside = Outside { given, reload: Some(requests), dirs: Some(canonical(&dirs)), successor };
    let (proxy, reloader) = Proxy::bind(config, cache, outside)?;
    runtime.spawn(reloader.run(hangup, asked, reload, (rotated, reopen)));
    on_ready(&proxy.addresses);
    let server = Server { runtime, proxy };
    let stop = async move || {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    Ok(server.run_after(predecessor, &open, on_handed_over, stop)?)
}

/// Checks a configuration as [`Server::bind`] does, but for what can only be known by listening.
///
/// Errors: [`ServeError`].
pub fn check(config: &Config) -> Result<(), ServeError> {
    config.check()?;
    Current::load(&config.listeners)?;
    Origins::new(0, config.limits).prepare(&config.listeners)?;
    check_authorities(&config.listeners)
}

/// Finds out now whether origins' certificates can be checked: Pingora panics if it cannot read what it checks against.
fn check_authorities(listeners: &[Listener]) -> Result<(), ServeError> {
    let trusted = authorities().map_err(ServeError::Certificates)?;
    let needs = |behind: &Arc<Behind>| {
        let upstream = &behind.upstream;
        upstream.tls.authority.is_none() && upstream.origins.iter().any(|origin| origin.destination().tls)
    };
    let needed = listeners.iter().any(|listener| match &listener.mode {
        Mode::Forward => false,
        Mode::Reverse(routes) => routes.behind().any(needs),
    });
    if trusted == 0 && needed {
        return Err(ServeError::Certificates("there is none, and the origin's would be refused".into()));
    }
    Ok(())
}
