//! One request: where it came in, where it goes, and what it says.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{Method, Version};
use pingora_http::RequestHeader;
use tinaja_http::body::Framing;
use tinaja_http::control::RequestDirectives;

use crate::config::{Listener, Mode};
use crate::ids::RequestId;
use crate::origin::{Behind, Destination};
use crate::rules::Asked;
use crate::stored::{Name, name_of};

/// What the front knows about a request that it hands on.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub id: RequestId,
    pub began: Instant,
    pub client: Option<IpAddr>,
    /// Where the request came in.
    pub listener: Arc<Listener>,
    /// Where it goes, or the first of the places where it may go: what is stored is named after it.
    pub destination: Destination,
    /// The origins of a reverse proxy's route.
    pub behind: Option<Arc<Behind>>,
    /// The client came by TLS.
    pub tls: bool,
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
    pub fn asked<'a>(&self, method: &'a Method) -> Asked<'a> {
        Asked { client: self.client, method: method.as_str(), port: self.destination.port }
    }

    /// The same for a request that goes to one of several destinations.
    pub fn asked_of<'a>(&self, method: &'a Method, destination: &Destination) -> Asked<'a> {
        Asked { port: destination.port, ..self.asked(method) }
    }

    /// The name of what is asked for.
    pub fn name(&self) -> Name {
        self.name_at(&self.path)
    }

    /// The name of what is at another path of the same origin.
    pub fn name_at(&self, path: &str) -> Name {
        name_of(&self.listener.mode, &self.destination, self.tls, &self.host, path)
    }

    /// Whether the proxy speaks for the origin, rather than for the client.
    pub fn is_reverse(&self) -> bool {
        matches!(self.listener.mode, Mode::Reverse(_))
    }
}

/// One request, judged and taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub ticket: Arc<Ticket>,
    /// Method, path, and fields, with the one Host and nothing that ends at this hop.
    pub head: RequestHeader,
    /// The version that the client speaks.
    pub version: Version,
    pub directives: RequestDirectives,
}

impl Request {
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// Whether the client speaks HTTP/1.0, which knows neither chunks nor interim answers.
    pub fn is_http10(&self) -> bool {
        self.version == Version::HTTP_10
    }
}
