//! What a proxy is told before it starts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tinaja_http::forwarded::{self, ChainField};
use tinaja_logs::Format;

use crate::cache_rules::CacheRules;
use crate::diverted::Diversion;
use crate::errors::ServeError;
use crate::ids::RequestIds;
use crate::intercept::Interception;
use crate::key_rules::{KeyRule, KeyRules};
use crate::limits::Limits;
use crate::mirrors::{Credentials, Mirrors};
use crate::origin::{Behind, OriginUrl, Trust};
use crate::routes::Routes;
use crate::rules::{Cidr, Rules};
use crate::tls::CertificateFiles;

/// Everything a proxy needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen, and for whom. Default: a forward proxy on 127.0.0.1:3128.
    pub listeners: Vec<Listener>,
    /// Threads that serve requests, in total. Default 2, at least 1.
    pub workers: usize,
    /// The access log's file; none by default.
    pub access_log: Option<PathBuf>,
    /// How its lines are written. Default Squid's native format.
    pub access_log_format: Format,
    /// Where [`crate::admin`] is reached: a directory in which a socket is made for the user who runs this. The caller
    /// sees to it that no other server uses it. None by default.
    pub control: Option<PathBuf>,
    /// Where `/metrics`, `/healthz` and `/readyz` are asked for, by plain HTTP. Nowhere by default.
    pub metrics: Option<SocketAddr>,
    /// Who may purge by `POST /purge` at the address of the metrics. Nobody by default, and nobody without that address.
    pub purge_credentials: Option<Credentials>,
    /// Whom ids of requests are told, and whose are taken over. Nobody by default.
    pub request_ids: RequestIds,
    /// Whose signature on an origin's certificate counts beside the system's authorities, and what has been revoked. Nobody's and nothing by
    /// default.
    pub trust: Arc<Trust>,
    /// Caps and time limits.
    pub limits: Limits,
    /// The name in Via. `None` (the default) makes one up that differs from every other proxy's.
    pub name: Option<String>,
}

/// One address that the proxy listens on, and what it does there. All listeners share one cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Where to listen; port 0 takes any free one.
    pub address: SocketAddr,
    /// Forward, reverse or transparent proxy.
    pub mode: Mode,
    /// Who may ask for what.
    pub rules: Rules,
    /// What is stored, and for how long, where the RFCs are not to decide.
    pub cache_rules: CacheRules,
    /// What counts of a URL and of a request, where not all of it is to.
    pub key_rules: KeyRules,
    /// Sources of packages below paths of this proxy.
    pub mirrors: Mirrors,
    /// Whether origins are left alone: clients get what is stored, fresh or stale, or a 504. Their health is not checked while all
    /// listeners are so. False by default.
    pub offline: bool,
    /// Which tunnels of a forward proxy's clients are looked into. None by default.
    pub interception: Interception,
    /// Whether a reverse proxy's clients get the tags of what they ask for (`Surrogate-Key`, `xkey`, `Cache-Tag`), as the cache of a content
    /// network before it wants. It counts when an answer is stored. False by default; clients of a forward proxy always get them.
    pub pass_tags: bool,
    /// The networks of proxies before this one: each connection from there must begin with a header of the PROXY protocol, of version 1 or 2,
    /// which says who the client is. From elsewhere none is read. None by default, and none for a transparent proxy.
    pub proxy_protocol: Vec<Cidr>,
    /// The networks of proxies before this one that speak HTTP: for requests from there, the client is the last address in `client_field`
    /// that is in none of these networks. From elsewhere that field counts for nothing. None by default, and none for a transparent proxy.
    pub trusted_proxies: Vec<Cidr>,
    /// The field in which those proxies say for whom they ask. X-Forwarded-For by default.
    pub client_field: ChainField,
    /// What a reverse proxy's origins are told of its clients.
    pub forwarding: Forwarding,
    /// Its certificates. With any, it speaks TLS alone, and the first is for clients that name none of the others;
    /// without, plain HTTP.
    pub certificates: Vec<CertificateFiles>,
}

/// In which fields a reverse proxy tells its origins where a request came from, and whether by TLS. A field that an origin could take for the
/// proxy's word and that the proxy does not write here is not passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// X-Forwarded-For and X-Forwarded-Proto. A client's own Forwarded passes with requests that are not for the cache, as it always has.
    #[default]
    XForwarded,
    /// Forwarded (RFC 7239).
    Forwarded,
    /// All three.
    Both,
    /// None of them.
    None,
}

impl Forwarding {
    /// Whether X-Forwarded-For and X-Forwarded-Proto are written.
    pub(crate) fn has_x_forwarded(self) -> bool {
        matches!(self, Forwarding::XForwarded | Forwarding::Both)
    }

    /// Whether Forwarded is written.
    pub(crate) fn has_forwarded(self) -> bool {
        matches!(self, Forwarding::Forwarded | Forwarding::Both)
    }
}

/// For whom the proxy speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For its clients: they name the origin in each request.
    Forward,
    /// For origins: clients take the proxy for the server.
    Reverse(Routes),
    /// For clients that know of no proxy, and whose connections the kernel sends here: to the address that each has chosen. Those to
    /// port 443 are taken for TLS, all others for HTTP. Connections that are made to the listener itself are refused.
    Transparent(Diversion),
}

impl Mode {
    /// Whether it speaks for its clients, who choose where requests go.
    pub fn is_for_clients(&self) -> bool {
        !matches!(self, Mode::Reverse(_))
    }

    /// How the kernel sends connections here, if it does.
    pub fn diversion(&self) -> Option<Diversion> {
        match self {
            Mode::Transparent(diversion) => Some(*diversion),
            Mode::Forward | Mode::Reverse(_) => None,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listeners: vec![Listener::forward(SocketAddr::from((Ipv4Addr::LOCALHOST, 3128)))],
            workers: 2,
            access_log: None,
            access_log_format: Format::default(),
            control: None,
            metrics: None,
            purge_credentials: None,
            request_ids: RequestIds::default(),
            trust: Arc::default(),
            limits: Limits::default(),
            name: None,
        }
    }
}

impl Config {
    /// Whether the listeners go together. [`crate::check`] finds out more, and [`crate::Server::bind`] all.
    ///
    /// Errors: [`ServeError::NoAddress`], [`ServeError::Overlap`], [`ServeError::ToldWhereDiverted`].
    pub fn check(&self) -> Result<(), ServeError> {
        if self.listeners.is_empty() {
            return Err(ServeError::NoAddress);
        }
        let mut before: Vec<SocketAddr> = Vec::new();
        for Listener { address, mode, proxy_protocol, trusted_proxies, .. } in &self.listeners {
            if mode.diversion().is_some() && !proxy_protocol.is_empty() {
                return Err(ServeError::ToldWhereDiverted(*address, "proxy_protocol"));
            }
            if mode.diversion().is_some() && !trusted_proxies.is_empty() {
                return Err(ServeError::ToldWhereDiverted(*address, "trusted_proxies"));
            }
            if let Some(other) = before.iter().find(|other| overlap(**other, *address)) {
                return Err(ServeError::Overlap(*other, *address));
            }
            before.push(*address);
        }
        Ok(())
    }
}

impl Listener {
    /// A forward proxy with the default rules.
    pub fn forward(address: SocketAddr) -> Listener {
        Listener {
            address,
            mode: Mode::Forward,
            rules: Rules::default(),
            cache_rules: CacheRules::default(),
            key_rules: KeyRules::default(),
            mirrors: Mirrors::default(),
            offline: false,
            interception: Interception::default(),
            pass_tags: false,
            proxy_protocol: Vec::new(),
            trusted_proxies: Vec::new(),
            client_field: ChainField::default(),
            forwarding: Forwarding::default(),
            certificates: Vec::new(),
        }
    }

    /// What there is to say of key rules that fold this listener's hosts into one to which none of its routes leads, and what to do.
    pub fn lost_folds(&self) -> Vec<String> {
        let Mode::Reverse(routes) = &self.mode else { return Vec::new() };
        let is_lost = |rule: &&KeyRule, folded: &str| {
            !routes.leads(folded) && routes.hosts().any(|host| rule.hosts.iter().any(|pattern| pattern.fits(host)))
        };
        let folds = self.key_rules.folds().filter(|(rule, folded)| is_lost(rule, folded));
        let told = folds.map(|(rule, folded)| {
            format!(
                "{rule} folds hosts into {folded}, and no route of the reverse proxy on {} leads there: a GET or HEAD for one of them gets \
                 a 404. Add a route for {folded}, or fold into a host that has one",
                self.address
            )
        });
        told.collect()
    }

    /// Whether a connection from this address must say who its client is.
    pub(crate) fn is_told_by(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.proxy_protocol.iter().any(|network| network.contains(peer))
    }

    /// Whether this address is that of a proxy before this one.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted_proxies.iter().any(|network| network.contains(address))
    }

    /// For whom `peer` sends a request with these lines: for whom it says, if it is one of the proxies that are believed, else for itself.
    pub(crate) fn client_of(&self, peer: IpAddr, fields: &[u8]) -> IpAddr {
        let told = || forwarded::client(fields, self.client_field, |address| self.is_proxy(address));
        self.is_proxy(peer).then(told).flatten().unwrap_or(peer)
    }

    /// A reverse proxy for one origin.
    pub fn reverse(address: SocketAddr, origin: OriginUrl) -> Listener {
        Listener { mode: Mode::Reverse(Routes::to(origin)), ..Listener::forward(address) }
    }
}

/// The routes' and mirrors' origins behind these listeners.
pub(crate) fn behind(listeners: &[Listener]) -> impl Iterator<Item = &Arc<Behind>> {
    listeners.iter().flat_map(|listener| {
        let routes = match &listener.mode {
            Mode::Forward | Mode::Transparent(_) => None,
            Mode::Reverse(routes) => Some(routes.behind()),
        };
        routes.into_iter().flatten().chain(listener.mirrors.behind())
    })
}

/// Whether a connection could belong to either of two listeners.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |any: IpAddr, address: IpAddr| match any {
        // A socket on every IPv6 address takes connections by IPv4 as well, unless the system is told otherwise.
        IpAddr::V6(v6) => v6.is_unspecified() && (address.is_ipv6() || !v6_only()),
        IpAddr::V4(v4) => v4.is_unspecified() && address.is_ipv4(),
    };
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port() && one.port() != 0 && (a == b || covers(a, b) || covers(b, a))
}

fn v6_only() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|text| text.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_that_overlap() {
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("[::]:80", "[::1]:80", true),
            ("[::]:80", "127.0.0.1:80", !v6_only()),
            ("0.0.0.0:80", "[::1]:80", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ] {
            let listeners = [one, other].map(|address| Listener::forward(address.parse().unwrap())).into();
            let checked = Config { listeners, ..Config::default() }.check();
            assert_eq!(checked.is_err(), expected, "{one} {other}");
            if let Err(error) = checked {
                let text = error.to_string();
                assert!(text.contains(one) && text.contains(other), "{text}");
            }
        }
    }
}
