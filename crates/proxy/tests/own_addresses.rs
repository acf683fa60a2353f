//! The proxy's own public addresses, as the system has them.
//!
//! A client asked a proxy for the proxy's public address, and came over loopback to services that listen for their own host alone,
//! or for a network that has the machine in it. The test runs once more in a network of its own, where it may give loopback an
//! address of somebody else's; that takes root, without which it is skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod support;

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use support::{Origin, Proxy, reply};
use tinaja_proxy::{Rule, Rules};
use tinaja_testkit::network::{Place, in_own_network};

fn have(address: &str) {
    let done = Command::new("ip").args(["address", "add", address, "dev", "lo"]).status().unwrap();
    assert!(done.success(), "{address}");
}

#[test]
fn own_public_addresses_are_refused() {
    match in_own_network("own_public_addresses_are_refused") {
        Place::Own => inside(),
        Place::Passed => (),
        Place::Shared(why) => println!("skipped: no network of its own can be made here: {why}"),
    }
}

fn inside() {
    have("198.41.0.4/32");
    have("2001:500:2::c/128");
    let origin = |address: &str| {
        let listener = TcpListener::bind(address).unwrap();
        Origin::on(listener, |request, stream| reply(stream, request, 200, "Cache-Control: max-age=60\r\n", b"secret"))
    };
    let trusting = |config: &mut tinaja_proxy::Config| {
        // It trusts its client, and opens another network and a port for tunnels.
        let mut rules = Rules::from(vec![Rule::allow_destination("10.0.0.0/8".parse().unwrap())]);
        rules.push(Rule { clients: vec!["127.0.0.0/8".parse().unwrap()], ..Rule::new(tinaja_proxy::Action::Allow) });
        config.listeners[0].rules = rules;
    };
    let (proxy, hand) = Proxy::by_hand(trusting);
    for address in ["198.41.0.4:0", "[2001:500:2::c]:0"] {
        let origin = origin(address);
        assert_eq!(proxy.get(&origin.url("/")).status, 403, "{address}");
        let named = |config: &mut tinaja_proxy::Config| {
            config.listeners[0].rules.push(Rule::allow_connect_port(origin.address.port()));
        };
        let tunnels = Proxy::with(named);
        let mut client = tunnels.client();
        client.send(format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", origin.address));
        assert_eq!(client.read("CONNECT").unwrap().status, 403, "{address}");
        assert_eq!(origin.count(), 0, "{address}");
        // A rule that names it opens it.
        let open = Proxy::with(|config| {
            config.listeners[0].rules.push(Rule::allow_destination(origin.address.ip().to_string().parse().unwrap()));
        });
        assert_eq!(open.get(&origin.url("/")).status, 200, "{address}");
    }
    // One that comes later is known soon. What was fetched from it before is not served to those who may not go there.
    let later = "198.41.0.9";
    assert_eq!(proxy.get(&format!("http://{later}:8080/")).status, 502, "nobody has it yet");
    have(&format!("{later}/32"));
    let origin = origin(&format!("{later}:0"));
    assert_eq!(proxy.get(&origin.url("/kept")).status, 200, "as of a moment ago");
    assert!(proxy.get(&origin.url("/kept")).is_hit());
    hand.advance(Duration::from_secs(10));
    for path in ["/kept", "/new"] {
        assert_eq!(proxy.get(&origin.url(path)).status, 403, "{path}");
    }
    assert_eq!(origin.count(), 1);
}
