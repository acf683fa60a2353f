//! A proxy without sockets, for simulations: its connections are whatever the caller gives it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::server::{Outside, Proxy};
use crate::config::Config;
use crate::errors::ServeError;
use crate::forgetting::keep_forgetting;
use crate::front::Front;
use crate::network::{Link, Network};
use crate::storage::{Storage, Switch};

/// A proxy whose first listener answers the links that it is given, over a network of the caller's. It lives on the runtime of
/// whoever calls it, and goes by the store's clock.
pub struct Simulated {
    proxy: Proxy,
    front: Arc<Front>,
    stopping: watch::Sender<bool>,
    _beside: JoinSet<()>,
}

impl Simulated {
    /// Prepares everything. The settings' addresses are taken, and nobody is answered there. Errors: as of [`super::Server::bind`].
    pub fn new(config: Config, store: Storage, network: Arc<dyn Network>) -> Result<Simulated, ServeError> {
        let (proxy, _) = Proxy::bind(config, Switch::holding(store), Outside::default())?;
        // Nobody has set it before.
        let _ = proxy.exchange.origins.network.set(network);
        let front = proxy.front(0);
        let shared = &proxy.exchange.shared;
        let mut beside = JoinSet::new();
        beside.spawn(keep_forgetting(shared.bans.clone(), proxy.exchange.store.clone(), shared.clock.clone()));
        Ok(Simulated { proxy, front, stopping: watch::Sender::new(false), _beside: beside })
    }

    /// Answers one connection to its end.
    pub fn answer(&self, link: Box<dyn Link>, from: IpAddr) -> impl Future<Output = ()> + Send + use<> {
        let (front, stopping) = (self.front.clone(), self.stopping.subscribe());
        async move { front.simulated(link, from, &stopping).await }
    }

    /// Connections that there are.
    pub fn present(&self) -> usize {
        self.proxy.crowd.present()
    }

    /// Whether all fetches that go on by themselves have ended within `limit`.
    pub async fn finished(&self, limit: Duration) -> bool {
        self.proxy.exchange.finished(limit).await
    }

    /// Ends as on a signal: connections end with what they carry, within `limit`, and fetches keep what has come.
    pub async fn stop(&self, limit: Duration) {
        let shared = &self.proxy.exchange.shared;
        shared.ending.send_replace(true);
        self.stopping.send_replace(true);
        self.proxy.crowd.emptied(&shared.clock, limit).await;
        self.proxy.exchange.finished(limit).await;
        self.proxy.exchange.leave().await;
    }
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a simulated proxy with {} connections", self.present())
    }
}
