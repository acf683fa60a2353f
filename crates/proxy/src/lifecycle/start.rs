//! Starting and stopping.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::handover::{Predecessor, canonical};
use super::reload::Reload;
use super::server::{Outside, Proxy, Server, runtime};
use crate::admin::{Describe, Successor};
use crate::config::Config;
use crate::errors::ServeError;
use crate::neighbours::Neighbours;
use crate::nodes::Nodes;
use crate::storage::{Opener, Switch};

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
    /// Says how the cluster is, where the cache is a node of one.
    pub cluster: Option<Describe>,
    /// Whom to ask before an origin, where objects lie on the disks of several proxies.
    pub neighbours: Option<Neighbours>,
    /// The other nodes of the cluster, where the cache is a node of one.
    pub nodes: Option<Nodes>,
    /// Called with the id of the process that has taken over, as soon as it has.
    pub on_handed_over: Box<dyn FnOnce(u32) + Send>,
}

/// Runs a proxy until SIGTERM or SIGINT, and then ends requests in progress within `limits.stop`; a second signal
/// ends them at once, but for what has come of fetches, which is kept first, within six seconds. `on_ready` is told the addresses once clients can connect.
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
    let Service { cache, dirs, open, reload, reopen, mut predecessor, successor, .. } = service;
    let (cluster, neighbours, nodes) = (service.cluster, service.neighbours, service.nodes);
    let on_handed_over = service.on_handed_over;
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
    let (dirs, neighbours, nodes) = (Some(canonical(&dirs)), neighbours.map(Arc::new), nodes.map(Arc::new));
    let outside = Outside { given, reload: Some(requests), dirs, successor, cluster, neighbours, nodes };
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
