use super::*;
use crate::rules::Purging;

/// What stood on pages: where the proxy could not connect to, and the flag that opens an address. Whatever is put into a
/// failure, its client is told the same.
#[test]
fn clients_are_told_nothing_of_the_operators_side() {
    let (inside, port) = ("inside.example".to_owned(), 8443);
    let address = SocketAddr::from(([10, 1, 2, 3], port));
    for failure in [
        Failure::NoRoute { host: inside.clone() },
        Failure::Misdirected { host: inside.clone() },
        Failure::Denied(Denied::Rule(7)),
        Failure::Denied(Denied::Address { address: address.ip(), kind: "a private address (RFC 1918)" }),
        Failure::Denied(Denied::TunnelPort(port)),
        Failure::Denied(Denied::PlainPort(port)),
        Failure::Denied(Denied::Purge(Purging::Ban)),
        Failure::Resolve { host: inside.clone(), error: inside.clone() },
        Failure::ResolveTimeout { host: inside.clone() },
        Failure::Connect { address, error: inside.clone() },
        Failure::ConnectTimeout { address },
        Failure::Tls { host: inside.clone(), address, error: inside.clone(), untrusted: Some(Untrusted::Name) },
        Failure::ClientTls(inside.clone()),
        Failure::AllOut { origins: 7, last: inside.clone() },
        Failure::Origin(inside.clone()),
        Failure::Mirror(inside.clone()),
        Failure::Internal(inside.clone()),
    ] {
        let (said, logged) = (failure.reason().sentence(), failure.to_string());
        for hidden in ["inside", "10.1.2.3", "8443", "--", "private", "rule 7", "7"] {
            assert!(!said.contains(hidden), "{failure:?}: {said}");
        }
        assert_ne!(said, logged, "the log says more");
    }
}

/// Not 401, 407 and 426, which need fields that no page has, and 421 only where the proxy stands for the server (RFC 9110 15.5).
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
        (Failure::NoConnect, 405),
        (Failure::NotDiverted, 400),
        (Failure::NoDestination(text()), 500),
        (Failure::ReadOnly, 405),
        (Failure::Mirror(text()), 502),
        (Failure::Loop, 508),
        (Failure::TooManyConnections, 503),
        (Failure::TooManyOfClient, 429),
        (Failure::NotCached, 504),
        (Failure::Offline(Unanswered::Tunnel), 504),
        (Failure::Resolve { host: text(), error: text() }, 502),
        (Failure::ResolveTimeout { host: text() }, 504),
        (Failure::Connect { address, error: text() }, 502),
        (Failure::ConnectTimeout { address }, 504),
        (Failure::Tls { host: text(), address, error: text(), untrusted: None }, 502),
        (Failure::OtherThanTunnel, 421),
        (Failure::NoUpgrade, 501),
        (Failure::AllOut { origins: 3, last: text() }, 503),
        (Failure::Origin(text()), 502),
        (Failure::OriginTimeout, 504),
        (Failure::Internal(text()), 500),
    ] {
        assert_eq!(failure.status(), status, "{failure:?}");
    }
    use Refusal::*;
    for refusal in [HeadTooLarge, TooManyFields, TargetTooLong, RequestLine, Method, Version, TransferCoding, TooSlow] {
        assert!(matches!(Failure::Refused(refusal).status(), 400 | 408 | 414 | 431 | 501 | 505), "{refusal:?}");
    }
}
