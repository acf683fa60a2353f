//! Why a request was not answered with what it asked for: in full for the operator, and as much of it as is its client's business.
//!
//! A client learns one of a closed list of reasons, and the request's id. Where its request would have gone, what failed there and
//! which rule or flag is behind it stands in the log under the same id: an address inside tells whoever probes where to go on.

use std::net::SocketAddr;

use tinaja_http::message::BadField;
use tinaja_http::refusal::Refusal;

use crate::quotas::{Excess, Over};
use crate::rules::Denied;

/// Why the proxy answers by itself. `Display` is for the log: it says all that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Refused(Refusal),
    #[error("This is a forward proxy and has no pages of its own. Configure it as the proxy of your client.")]
    NotForProxy,
    #[error("This is a reverse proxy and does not open tunnels.")]
    NoTunnels,
    #[error(
        "This listener takes connections that the kernel sends to it on their way elsewhere, and this one was made to the listener \
         itself."
    )]
    NotDiverted,
    #[error(
        "The kernel does not say where the client wanted to go ({0}): a connection must come by a redirect of nftables on this \
         machine, with connection tracking (nf_conntrack)."
    )]
    NoDestination(String),
    #[error("This transparent proxy does not open tunnels for CONNECT.")]
    NoConnect,
    #[error("This reverse proxy has no route for {host} and this path.")]
    NoRoute { host: String },
    #[error("This connection was made for another name, so {host} is not served over it. Use a separate connection.")]
    Misdirected { host: String },
    #[error("The request is for another host, port or scheme than the tunnel that it came in.")]
    OtherThanTunnel,
    #[error("The proxy opens no tunnels inside a tunnel that it intercepts, and passes on no content with Upgrade.")]
    NoUpgrade,
    #[error("TLS with the client failed: {0}.")]
    ClientTls(String),
    #[error("The path contains \"..\" or \".\" segments. Request the path without them.")]
    DotSegments,
    #[error("{0}")]
    Denied(Denied),
    #[error("Forwarding loop: the request has come back to this proxy.")]
    Loop,
    #[error("The proxy has reached its limit of connections. Try again later.")]
    TooManyConnections,
    #[error("The response is not in the cache, and the request asks for a cached response only (only-if-cached).")]
    NotCached,
    #[error("{}", .0.sentence())]
    Offline(Unanswered),
    #[error("Cannot resolve {host}: {error}.")]
    Resolve { host: String, error: String },
    #[error("Cannot resolve {host}: the name servers did not answer in time.")]
    ResolveTimeout { host: String },
    #[error("Cannot connect to {address}: {error}.")]
    Connect { address: SocketAddr, error: String },
    #[error("{address} did not accept a connection in time.")]
    ConnectTimeout { address: SocketAddr },
    #[error("TLS with {host} at {address} failed: {error}.")]
    Tls { host: String, address: SocketAddr, error: String, untrusted: Option<Untrusted> },
    #[error("None of the {origins} origins is available now. Try again soon. The last failure: {last}")]
    AllOut { origins: usize, last: String },
    #[error("The origin failed: {0}.")]
    Origin(String),
    #[error("The origin did not answer in time.")]
    OriginTimeout,
    #[error("The answer broke off at byte {at}: {why}. Its rest could not be had from the origin. {rest}")]
    BrokeOff { at: u64, why: String, rest: String },
    #[error("Its client has as many connections as limits.client_connections allows.")]
    TooManyOfClient,
    #[error("Its client asks for more than limits.client_{} allows.", .0.excess.name())]
    TooMuchOfClient(Over),
    #[error("The mirror cannot give this: {0}.")]
    Mirror(String),
    #[error("The mirror has credentials, and is for reading only: GET and HEAD.")]
    ReadOnly,
    #[error("The client disconnected.")]
    ClientLeft,
    #[error("The request is malformed or incomplete.")]
    BadRequest,
    #[error("The proxy failed: {0}.")]
    Internal(String),
}

/// What is wrong with an origin's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untrusted {
    Issuer,
    Name,
    Expired,
    TooEarly,
    Revoked,
    /// What its authority has revoked is not known: the list has expired, or is not its authority's.
    Unlisted,
    Otherwise,
}

/// What a client is told. No address, name or flag of the operator's is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Refused(Refusal),
    NotForProxy,
    NoTunnels,
    NotDiverted,
    NoConnect,
    NoRoute,
    Misdirected,
    NoUpgrade,
    ClientTls,
    DotSegments,
    Denied,
    Loop,
    TooManyConnections,
    TooManyOfClient,
    TooMuchOfClient(Excess),
    NotCached,
    Offline(Unanswered),
    NotResolved,
    Unreachable,
    Insecure,
    Untrusted(Untrusted),
    NoneAvailable,
    OriginFailed,
    OriginLate,
    Mirror,
    ReadOnly,
    ClientLeft,
    BadRequest,
    Internal,
}

impl Reason {
    /// A sentence for whoever sent the request.
    pub fn sentence(self) -> &'static str {
        match self {
            Reason::Refused(refusal) => refusal.reason(),
            Reason::NotForProxy => {
                "This is a forward proxy and has no pages of its own. Configure it as the proxy of your client."
            }
            Reason::NoTunnels => "This is a reverse proxy and does not open tunnels.",
            Reason::NotDiverted => {
                "This is a transparent proxy, which nobody connects to: use no proxy, or another address."
            }
            Reason::NoConnect => "This transparent proxy does not open tunnels for CONNECT.",
            Reason::NoRoute => "There is nothing here under this host and path.",
            Reason::Misdirected => {
                "This connection was made for another name, so this host is not served over it. Use a separate connection."
            }
            Reason::NoUpgrade => {
                "The proxy opens no tunnels inside a tunnel that it intercepts, and passes on no content with Upgrade. Its operator \
                 can have tunnels to this host left alone."
            }
            Reason::ClientTls => "The client's TLS failed.",
            Reason::DotSegments => "The path contains \"..\" or \".\" segments. Request the path without them.",
            Reason::Denied => "The proxy's rules do not allow this request.",
            Reason::Loop => "Forwarding loop: the request has come back to this proxy.",
            Reason::TooManyConnections => "The proxy has reached its limit of connections. Try again later.",
            Reason::TooManyOfClient => {
                "You have reached your limit of connections to the proxy. Close some, and try again."
            }
            Reason::TooMuchOfClient(Excess::Rate) => "You have sent too many requests. Wait a moment, and try again.",
            Reason::TooMuchOfClient(Excess::Requests) => {
                "You have reached your limit of requests at once. Wait for some to end, and try again."
            }
            Reason::TooMuchOfClient(Excess::Fetches) => {
                "You have reached your limit of requests at once for what is not in the cache. Wait for some to end, and try again."
            }
            Reason::NotCached => {
                "The response is not in the cache, and the request asks for a cached response only (only-if-cached)."
            }
            Reason::Offline(why) => why.sentence(),
            Reason::NotResolved => "The name of the host cannot be resolved.",
            Reason::Unreachable => "The origin cannot be reached.",
            Reason::Insecure => "The proxy cannot connect to the origin by TLS.",
            Reason::Untrusted(why) => why.sentence(),
            Reason::NoneAvailable => "No origin is available now. Try again soon.",
            Reason::OriginFailed => "The origin failed to answer as it should.",
            Reason::OriginLate => "The origin did not answer in time.",
            Reason::Mirror => {
                "The source of this mirror answered with what the mirror does not pass on. The log of the proxy says why."
            }
            Reason::ReadOnly => "This mirror is for reading only: GET and HEAD.",
            Reason::ClientLeft => "The client disconnected.",
            Reason::BadRequest => "The request is malformed or incomplete.",
            Reason::Internal => "The proxy failed.",
        }
    }
}

impl Untrusted {
    /// For clients of intercepted tunnels alone: they would have seen the certificate themselves.
    fn sentence(self) -> &'static str {
        match self {
            Untrusted::Issuer => {
                "The origin's certificate comes from no authority that the proxy trusts, so nothing is fetched from it."
            }
            Untrusted::Name => "The origin's certificate is for another name, so nothing is fetched from it.",
            Untrusted::Expired => "The origin's certificate has expired, so nothing is fetched from it.",
            Untrusted::TooEarly => "The origin's certificate is not valid yet, so nothing is fetched from it.",
            Untrusted::Revoked => {
                "The origin's certificate has been revoked by its authority, so nothing is fetched from it."
            }
            Untrusted::Unlisted => {
                "The proxy's list of what the authority of the origin's certificate has revoked is out of date or no use, so \
                 nothing is fetched from the origin."
            }
            Untrusted::Otherwise => "The origin's certificate cannot be trusted, so nothing is fetched from it.",
        }
    }
}

/// Why a proxy that is offline has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    NotStored,
    Part,
    MustValidate,
    Unwanted,
    NotForCache,
    Tunnel,
}

impl Unanswered {
    fn sentence(self) -> &'static str {
        match self {
            Unanswered::NotStored => {
                "The proxy is offline and asks no origin. No response to this request is in the cache."
            }
            Unanswered::Part => {
                "The proxy is offline and asks no origin. Only a part of what the request asks for is in the cache."
            }
            Unanswered::MustValidate => {
                "The proxy is offline and asks no origin. The response in the cache is stale and must be validated before it is used."
            }
            Unanswered::Unwanted => {
                "The proxy is offline and asks no origin. The response in the cache is older than the request allows, or the request \
                 asks for its validation."
            }
            Unanswered::NotForCache => {
                "The proxy is offline and asks no origin. Requests of this kind are not answered from the cache."
            }
            Unanswered::Tunnel => "The proxy is offline and asks no origin. Tunnels are closed meanwhile.",
        }
    }
}

impl From<BadField> for Failure {
    fn from(bad: BadField) -> Failure {
        Failure::Internal(bad.to_string())
    }
}

impl From<Over> for Failure {
    fn from(over: Over) -> Failure {
        Failure::TooMuchOfClient(over)
    }
}

impl Failure {
    /// What the client of an intercepted tunnel is told, who trusts the proxy to look at the origin's certificate.
    pub fn reason_inside(&self) -> Reason {
        match self {
            Failure::Tls { untrusted: Some(why), .. } => Reason::Untrusted(*why),
            _ => self.reason(),
        }
    }

    /// What its client is told.
    pub fn reason(&self) -> Reason {
        match self {
            Failure::Refused(refusal) => Reason::Refused(*refusal),
            Failure::NotForProxy => Reason::NotForProxy,
            Failure::NoTunnels => Reason::NoTunnels,
            Failure::NotDiverted => Reason::NotDiverted,
            Failure::NoConnect => Reason::NoConnect,
            Failure::NoDestination(_) => Reason::Internal,
            Failure::NoRoute { .. } => Reason::NoRoute,
            Failure::Misdirected { .. } | Failure::OtherThanTunnel => Reason::Misdirected,
            Failure::NoUpgrade => Reason::NoUpgrade,
            Failure::ClientTls(_) => Reason::ClientTls,
            Failure::DotSegments => Reason::DotSegments,
            Failure::Denied(_) => Reason::Denied,
            Failure::Loop => Reason::Loop,
            Failure::TooManyConnections => Reason::TooManyConnections,
            Failure::TooManyOfClient => Reason::TooManyOfClient,
            Failure::TooMuchOfClient(over) => Reason::TooMuchOfClient(over.excess),
            Failure::NotCached => Reason::NotCached,
            Failure::Offline(why) => Reason::Offline(*why),
            Failure::Resolve { .. } | Failure::ResolveTimeout { .. } => Reason::NotResolved,
            Failure::Connect { .. } | Failure::ConnectTimeout { .. } => Reason::Unreachable,
            Failure::Tls { .. } => Reason::Insecure,
            Failure::AllOut { .. } => Reason::NoneAvailable,
            Failure::Origin(_) | Failure::BrokeOff { .. } => Reason::OriginFailed,
            Failure::OriginTimeout => Reason::OriginLate,
            Failure::Mirror(_) => Reason::Mirror,
            Failure::ReadOnly => Reason::ReadOnly,
            Failure::ClientLeft => Reason::ClientLeft,
            Failure::BadRequest => Reason::BadRequest,
            Failure::Internal(_) => Reason::Internal,
        }
    }

    /// The status to answer with.
    pub fn status(&self) -> u16 {
        match self {
            Failure::Refused(refusal) => refusal.status(),
            Failure::NotForProxy
            | Failure::NotDiverted
            | Failure::ClientLeft
            | Failure::BadRequest
            | Failure::DotSegments
            | Failure::ClientTls(_) => 400,
            Failure::NoUpgrade => 501,
            Failure::NoTunnels | Failure::NoConnect | Failure::ReadOnly => 405,
            Failure::NoRoute { .. } => 404,
            Failure::Misdirected { .. } | Failure::OtherThanTunnel => 421,
            Failure::Denied(_) => 403,
            Failure::Loop => 508,
            Failure::TooManyOfClient | Failure::TooMuchOfClient(_) => 429,
            Failure::TooManyConnections | Failure::AllOut { .. } => 503,
            Failure::Resolve { .. }
            | Failure::Connect { .. }
            | Failure::Tls { .. }
            | Failure::Origin(_)
            | Failure::BrokeOff { .. }
            | Failure::Mirror(_) => 502,
            Failure::NotCached
            | Failure::Offline(_)
            | Failure::ResolveTimeout { .. }
            | Failure::ConnectTimeout { .. }
            | Failure::OriginTimeout => 504,
            Failure::Internal(_) | Failure::NoDestination(_) => 500,
        }
    }

    /// Whether the origin could not be reached, whoever asks.
    pub fn is_unreachable(&self) -> bool {
        use Failure::*;
        matches!(
            self,
            Resolve { .. }
                | ResolveTimeout { .. }
                | Connect { .. }
                | ConnectTimeout { .. }
                | Tls { .. }
                | AllOut { .. }
        )
    }

    /// Whether a rule refused the request, rather than something failing.
    pub fn is_denial(&self) -> bool {
        matches!(
            self,
            Failure::Denied(_)
                | Failure::Loop
                | Failure::NoTunnels
                | Failure::NoConnect
                | Failure::NotDiverted
                | Failure::NotForProxy
                | Failure::ReadOnly
        )
    }

    /// Whether the origin's side failed, so that a stale answer may help.
    pub fn is_upstream(&self) -> bool {
        self.is_unreachable() || matches!(self, Failure::Origin(_) | Failure::OriginTimeout | Failure::BrokeOff { .. })
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
