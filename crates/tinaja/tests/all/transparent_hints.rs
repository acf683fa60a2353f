//! What `tinaja intercept-hints` prints: QUIC, the machine's own connections, what comes back, and a new process that takes over.

use std::process::Command;

use crate::support::network::{A, INWARD, Network, PRIVATE};
use crate::support::tinaja::binary;
use crate::transparent::{listener, with_network};
use tinaja_testkit::tools::{env_of, output, run};
use tinaja_testkit::wait::eventually;

/// What comes back for a datagram that a client sends: one just like it, or a refusal.
fn datagram(network: &Network, address: &str, port: u16) -> String {
    network.shell(&format!("exec 3<>/dev/udp/{address}/{port}; printf x >&3; timeout 60 head -c 1 <&3"))
}

/// Sends back what comes to UDP ports 443 and 444.
const ECHO: &str = "
import select, socket
def at(address, port):
    udp = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, port))
    return udp
all = [at(address, port) for address in ['198.41.0.4', '2001:500:2::c'] for port in [443, 444]]
listener = socket.create_server(('198.41.0.4', 444))
while True:
    for udp in select.select(all, [], [])[0]:
        data, peer = udp.recvfrom(4096)
        udp.sendto(data, peer)
";

#[test]
fn quic_is_rejected_and_nothing_else_of_udp() {
    with_network("transparent_hints::quic_is_rejected_and_nothing_else_of_udp", |network| {
        let _echo = network.serve_by(ECHO, A[0], 444);
        A.iter().for_each(|address| assert_eq!(datagram(&network, address, 443), "x"));
        for by in ["redirect", "tproxy"] {
            network.settings("", &listener(by));
            network.divert(&[]);
            for address in A {
                let refused = datagram(&network, address, 443);
                assert!(refused.contains("Connection refused"), "{by} {address}: {refused}");
                assert_eq!(datagram(&network, address, 444), "x", "{by} {address}");
            }
            let rules = String::from_utf8(output(Command::new("nft").args(["list", "ruleset"])).stdout).unwrap();
            assert!(rules.contains("table inet tinaja") && rules.matches("table ").count() == 1, "{rules}");
        }
    });
}

/// A router is in the way of connections that are nobody's business here: those to servers behind it, and those between private networks.
/// It has a firewall that lets in what docs/transparent.md says, and nothing else that is new.
#[test]
fn what_comes_in_elsewhere_or_goes_to_private_networks_is_left_alone() {
    const INSIDE: &str = "
import socket, threading
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('198.51.100.7', 443))
listener = socket.create_server(('198.51.100.7', 80))
def echo():
    while True:
        data, peer = udp.recvfrom(4096)
        udp.sendto(data, peer)
threading.Thread(target=echo, daemon=True).start()
while True:
    stream, _ = listener.accept()
    stream.sendall(b'inside\\n')
    stream.close()
";
    with_network("transparent_hints::what_comes_in_elsewhere_or_goes_to_private_networks_is_left_alone", |network| {
        let _inside = network.serve_among_clients(INSIDE);
        for (by, comes) in
            [("redirect", "tcp dport 3129"), ("tproxy", "tcp dport { 80, 443 } meta mark and 0x1000 == 0x1000")]
        {
            let firewall = format!(
                "table inet firewall; delete table inet firewall; table inet firewall {{ chain input {{
                     type filter hook input priority filter; policy drop; ct state established,related accept;
                     iifname lo accept; icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept;
                     iifname clients {comes} accept; }}; }}"
            );
            run(Command::new("nft").arg(firewall));
            network.settings("", &listener(by));
            let mut tinaja = network.start(&[]);
            network.divert(&["--user", "root"]);
            let got = network.shell_outside(&format!("timeout 60 cat < /dev/tcp/{INWARD}/80"));
            assert_eq!(got, "inside\n", "{by}");
            let udp = format!("exec 3<>/dev/udp/{INWARD}/443; printf x >&3; timeout 60 head -c 1 <&3");
            assert_eq!(network.shell_outside(&udp), "x", "{by}");
            // Clients' and the router's own.
            let url = format!("http://{PRIVATE}/between/{by}");
            for got in [network.curl(PRIVATE, &url, &[]), network.curl_here("65534", PRIVATE, &url, &[])] {
                assert_eq!(
                    (got.status, got.server.as_str(), got.cache_status.as_str()),
                    (200, "private", ""),
                    "{got:?}"
                );
            }
            assert_eq!(network.metric("tinaja_transparent_connections_total{outcome=\"http\"}"), 0);
            // And theirs to everybody else are not.
            for address in A {
                let got = network.curl(address, "http://a.test/", &[]);
                assert!(!got.cache_status.is_empty(), "{got:?}");
            }
            assert!(tinaja.terminate().success(), "{}", network.said());
        }
    });
}

/// The router's own programs, of another user than the proxy.
#[test]
fn own_connections_are_sent_here_too() {
    with_network("transparent_hints::own_connections_are_sent_here_too", |network| {
        for by in ["redirect", "tproxy"] {
            network.settings("", &listener(by));
            let mut tinaja = network.start(&[]);
            network.divert(&["--user", "root"]);
            for address in A {
                let path = format!("/own/{by}/{address}");
                let url = format!("http://a.test{path}");
                for (user, cached) in [("65534", Some(false)), ("65534", Some(true)), ("root", None)] {
                    let got = network.curl_here(user, address, &url, &[]);
                    let is_hit = (!got.cache_status.is_empty()).then(|| got.is_hit());
                    assert_eq!((got.status, is_hit), (200, cached), "{by} {user} {got:?}");
                }
                assert_eq!(network.asked(&path).len(), 2);
                // And still those of others.
                assert!(network.curl(address, &url, &[]).is_hit());
            }
            assert!(tinaja.terminate().success(), "{}", network.said());
            // While nobody listens they do not pass, by tproxy neither: their mark keeps them here.
            for address in A {
                let got = network.curl_here("65534", address, "http://a.test/", &["--max-time", "2"]);
                assert_eq!(got.status, 0, "{by} {got:?}");
            }
        }
    });
}

/// The wrong user is left out: what the proxy sends comes back to it.
#[test]
fn what_comes_back_is_refused_and_goes_round_no_further() {
    with_network("transparent_hints::what_comes_back_is_refused_and_goes_round_no_further", |network| {
        network.settings("", &listener("redirect"));
        let _tinaja = network.start(&[]);
        network.divert(&["--user", "65534"]);
        let got = network.curl(A[0], "http://a.test/loop", &[]);
        assert!(got.status == 508 && got.server.is_empty(), "{got:?}");
        assert_eq!(network.curl(A[0], "https://a.test/loop", &["-k"]).status, 0);
        network.logged(&["CONNECT", "Forwarding loop"]);
        // One that the client has made, and each further one that was made before it was known: they come to an end.
        eventually("all connections to end", || network.metric("tinaja_connections") == 0);
        assert!(network.asked("/loop").is_empty());
    });
}

#[test]
fn a_new_process_takes_over_and_a_reload_does_not_change_what_it_is() {
    with_network("transparent_hints::a_new_process_takes_over_and_a_reload_does_not_change_what_it_is", |network| {
        for by in ["redirect", "tproxy"] {
            network.settings("", &listener(by));
            let mut old = network.start(&[]);
            network.divert(&[]);
            let url = format!("http://a.test/over/{by}");
            assert_eq!(network.curl(A[0], &url, &[]).status, 200);
            // It needs no privilege for what it is given.
            let mut new = network.start_without_capabilities(&["--take-over"]);
            eventually("the old process to leave", || !old.is_running());
            let got = network.curl(A[0], &url, &[]);
            assert!(got.is_hit(), "{got:?}");
            network.settings("", &listener(if by == "redirect" { "tproxy" } else { "redirect" }));
            let told = output(binary(&network.dir).arg("reload").arg("--config").arg(network.path("tinaja.toml")));
            let why = String::from_utf8(told.stderr).unwrap();
            assert!(!told.status.success() && why.contains("is transparent, and how connections come to it"), "{why}");
            assert!(network.curl(A[0], &url, &[]).is_hit());
            assert!(new.terminate().success(), "{}", network.said());
        }
    });
}

#[test]
fn a_capability_that_is_missing_is_said_with_what_to_do() {
    with_network("transparent_hints::a_capability_that_is_missing_is_said_with_what_to_do", |network| {
        network.settings("", &listener("tproxy"));
        let run = |flags: &[&str]| {
            let mut command = Command::new("setpriv");
            env_of(&mut command, network.dir.path());
            command.args(["--bounding-set", "-net_admin,-net_raw", "--inh-caps", "-net_admin,-net_raw"]);
            command.arg(env!("CARGO_BIN_EXE_tinaja")).args(["serve", "--config"]).arg(network.path("tinaja.toml"));
            output(command.args(flags))
        };
        let checked = run(&["--check"]);
        let text = String::from_utf8(checked.stdout).unwrap();
        assert!(checked.status.success() && text.contains("is a transparent proxy on [::]:3129, by tproxy"), "{text}");
        assert!(text.contains("would warn") && text.contains("AmbientCapabilities=CAP_NET_ADMIN"), "{text}");
        let started = run(&[]);
        let why = String::from_utf8(started.stderr).unwrap();
        assert!(!started.status.success() && why.contains("AmbientCapabilities=CAP_NET_ADMIN"), "{why}");
        // By redirect it starts.
        network.settings("", &listener("redirect"));
        assert!(!String::from_utf8(run(&["--check"]).stdout).unwrap().contains("CAP_NET_ADMIN"));
    });
}
