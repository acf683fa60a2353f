//! What all rooms of one running proxy share.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tinaja_clock::Clock;
use tinaja_http::hops::Via;
use tinaja_http::message::{BadField, ResponseHead};
use tinaja_logs::CacheResult;
use tinaja_store::Key;
use tokio::sync::watch;

use crate::access::AccessLog;
use crate::bans::Bans;
use crate::client::Patience;
use crate::clients::Clients;
use crate::config::{Listener, Mode};
use crate::diverted::{Dialled, Vouched};
use crate::failure::Failure;
use crate::held::Held;
use crate::ids::{Ids, RequestId};
use crate::intercept::Rejections;
use crate::limits::Limits;
use crate::metrics::{Metrics, Source};
use crate::neighbours::Neighbours;
use crate::nodes::Nodes;
use crate::quotas::Quotas;
use crate::rules::{Asked, Own, is_public};
use crate::sparing::Sparing;
use crate::stored::{Families, Prepared};

/// One running proxy's settings and its access log.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Whose time and whose tasks all of it goes by: the store's.
    pub clock: Clock,
    pub limits: Limits,
    /// How many connections each client has.
    pub clients: Arc<Clients>,
    /// How much each client may ask for.
    pub quotas: Arc<Quotas>,
    /// What clients make it hold.
    pub held: Arc<Held>,
    /// What it writes in Via, and its name there, by which loops are found.
    pub via: Via,
    /// Where the proxy listens.
    pub addresses: Vec<SocketAddr>,
    /// The machine's addresses.
    pub own: Arc<Own>,
    pub log: AccessLog,
    /// Lines of the program's log about requests that were not answered.
    pub explained: Sparing,
    pub ids: Ids,
    /// What is counted, if anybody may ask for it.
    pub metrics: Option<Metrics>,
    /// Clients that do not accept a certificate of this proxy's CA.
    pub rejections: Rejections,
    /// Names that were found at addresses which clients of diverted connections had chosen.
    pub vouched: Vouched,
    /// Its own tunnels.
    pub dialled: Dialled,
    /// What was taken back.
    pub bans: Arc<Bans>,
    /// Who changes what says how a URL's objects hang together, and who removes it.
    pub families: Arc<Families>,
    /// Fields of what is sent again and again over HTTP/2.
    pub prepared: Prepared,
    /// With whom it has one cache on their disks.
    pub neighbours: Option<Arc<Neighbours>>,
    /// The other nodes of its cluster.
    pub nodes: Option<Arc<Nodes>>,
    /// Whether connections without a request are to end now. A proxy that hands over lets each bring its next request, and
    /// says at its answer that it is the last: closed before, some would have sent one already.
    pub ending: watch::Sender<bool>,
    /// Whether fetches are to end now, and leave what has come of them: the process ends, and the time for that is over.
    pub leaving: AtomicBool,
}

impl Shared {
    /// Whether fetches are to end now.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Tells a client the id of its request, if clients are told.
    pub fn tell(&self, id: &RequestId, head: &mut ResponseHead) -> Result<(), BadField> {
        match self.ids.header().and_then(|name| Some((name, id.value()?))) {
            Some((name, value)) => head.headers.insert(name.clone(), value),
            None => Ok(()),
        }
    }

    /// Says in the log why a request was not answered, where that is more than its client is told. Anybody can have that said, so
    /// it is said so often at most; an access log in JSON has all of them.
    pub fn explain(&self, failure: &Failure) {
        let why = failure.to_string();
        if *failure == Failure::ClientLeft || why == failure.reason().sentence() {
            return;
        }
        if !self.may_explain() {
            return;
        }
        let status = failure.status();
        tracing::info!(status, "a request was not answered: {why}");
    }

    /// Says in the log why a tunnel was closed, as sparingly.
    pub fn explain_tunnel(&self, why: &str) {
        if !self.may_explain() {
            return;
        }
        tracing::info!("{why}");
    }

    /// Whether one more line may be in the log that anybody can cause. Says how many were left out.
    fn may_explain(&self) -> bool {
        let left_out = self.explained.one_more(self.clock.now());
        if let Some(left_out) = left_out.filter(|left_out| *left_out > 0) {
            tracing::info!("requests that were not answered either, and are not in this log: {left_out}");
        }
        left_out.is_some()
    }

    /// Counts a connection that does not say who its client is, and says why in the log, as sparingly.
    pub fn explain_untold(&self, peer: IpAddr, why: &str) {
        self.metrics.as_ref().inspect(|metrics| metrics.untold.inc());
        if !self.may_explain() {
            return;
        }
        let peer = peer.to_canonical();
        tracing::warn!(
            "a connection from {peer} was closed: it must begin with a PROXY protocol header (proxy_protocol), but {why}"
        );
    }

    /// Whether this proxy keeps an object on its disk: always, but where others have it there.
    pub fn keeps(&self, place: impl FnOnce() -> Key) -> bool {
        self.neighbours.as_ref().is_none_or(|neighbours| (neighbours.way)(&place()).keeps)
    }

    /// Counts a request that has ended.
    pub fn count(&self, result: &CacheResult, source: Source, status: u16, bytes: u64, began: Instant) {
        if let Some(metrics) = &self.metrics {
            metrics.count(result, source, status, bytes, self.clock.since(began));
        }
    }

    /// Counts a fetch that ended early, and what is kept of it.
    pub fn count_beginning(&self, bytes: u64) {
        if let Some(metrics) = self.metrics.as_ref().filter(|_| bytes > 0) {
            metrics.fetches.keep(bytes);
        }
    }

    /// How long a client is waited for, and what is held for it meanwhile.
    pub fn patience(&self) -> Patience {
        let Limits { client_stall: stall, body_rate, .. } = self.limits;
        Patience { clock: self.clock.clone(), stall, body_rate, held: self.held.clone() }
    }

    /// Waits for something, and is counted as waiting meanwhile.
    pub async fn waiting<T>(&self, wait: impl Future<Output = T>) -> T {
        let _counted = self.metrics.as_ref().map(Metrics::wait);
        wait.await
    }

    /// Whether this address may be connected to for what a listener was asked. The proxy itself never may: that is a
    /// loop.
    pub fn check_address(&self, listener: &Listener, asked: Asked<'_>, address: SocketAddr) -> Result<(), Failure> {
        self.check_self(address)?;
        self.check_fetched(listener, asked, address.ip())
    }

    /// Whether what another proxy of the same cache has fetched from this address may be given to who asked a listener for it.
    pub fn check_fetched(&self, listener: &Listener, asked: Asked<'_>, from: IpAddr) -> Result<(), Failure> {
        match listener.mode {
            Mode::Forward | Mode::Transparent(_) => Ok(listener.rules.check_address(asked, from, &self.own)?),
            Mode::Reverse(_) => Ok(listener.rules.check_listed(asked, Some(from))?),
        }
    }

    /// Whether this address is not the proxy itself.
    pub fn check_self(&self, address: SocketAddr) -> Result<(), Failure> {
        if self.is_self(address) { Err(Failure::Loop) } else { Ok(()) }
    }

    fn is_self(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let local = ip.is_loopback() || ip.is_unspecified();
        self.addresses.iter().filter(|listen| listen.port() == address.port()).any(|listen| {
            let listening = listen.ip().to_canonical();
            let here = || local || ((ip.is_ipv4() || listening.is_ipv6()) && self.own.has(ip));
            listening == ip || (listening.is_unspecified() && here()) || (is_any(ip) && listening.is_loopback())
        })
    }
}

impl Listener {
    /// Whether it is a forward proxy for clients from everywhere: it listens on an address that others reach from outside, and no
    /// rule keeps anybody out.
    pub fn is_open_to_all(&self) -> bool {
        let ip = self.address.ip();
        self.mode == Mode::Forward && (ip.is_unspecified() || is_public(ip)) && self.rules.serve_anybody()
    }

    /// What there is to say of one that is open to all, and what to do.
    pub fn warning(&self) -> String {
        format!(
            "the forward proxy on {} serves anybody who can connect to it, since no rule says whom it is for: name your networks \
             in rules that allow them and deny all else, or listen on an address that only they reach",
            self.address
        )
    }

    /// What there is to say of a rule that encodes nothing here, since it names no host.
    pub fn idle_encode(&self) -> Option<String> {
        let rule = self.cache_rules.encodes_without_host().filter(|_| !matches!(self.mode, Mode::Reverse(_)))?;
        let address = self.address;
        Some(format!(
            "{rule} has encode and no host, so it compresses nothing for clients of {address}, which is no reverse proxy: name hosts in it"
        ))
    }

    /// Whether a listener's rules refuse what it was asked, whatever the destination's address is.
    pub(crate) fn check_request(&self, asked: Asked<'_>) -> Result<(), Failure> {
        match self.mode {
            Mode::Forward | Mode::Transparent(_) => Ok(self.rules.check_request(asked)?),
            Mode::Reverse(_) => Ok(self.rules.check_listed(asked, None)?),
        }
    }

    /// Whether what was once fetched from this address may be served from the cache. Listeners share their cache, and
    /// what one may reach is not for the clients of another that may not, nor for anybody once the rules have changed. A name
    /// does not tell where it once led, and asking name servers at each hit would end hits when the link is down.
    pub(crate) fn may_serve(&self, asked: Asked<'_>, fetched_from: Option<IpAddr>, own: &Own) -> bool {
        match (&self.mode, fetched_from) {
            (Mode::Forward | Mode::Transparent(_), Some(address)) => {
                self.rules.check_address(asked, address, own).is_ok()
            }
            (Mode::Reverse(_), _) if !self.rules.name_destinations() => true,
            (Mode::Reverse(_), Some(address)) => self.rules.check_listed(asked, Some(address)).is_ok(),
            (_, None) => false,
        }
    }
}

/// Connecting to the unspecified address reaches loopback.
fn is_any(ip: IpAddr) -> bool {
    ip.is_unspecified()
}

/// A name for Via that no other proxy has.
pub(crate) fn unique_name() -> String {
    // RandomState is seeded from the system's randomness for each process, and differs with each use.
    format!("tinaja-{:016x}", RandomState::new().hash_one(std::process::id()))
}
