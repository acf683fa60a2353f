//! Settings that can be exchanged while the proxy serves: what each listener is, its routes, rules, certificates
//! and CA, whom origins' certificates are believed by, and whether origins are asked.
//!
//! All of them are exchanged at once, and only if all of them are good. A request goes by what holds when its head has
//! come; a connection keeps the certificate that it began with. So nothing is half new. Limits stay as they are: places and
//! timers that are in use already go by the old ones.

use std::net::SocketAddr;
use std::sync::Arc;

use tinaja_clock::Clock;
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot};

use crate::config::{Config, Listener, behind};
use crate::current::Current;
use crate::errors::ServeError;
use crate::origin::{Behind, Origins, Trust, authorities};
use crate::shared::Shared;

/// What a running proxy is to go by from now on.
#[derive(Clone, Debug)]
pub struct Reload {
    /// The settings, read again.
    pub config: Config,
    /// Settings outside of it that have changed and are heeded only at a start, by their names.
    pub later: Vec<String>,
}

/// Why settings were not exchanged. Those from before stay, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// They cannot be read, or make no sense.
    #[error("{0}")]
    Settings(String),
    /// They are of no use.
    #[error("{0}")]
    Unfit(#[from] ServeError),
    /// A listener takes the kernel's connections, or does not, from the start.
    #[error(
        "whether the listener on {address} is transparent, and how connections come to it, cannot change while it runs; start it \
         again, or use `tinaja upgrade`"
    )]
    Diversion {
        /// Where it listens, as it was told.
        address: SocketAddr,
    },
    /// Addresses are listened on from the start.
    #[error(
        "the listeners' addresses cannot change while it runs: it listens on {was}, and they say {new}; start it again \
         to change that"
    )]
    Addresses {
        /// Where it listens, as it was told.
        was: String,
        /// Where it would.
        new: String,
    },
}

/// Asks whoever serves to exchange its settings; what came of it is sent back.
pub(crate) type Requests = mpsc::Sender<oneshot::Sender<Result<Vec<String>, String>>>;

/// Exchanges settings of a running proxy.
pub(crate) struct Reloader {
    pub shared: Arc<Shared>,
    pub current: Arc<Current>,
    /// The settings that it began with.
    pub began: Config,
    pub origins: Arc<Origins>,
}

impl Reloader {
    /// Goes by these from now on. Those that were changed and wait for the next start are named.
    ///
    /// Errors: [`ReloadError`]; nothing has changed then.
    pub fn apply(&self, reload: Reload) -> Result<Vec<String>, ReloadError> {
        let Reload { mut config, mut later } = reload;
        let addresses = |config: &Config| config.listeners.iter().map(|listener| listener.address).collect::<Vec<_>>();
        let (was, new) = (addresses(&self.began), addresses(&config));
        if was != new {
            return Err(ReloadError::Addresses { was: shown(&was), new: shown(&new) });
        }
        let mut pairs = self.began.listeners.iter().zip(&config.listeners);
        if let Some((was, _)) = pairs.find(|(was, new)| was.mode.diversion() != new.mode.diversion()) {
            return Err(ReloadError::Diversion { address: was.address });
        }
        check(&config, &self.shared.clock)?;
        for (listener, was) in config.listeners.iter_mut().zip(self.current.listeners()) {
            listener.mirrors.go_on_as(&was.mirrors);
        }
        let fresh = Current::load(&config.listeners, self.shared.clock.wall())?;
        let origins = self.origins.prepare(behind(&config.listeners), &config.trust)?;
        self.origins.exchange(origins);
        let was_offline = self.current.is_offline();
        self.current.exchange(fresh);
        warn(&config, &self.shared.clock);
        match (was_offline, self.current.is_offline()) {
            (false, true) => tracing::info!("offline: no origin is asked until the next reload"),
            (true, false) => tracing::info!("online: origins are asked again"),
            _ => {}
        }
        let began = &self.began;
        for (name, changed) in [
            ("limits", config.limits != began.limits),
            ("workers", config.workers != began.workers),
            ("access_log", config.access_log != began.access_log),
            ("access_log_format", config.access_log_format != began.access_log_format),
            ("request_id", config.request_ids != began.request_ids),
            ("name", config.name != began.name),
            ("metrics", config.metrics != began.metrics),
            ("purge_credentials", config.purge_credentials != began.purge_credentials),
        ] {
            if changed {
                later.push(name.to_owned());
            }
        }
        Ok(later)
    }
}

impl Reloader {
    /// Exchanges settings whenever somebody asks for it, and has logs opened anew then and whenever they were rotated.
    pub async fn run(
        self,
        mut hangup: Signal,
        mut asked: mpsc::Receiver<oneshot::Sender<Result<Vec<String>, String>>>,
        mut reload: impl FnMut() -> Result<Reload, String> + Send,
        (mut rotated, mut reopen): (Signal, impl FnMut() + Send),
    ) {
        loop {
            let asks = tokio::select! {
                Some(()) = rotated.recv() => {
                    self.shared.log.reopen();
                    reopen();
                    continue;
                }
                Some(()) = hangup.recv() => None,
                Some(asks) = asked.recv() => Some(asks),
                else => return,
            };
            self.shared.log.reopen();
            reopen();
            let read = reload().map_err(ReloadError::Settings);
            let done = read.and_then(|reload| self.apply(reload)).map_err(|error| error.to_string());
            self.shared.metrics.as_ref().inspect(|metrics| metrics.reloaded(done.is_ok()));
            match &done {
                Ok(later) if later.is_empty() => tracing::info!("reloaded the settings; they are in effect now"),
                Ok(later) => {
                    tracing::info!(
                        "reloaded the settings; these changes take effect at the next start: {}",
                        later.join(", ")
                    );
                }
                Err(why) => tracing::error!("could not reload the settings, the old ones stay in effect: {why}"),
            }
            // Whoever asked may have left.
            let _ = asks.map(|asks| asks.send(done));
        }
    }
}

fn shown(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Checks a configuration as [`crate::Server::bind`] does, but for what can only be known by listening.
///
/// Errors: [`ServeError`].
pub fn check(config: &Config, clock: &Clock) -> Result<(), ServeError> {
    config.check()?;
    Current::load(&config.listeners, clock.wall())?;
    Origins::new(0, config.limits, clock.clone()).prepare(behind(&config.listeners), &config.trust)?;
    check_authorities(&config.listeners, &config.trust)
}

/// Says which listeners serve whoever finds them. It may be meant so, behind a firewall; an open proxy is found within hours. And which
/// rules lead nowhere, or do nothing at a listener; and which lists of revoked certificates have expired.
pub(super) fn warn(config: &Config, clock: &Clock) {
    let listeners = &config.listeners;
    for what in config.trust.expired(clock.wall()) {
        tracing::warn!("{what}");
    }
    for listener in listeners.iter().filter(|listener| listener.is_open_to_all()) {
        tracing::warn!("{}", listener.warning());
    }
    for what in listeners.iter().filter_map(Listener::idle_encode) {
        tracing::warn!("{what}");
    }
    for lost in listeners.iter().flat_map(Listener::lost_folds) {
        tracing::warn!("{lost}");
    }
}

/// Finds out now whether origins' certificates can be checked: what is bad in the system's is passed over once it serves.
fn check_authorities(listeners: &[Listener], trust: &Trust) -> Result<(), ServeError> {
    let trusted = authorities().map_err(ServeError::Certificates)?;
    let needs = |behind: &Arc<Behind>| {
        let upstream = &behind.upstream;
        upstream.tls.authority.is_none() && upstream.origins.iter().any(|origin| origin.destination().tls)
    };
    if trusted + trust.authorities() == 0 && behind(listeners).any(needs) {
        return Err(ServeError::Certificates("there is none, and the origin's would be refused".into()));
    }
    Ok(())
}
