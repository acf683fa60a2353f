//! What is known about one request while it is answered.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use http::HeaderValue;
use tinaja_http::body::Framing;
use tinaja_http::control::RequestDirectives;
use tinaja_http::status::Outcome;

use super::errand::Errand;
use crate::config::Listener;
use crate::failure::Failure;
use crate::origin::Destination;
use crate::rules::Asked;

/// What the front knows about a request that it hands on.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub began: Instant,
    pub client: Option<IpAddr>,
    /// Where the request came in.
    pub listener: Arc<Listener>,
    pub destination: Destination,
    /// The one Host, in its canonical form.
    pub host: String,
    /// Path and query, as the origin gets them.
    pub path: String,
    /// The URL as the access log shows it.
    pub url: String,
    pub framing: Framing,
}

impl Ticket {
    /// What the rules can see of the request.
    pub fn asked<'a>(&self, method: &'a http::Method) -> Asked<'a> {
        Asked { client: self.client, method: method.as_str(), port: self.destination.port }
    }
}

/// What the phases of one request tell each other.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub ticket: Option<Box<Ticket>>,
    pub directives: RequestDirectives,
    /// The request wants a head or a range, not a whole object.
    pub partial: bool,
    /// Why the origin had to be asked, if it had.
    pub outcome: Outcome,
    /// The destination's addresses that may be connected to, in the order to try.
    pub addresses: Vec<SocketAddr>,
    /// How many of them did not accept a connection.
    pub tried: usize,
    /// The one that was asked last.
    pub asked: Option<SocketAddr>,
    /// How many interim responses the origin has sent.
    pub interim: usize,
    /// What the origin's last answer was.
    pub origin: Option<OriginAnswer>,
    /// Why the proxy answers by itself.
    pub failure: Option<Failure>,
    /// How the origin's body is getting on.
    pub fetch: Fetch,
    /// An object worth fetching whole when this request, which wanted a part of it, has been answered.
    pub worth_filling: bool,
    /// There while the proxy asks for an object of its own accord: no client waits.
    pub errand: Option<Errand>,
}

/// How the fetch that a request caused is getting on.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    /// When the origin's head came.
    pub head_at: Option<Instant>,
    /// Bytes of the body that have come.
    pub arrived: u64,
    /// The client has left. Atomic, for Pingora says so where the context cannot be changed.
    pub client_left: AtomicBool,
}

/// What is remembered of an origin's answer until it is stored.
#[derive(Clone, Debug)]
pub(crate) struct OriginAnswer {
    pub status: u16,
    /// Its Date, or when it arrived.
    pub date: HeaderValue,
    /// Its Age field in seconds.
    pub age: u64,
}

impl Context {
    /// The ticket, which every request that came through the front has.
    pub fn ticket(&self) -> Result<&Ticket, Failure> {
        self.ticket.as_deref().ok_or(Failure::Internal("a request came past the front".into()))
    }
}
