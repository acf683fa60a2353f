//! What a proxy is told before it starts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tinaja_logs::Format;

use crate::ids::RequestIds;
use crate::origin::OriginUrl;
use crate::routes::Routes;
use crate::rules::Rules;
use crate::serve::ServeError;
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
    /// Whom ids of requests are told, and whose are taken over. Nobody by default.
    pub request_ids: RequestIds,
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
    /// Forward or reverse proxy.
    pub mode: Mode,
    /// Who may ask for what.
    pub rules: Rules,
    /// Its certificates. With any, it speaks TLS alone, and the first is for clients that name none of the others;
    /// without, plain HTTP.
    pub certificates: Vec<CertificateFiles>,
}

/// For whom the proxy speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For its clients: they name the origin in each request.
    Forward,
    /// For origins: clients take the proxy for the server.
    Reverse(Routes),
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
            request_ids: RequestIds::default(),
            limits: Limits::default(),
            name: None,
        }
    }
}

impl Config {
    /// Whether the listeners go together. [`crate::check`] finds out more, and [`crate::Server::bind`] all.
    ///
    /// Errors: [`ServeError::NoAddress`], [`ServeError::Overlap`].
    pub fn check(&self) -> Result<(), ServeError> {
        if self.listeners.is_empty() {
            return Err(ServeError::NoAddress);
        }
        let mut before: Vec<SocketAddr> = Vec::new();
        for Listener { address, .. } in &self.listeners {
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
        Listener { address, mode: Mode::Forward, rules: Rules::default(), certificates: Vec::new() }
    }

    /// A reverse proxy for one origin.
    pub fn reverse(address: SocketAddr, origin: OriginUrl) -> Listener {
        Listener { mode: Mode::Reverse(Routes::to(origin)), ..Listener::forward(address) }
    }
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

/// Caps and time limits. Each bounds what one client or origin can hold on to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Connections from clients at once; further ones get 503. Default 10,000: at about 13 KB each this is 130 MB,
    /// or 373 MB where all speak HTTP/2 (37 KB each, and 160 KB more for each answer that is read slowly).
    pub connections: usize,
    /// Requests at once over one HTTP/2 connection; further ones are refused and may be sent again. Default 100, what
    /// RFC 9113 6.5.2 takes for the least that still serves. Beyond the first, each counts as a connection.
    pub streams: u32,
    /// A request's head must be whole this long after its first byte. Default 10 s.
    pub head: Duration,
    /// A connection without a request is closed after this. Default 60 s.
    pub idle: Duration,
    /// A client that neither takes nor sends bytes amid a message is given up after this. Default 60 s.
    pub client_stall: Duration,
    /// A name must be resolved within this. Default 10 s.
    pub resolve: Duration,
    /// Each of a name's addresses must accept a connection within this. Default 10 s.
    pub connect: Duration,
    /// An origin that sends nothing is given up after this. Default 60 s.
    pub origin_stall: Duration,
    /// A tunnel in which nothing moves either way is closed after this. Default 5 minutes.
    pub tunnel_idle: Duration,
    /// A request waits this long for another client's fetch of the same object, then goes to the origin by itself.
    /// Default 20 s.
    pub collapse: Duration,
    /// A Range of an object that is not stored passes through. If the object then turns out to have at most this many
    /// bytes, all of it is fetched behind the answer, for the ranges that usually follow. Default 1 MiB; 0 never.
    pub fill_range_below: u64,
    /// When the last client that reads an object leaves while it is being fetched, the rest is fetched all the same if
    /// it has at most this many bytes. Default 64 KiB: so much is on its way already when the origin is told to stop.
    pub quick_abort_bytes: u64,
    /// Or if at least this part of the object has arrived. Default 90 %: an object that was asked for is asked for
    /// again more often than once in ten, so the last tenth costs less than a second fetch of the whole would.
    pub quick_abort_percent: u8,
    /// After a signal to stop, requests in progress have this long to end. Default 5 s.
    pub stop: Duration,
    /// After another process has taken over, connections have this long to end: each ends with its next answer. Default
    /// 60 s; as long, both processes have their memory.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Limits {
            connections: 10_000,
            streams: 100,
            head: seconds(10),
            idle: seconds(60),
            client_stall: seconds(60),
            resolve: seconds(10),
            connect: seconds(10),
            origin_stall: seconds(60),
            tunnel_idle: seconds(300),
            collapse: seconds(20),
            fill_range_below: 1 << 20,
            quick_abort_bytes: 64 << 10,
            quick_abort_percent: 90,
            stop: seconds(5),
            drain: seconds(60),
        }
    }
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
