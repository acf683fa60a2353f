//! Clients that know of no proxy, by HTTPS: what rules say of the name in the TLS, and of the address.

use std::fs;

use crate::support::network::{A, B, Network, SILENT};
use crate::transparent::{listener, with_network};
use tinaja_testkit::wait::eventually;

/// Looks into `a.test`, leaves all else alone, and has no tunnels to `c.test`.
const RULES: &str = "[[intercept]]\nhost = [\"a.test\", \"c.test\"]\nclient = [\"10.9.0.2\", \"10.9.0.3\", \"fd00:9::/64\"]\n\
                     action = \"cache\"\n[[intercept]]\nhost = \"d.test\"\naction = \"refuse\"\n";

fn trusting(network: &Network, authority: &str) -> String {
    network.path(authority).display().to_string()
}

fn names_decide(by: &str, network: &Network) {
    network.settings(RULES, &listener(by));
    let mut tinaja = network.start(&[]);
    network.divert(&[]);
    let (ours, theirs) = (trusting(network, "authority/ca.pem"), trusting(network, "b/ca.pem"));
    for ((a, b), second) in A.iter().zip(B).zip(["10.9.0.3", "fd00:9::3"]) {
        let path = format!("/{by}/{a}");
        let (url, other) = (format!("https://a.test{path}"), format!("https://b.test{path}"));
        let ask = |more: &[&str]| network.curl(a, &url, &[&["--cacert", ours.as_str()], more].concat());
        for (more, hit) in [(&[][..], false), (&["--interface", second], true), (&["--http1.1"], true)] {
            let got = ask(more);
            assert_eq!((got.status, got.server.as_str(), got.is_hit()), (200, "a", hit), "{got:?}");
        }
        let asked = network.asked(&path);
        assert!(asked.len() == 1 && asked[0].starts_with(&format!("{a} https a.test ")), "{asked:?}");
        // Left alone: with its own certificate, each time from its own server.
        for _ in 0..2 {
            let got = network.curl(b, &other, &["--cacert", &theirs]);
            assert_eq!((got.status, got.server.as_str(), got.cache_status.as_str()), (200, "b", ""), "{got:?}");
        }
        network.logged(&[
            "CONNECT",
            "TCP_TUNNEL",
            &format!("\"chosen\":\"{}\"", std::net::SocketAddr::new(b.parse().unwrap(), 443)),
        ]);
        // A name that lies about the address: its server does not prove it, so nothing is fetched, and nothing stored.
        let lie = format!("https://a.test{path}/lie");
        let got = network.curl(b, &lie, &["--cacert", &ours]);
        assert!(
            got.status == 502 && got.body.contains("for another name") || got.body.contains("no authority"),
            "{got:?}"
        );
        assert!(network.asked(&format!("{path}/lie")).is_empty());
        let got = network.curl(a, &lie, &["--cacert", &ours]);
        assert_eq!((got.status, got.server.as_str(), got.is_hit()), (200, "a", false), "{got:?}");
        // A tunnel for a name that lies goes to the address, whose server has another certificate.
        assert_eq!(network.curl(a, &other, &["--cacert", &theirs]).status, 0);
        // Another Host than the name is not answered.
        assert_eq!(network.curl(a, &url, &["--cacert", &ours, "-H", "Host: b.test"]).status, 421);
        assert_eq!(network.curl(a, "https://d.test/", &["-k"]).status, 0, "refused by a rule");
    }
    // Without a name the address decides: no rule names it.
    let got = network.curl(A[0], &format!("https://{}/{by}", A[0]), &["--cacert", &trusting(network, "a/ca.pem")]);
    assert_eq!((got.status, got.server.as_str(), got.cache_status.as_str()), (200, "a", ""), "{got:?}");
    // What is no TLS goes through as it is, and so does what no server would take.
    let said = network
        .shell(&format!("exec 3<>/dev/tcp/{}/443; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; timeout 60 cat <&3", A[0]));
    assert!(said.contains("plain HTTP request was sent to HTTPS port"), "{said}");
    let said = network.shell(&format!(
        "exec 3<>/dev/tcp/{}/443; printf '\\x16\\x03\\x01\\x00\\x05hello' >&3; timeout 60 cat <&3; echo end",
        A[0]
    ));
    assert!(said.ends_with("end\n"), "{said}");
    assert_eq!(network.metric("tinaja_intercept_tunnels_total{outcome=\"refused\"}"), 2);
    assert!(network.metric("tinaja_transparent_connections_total{outcome=\"tls\"}") >= 16);
    assert!(tinaja.terminate().success(), "{}", network.said());
    // What was in tunnels is in no log.
    let log = fs::read_to_string(network.path("access.log")).unwrap();
    assert!(!log.contains(&format!("/{by}/")), "{log}");
    fs::remove_file(network.path("access.log")).unwrap();
}

#[test]
fn names_in_the_tls_decide_by_redirect() {
    with_network("transparent_tls::names_in_the_tls_decide_by_redirect", |network| names_decide("redirect", &network));
}

#[test]
fn names_in_the_tls_decide_by_tproxy() {
    with_network("transparent_tls::names_in_the_tls_decide_by_tproxy", |network| names_decide("tproxy", &network));
}

/// Only a certificate proves the name: one client's choice of an address that never answers is not to keep others waiting.
#[test]
fn nobody_waits_for_one_who_chose_an_address_that_never_answers() {
    with_network("transparent_tls::nobody_waits_for_one_who_chose_an_address_that_never_answers", |network| {
        network.settings(&format!("{RULES}[limits]\nconnect = \"1h\"\ncollapse = \"1h\"\n"), &listener("redirect"));
        let _tinaja = network.start(&[]);
        network.divert(&[]);
        let ours = trusting(&network, "authority/ca.pem");
        let _waits = network.start_curl(SILENT, "https://a.test/slow", &["--cacert", &ours]);
        eventually("a fetch that waits", || network.metric("tinaja_waiting_fetches") == 1);
        let got = network.curl(A[0], "https://a.test/slow", &["--cacert", &ours]);
        assert_eq!((got.status, got.server.as_str()), (200, "a"), "{got:?}");
        assert_eq!(network.metric("tinaja_waiting_fetches"), 1);
        let got = network.curl(A[0], "https://a.test/slow", &["--cacert", &ours]);
        assert!(got.is_hit(), "{got:?}");
    });
}
