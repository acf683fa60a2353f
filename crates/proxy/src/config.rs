//! What a proxy is told before it starts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::origin::OriginUrl;
use crate::rules::Rules;

/// Everything a proxy needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 takes any free one. Default 127.0.0.1:3128.
    pub listen: Vec<SocketAddr>,
    /// Forward or reverse proxy. Default forward.
    pub mode: Mode,
    /// Threads that serve requests, in total. Default 2, at least 1.
    pub workers: usize,
    /// The access log's file; none by default.
    pub access_log: Option<PathBuf>,
    /// What clients of a forward proxy may reach. Not used by a reverse proxy.
    pub rules: Rules,
    /// Caps and time limits.
    pub limits: Limits,
    /// The name in Via. `None` (the default) makes one up that differs from every other proxy's.
    pub name: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 3128))],
            mode: Mode::Forward,
            workers: 2,
            access_log: None,
            rules: Rules::default(),
            limits: Limits::default(),
            name: None,
        }
    }
}

/// For whom the proxy speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For its clients: they name the origin in each request.
    Forward,
    /// For one origin: clients take the proxy for the server.
    Reverse {
        /// The server behind the proxy.
        origin: OriginUrl,
    },
}

/// Caps and time limits. Each bounds what one client or origin can hold on to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections from clients at once; further ones get 503. Default 10,000: at about 20 KB each this is 200 MB.
    pub connections: usize,
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
    /// After a signal to stop, requests in progress have this long to end. Default 5 s.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Limits {
            connections: 10_000,
            head: seconds(10),
            idle: seconds(60),
            client_stall: seconds(60),
            resolve: seconds(10),
            connect: seconds(10),
            origin_stall: seconds(60),
            tunnel_idle: seconds(300),
            collapse: seconds(20),
            stop: seconds(5),
        }
    }
}
