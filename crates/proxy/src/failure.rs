//! Why a request was not answered with what it asked for, in words for whoever sent it.

use std::net::SocketAddr;

use tinaja_http::message::BadField;
use tinaja_http::refusal::Refusal;

use crate::rules::Denied;

/// Why the proxy answers by itself. `Display` is the text of the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Refused(Refusal),
    #[error("This is a forward proxy and has no pages of its own. Configure it as the proxy of your client.")]
    NotForProxy,
    #[error("This is a reverse proxy and does not open tunnels.")]
    NoTunnels,
    #[error("This reverse proxy has no route for {host} and this path.")]
    NoRoute { host: String },
    #[error("This connection was made for another name, so {host} is not served over it. Use a separate connection.")]
    Misdirected { host: String },
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
    #[error("The proxy is offline and asks no origin. {0}")]
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
    Tls { host: String, address: SocketAddr, error: String },
    #[error("None of the {origins} origins is available now. Try again soon. The last failure: {last}")]
    AllOut { origins: usize, last: String },
    #[error("The origin failed: {0}.")]
    Origin(String),
    #[error("The origin did not answer in time.")]
    OriginTimeout,
    #[error("The client disconnected.")]
    ClientLeft,
    #[error("The request is malformed or incomplete.")]
    BadRequest,
    #[error("The proxy failed: {0}.")]
    Internal(String),
}

/// Why a proxy that is offline has no answer. `Display` is a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("No response to this request is in the cache.")]
    NotStored,
    #[error("Only a part of what the request asks for is in the cache.")]
    Part,
    #[error("The response in the cache is stale and must be validated before it is used.")]
    MustValidate,
    #[error("The response in the cache is older than the request allows, or the request asks for its validation.")]
    Unwanted,
    #[error("Requests of this kind are not answered from the cache.")]
    NotForCache,
    #[error("Tunnels are closed meanwhile.")]
    Tunnel,
}

impl From<BadField> for Failure {
    fn from(bad: BadField) -> Failure {
        Failure::Internal(bad.to_string())
    }
}

impl Failure {
    /// The status to answer with.
    pub fn status(&self) -> u16 {
        match self {
            Failure::Refused(refusal) => refusal.status(),
            Failure::NotForProxy | Failure::ClientLeft | Failure::BadRequest | Failure::DotSegments => 400,
            Failure::NoTunnels => 405,
            Failure::NoRoute { .. } => 404,
            Failure::Misdirected { .. } => 421,
            Failure::Denied(_) => 403,
            Failure::Loop => 508,
            Failure::TooManyConnections | Failure::AllOut { .. } => 503,
            Failure::Resolve { .. } | Failure::Connect { .. } | Failure::Tls { .. } | Failure::Origin(_) => 502,
            Failure::NotCached
            | Failure::Offline(_)
            | Failure::ResolveTimeout { .. }
            | Failure::ConnectTimeout { .. }
            | Failure::OriginTimeout => 504,
            Failure::Internal(_) => 500,
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
        matches!(self, Failure::Denied(_) | Failure::Loop | Failure::NoTunnels | Failure::NotForProxy)
    }

    /// Whether the origin's side failed, so that a stale answer may help.
    pub fn is_upstream(&self) -> bool {
        self.is_unreachable() || matches!(self, Failure::Origin(_) | Failure::OriginTimeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not 401, 407 and 426, which need fields that no page has, and never 421, which no proxy may give (RFC 9110 15.5).
    #[test]
    fn statuses_that_a_proxy_may_give() {
        let (text, address) = (String::new, SocketAddr::from(([127, 0, 0, 1], 80)));
        for (failure, status) in [
            (Failure::NotForProxy, 400),
            (Failure::DotSegments, 400),
            (Failure::BadRequest, 400),
            (Failure::ClientLeft, 400),
            (Failure::NoRoute { host: text() }, 404),
            (Failure::NoTunnels, 405),
            (Failure::Loop, 508),
            (Failure::TooManyConnections, 503),
            (Failure::NotCached, 504),
            (Failure::Offline(Unanswered::Tunnel), 504),
            (Failure::Resolve { host: text(), error: text() }, 502),
            (Failure::ResolveTimeout { host: text() }, 504),
            (Failure::Connect { address, error: text() }, 502),
            (Failure::ConnectTimeout { address }, 504),
            (Failure::Tls { host: text(), address, error: text() }, 502),
            (Failure::AllOut { origins: 3, last: text() }, 503),
            (Failure::Origin(text()), 502),
            (Failure::OriginTimeout, 504),
            (Failure::Internal(text()), 500),
        ] {
            assert_eq!(failure.status(), status, "{failure:?}");
        }
        use Refusal::*;
        for refusal in
            [HeadTooLarge, TooManyFields, TargetTooLong, RequestLine, Method, Version, TransferCoding, TooSlow]
        {
            assert!(matches!(Failure::Refused(refusal).status(), 400 | 408 | 414 | 431 | 501 | 505), "{refusal:?}");
        }
    }
}
