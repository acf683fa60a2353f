//! Clients that know of no proxy, by plain HTTP: what is stored and shared, what is not, and what is refused. On a router in a network
//! of its own, with nftables as `tinaja intercept-hints` says.

use std::fs;
use std::process::Command;

use crate::support::network::{A, B, Got, Network, PORT, PRIVATE, ROUTER};
use tinaja_testkit::network::{Place, in_own_network};
use tinaja_testkit::tools::run;
use tinaja_testkit::wait::eventually;

/// Runs a test in a network of its own, or says that it is skipped.
pub fn with_network(test: &str, inside: impl FnOnce(Network)) {
    match in_own_network(test) {
        Place::Own => inside(Network::new()),
        Place::Passed => (),
        Place::Shared(why) => println!("skipped: no network of its own can be made here: {why}"),
    }
}

/// A listener for both versions of IP.
pub fn listener(by: &str) -> String {
    format!("[[listener]]\naddress = \"[::]:{PORT}\"\nmode = \"transparent\"\nby = \"{by}\"\n")
}

fn is_from(got: &Got, server: &str, hit: bool) {
    assert_eq!((got.status, got.server.as_str(), got.is_hit()), (200, server, hit), "{got:?}");
}

/// The second client costs the origin nothing, nor does one that knows of a proxy.
fn second_client_costs_nothing(by: &str, network: &Network) {
    network.settings("", &listener(by));
    let mut tinaja = network.start(&[]);
    network.divert(&[]);
    for (address, second) in A.iter().zip(["10.9.0.3", "fd00:9::3"]) {
        let path = format!("/{by}/{address}");
        let url = format!("http://a.test{path}");
        is_from(&network.curl(address, &url, &[]), "a", false);
        is_from(&network.curl(address, &url, &["--interface", second]), "a", true);
        is_from(&network.curl(address, &url, &["--http2-prior-knowledge"]), "a", true);
        is_from(&network.curl(address, &url, &["--request-target", &url]), "a", true);
        // curl's --connect-to is for the proxy here.
        is_from(
            &network.curl_here("root", "", &url, &["--noproxy", "", "--proxy", "http://127.0.0.1:3128"]),
            "a",
            true,
        );
        let asked = network.asked(&path);
        assert!(asked.len() == 1 && asked[0].starts_with(&format!("{address} http a.test ")), "{asked:?}");
        // The client's own address is nobody's but the proxy's to use.
        network.logged(&[
            &format!("\"url\":\"{url}\""),
            "TCP_MISS",
            &format!("\"origin\":\"{address}\""),
            "\"chosen\":",
        ]);
    }
    assert!(network.metric("tinaja_transparent_connections_total{outcome=\"http\"}") >= 8);
    assert_eq!(network.metric("tinaja_transparent_unproved_requests_total"), 0);
    // Where the client's choice does not answer, another address of the name's does.
    is_from(&network.curl("198.41.0.9", "http://moved.test/moved", &[]), "a", false);
    assert!(tinaja.terminate().success(), "{}", network.said());
    // While nobody listens: what is redirected is refused, and tproxy lets it pass.
    for address in A {
        let got = network.curl(address, "http://a.test/alone", &[]);
        let expected = if by == "redirect" { (0, "") } else { (200, "a") };
        assert_eq!(
            (got.status, got.server.as_str(), got.cache_status.as_str()),
            (expected.0, expected.1, ""),
            "{got:?}"
        );
    }
}

#[test]
fn a_second_client_costs_the_origin_nothing_by_redirect() {
    with_network("transparent::a_second_client_costs_the_origin_nothing_by_redirect", |network| {
        second_client_costs_nothing("redirect", &network);
    });
}

#[test]
fn a_second_client_costs_the_origin_nothing_by_tproxy() {
    with_network("transparent::a_second_client_costs_the_origin_nothing_by_tproxy", |network| {
        second_client_costs_nothing("tproxy", &network);
    });
}

/// CVE-2009-0801: whoever stores what a host's name is said to have at somebody else's address gives it to everybody.
#[test]
fn a_host_that_lies_is_not_shared() {
    with_network("transparent::a_host_that_lies_is_not_shared", |network| {
        network.settings("", &listener("redirect"));
        let _tinaja = network.start(&[]);
        network.divert(&[]);
        for (n, (a, b)) in A.iter().zip(B).enumerate() {
            let url = format!("http://a.test/lie/{n}");
            for _ in 0..2 {
                let got = network.curl(b, &url, &[]);
                is_from(&got, "b", false);
                assert!(
                    got.cache_status.contains("fwd=bypass") && got.cache_status.ends_with("detail=HOST_NOT_PROVED"),
                    "{got:?}"
                );
            }
            // Whoever is honest gets the true one, and it stays so.
            is_from(&network.curl(a, &url, &[]), "a", false);
            is_from(&network.curl(a, &url, &[]), "a", true);
            is_from(&network.curl(b, &url, &[]), "b", false);
            let asked = network.asked(&format!("/lie/{n}"));
            let hosts: Vec<_> =
                asked.iter().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
            let (lie, truth) = (format!("{b} http a.test"), format!("{a} http a.test"));
            assert_eq!(hosts, [lie.clone(), lie.clone(), truth, lie]);
            // One that names the address gets what is there, stored under the address.
            let host = if a.contains(':') { format!("[{a}]") } else { (*a).to_owned() };
            let url = format!("http://{host}/address");
            is_from(&network.curl(a, &url, &[]), "a", false);
            is_from(&network.curl(a, &url, &[]), "a", true);
            is_from(&network.curl(b, &url, &[]), "b", false);
        }
        // No Host at all is for the address; another port, another scheme and names that nobody knows prove nothing.
        let old = ["--http1.0", "-H", "Host:"];
        is_from(&network.curl(A[0], "http://a.test/old", &old), "a", false);
        is_from(&network.curl(A[0], "http://a.test/old", &old), "a", true);
        for url in ["http://unknown.test/", "http://b.test/"] {
            let got = network.curl(A[0], url, &[]);
            is_from(&got, "a", false);
            assert!(got.cache_status.ends_with("detail=HOST_NOT_PROVED"), "{got:?}");
        }
        let got = network.curl(A[0], "http://a.test/port", &["-H", "Host: a.test:8080"]);
        assert!(got.cache_status.ends_with("detail=HOST_NOT_PROVED"), "{got:?}");
        assert_eq!(network.curl(A[0], "http://a.test/", &["--request-target", "https://a.test/"]).status, 421);
        assert!(network.metric("tinaja_transparent_unproved_requests_total") >= 11);
    });
}

#[test]
fn where_clients_may_not_go_they_do_not_come_this_way() {
    with_network("transparent::where_clients_may_not_go_they_do_not_come_this_way", |network| {
        for by in ["redirect", "tproxy"] {
            network.settings("", &listener(by));
            let mut tinaja = network.start(&[]);
            if by == "redirect" {
                // No connection is tracked yet: nobody knows where one was going.
                assert_eq!(network.curl(ROUTER, &format!("http://{ROUTER}:{PORT}/"), &[]).status, 0);
                assert_eq!(network.metric("tinaja_transparent_connections_total{outcome=\"unknown\"}"), 1);
                network.logged(&["error:no-destination", "nf_conntrack"]);
            }
            network.divert(&[]);
            network.divert_private(by);
            let path = format!("/inside/{by}");
            for host in ["private.test", PRIVATE, "a.test"] {
                let got = network.curl(PRIVATE, &format!("http://{host}{path}"), &[]);
                assert_eq!((got.status, got.server.as_str()), (403, ""), "{got:?}");
            }
            assert_eq!(network.curl(PRIVATE, &format!("https://private.test{path}"), &["-k"]).status, 0);
            // A name that leads inside is not followed there from an address outside.
            is_from(&network.curl(A[0], &format!("http://private.test{path}"), &[]), "a", false);
            let asked = network.asked(&path);
            assert!(asked.len() == 1 && asked[0].starts_with(A[0]), "{asked:?}");
            // Made to the listener itself, which is in no cache's way.
            let refused = network.metric("tinaja_transparent_connections_total{outcome=\"direct\"}");
            let got = network.curl(ROUTER, &format!("http://{ROUTER}:{PORT}/"), &[]);
            assert!(got.status == 400 && got.body.contains("transparent proxy"), "{got:?}");
            let got = network.curl("fd00:9::1", &format!("http://a.test:{PORT}/"), &["-x", ""]);
            assert_eq!(got.status, 400, "{got:?}");
            assert_eq!(network.curl(ROUTER, &format!("https://{ROUTER}:{PORT}/"), &["-k"]).status, 0);
            assert_eq!(network.metric("tinaja_transparent_connections_total{outcome=\"direct\"}"), refused + 3);
            network.logged(&["error:made-to-the-listener", "TCP_DENIED"]);
            assert!(tinaja.terminate().success(), "{}", network.said());

            let open = listener(by) + &format!("allow_destination = \"{PRIVATE}\"\n");
            network.settings("", &open);
            let mut tinaja = network.start(&[]);
            is_from(&network.curl(PRIVATE, &format!("http://private.test{path}"), &[]), "private", false);
            is_from(&network.curl(PRIVATE, &format!("http://private.test{path}"), &[]), "private", true);
            is_from(&network.curl(PRIVATE, &format!("https://private.test{path}"), &["-k"]), "private", false);
            assert!(tinaja.terminate().success(), "{}", network.said());
        }
    });
}

#[test]
fn what_is_no_http_gets_an_answer_or_an_end() {
    with_network("transparent::what_is_no_http_gets_an_answer_or_an_end", |network| {
        network.settings("", &listener("redirect"));
        let mut tinaja = network.start(&[]);
        network.divert(&[]);
        // To its end: cat returns when the connection is closed.
        let say = |what: &str| {
            network
                .shell(&format!("exec 3<>/dev/tcp/{}/80; printf '{what}' >&3; timeout 60 cat <&3; echo end $?", A[0]))
        };
        for (what, answer) in [
            ("SSH-2.0-OpenSSH_9.2\\r\\n\\r\\n", "HTTP/1.1 400 "),
            ("\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03\\r\\n\\r\\n", "HTTP/1.1 400 "),
            ("CONNECT a.test:443 HTTP/1.1\\r\\nHost: a.test:443\\r\\n\\r\\n", "HTTP/1.1 405 "),
            ("GET / HTTP/1.1\\r\\n\\r\\n", "HTTP/1.1 400 "),
        ] {
            let said = say(what);
            assert!(said.starts_with(answer) && said.ends_with("end 0\n"), "{what}: {said}");
        }
        // A client that has left is no reason to wait, nor is one that hangs up in between.
        network.shell(&format!("exec 3<>/dev/tcp/{}/80; printf 'GET / HT' >&3", A[0]));
        eventually("all connections to end", || network.metric("tinaja_connections") == 0);
        assert!(tinaja.terminate().success(), "{}", network.said());
        // One that says nothing is waited for, and not for ever.
        network.settings("[limits]\nidle = \"1s\"\n", &listener("redirect"));
        let _tinaja = network.start(&[]);
        assert_eq!(say(""), "end 0\n");
    });
}

/// A client that knows of no proxy takes what it is given for the server's.
#[test]
fn an_upgrade_is_passed_on() {
    const ECHO: &str = "
import socket
listener = socket.create_server(('198.41.0.5', 8080))
while True:
    stream, _ = listener.accept()
    head = b''
    while b'\\r\\n\\r\\n' not in head:
        more = stream.recv(4096)
        if not more: break
        head += more
    if head:
        stream.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n')
        stream.sendall(head.split(b'\\r\\n\\r\\n', 1)[1])
        while more := stream.recv(4096): stream.sendall(more)
    stream.close()
";
    with_network("transparent::an_upgrade_is_passed_on", |network| {
        network.settings("", &listener("redirect"));
        let _tinaja = network.start(&[]);
        network.divert(&[]);
        let _echo = network.serve_by(ECHO, B[0], 8080);
        // One more port, as an operator may add it.
        let more = "meta nfproto ipv4 tcp dport 8080 redirect to :3129";
        run(Command::new("nft").args(["add", "rule", "inet", "tinaja", "nat_router"]).arg(more));
        let asks = "GET /chat HTTP/1.1\\r\\nHost: b.test:8080\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n";
        let say = format!("printf '{asks}hello\\n' >&3; timeout 60 grep -m 1 -o '^hello' <&3");
        let script = format!("exec 3<>/dev/tcp/{}/8080; {say}", B[0]);
        assert_eq!(network.shell(&script), "hello\n");
        assert_eq!(network.metric("tinaja_requests_total{result=\"tunnel\",status=\"2xx\"}"), 1);
    });
}

/// An origin that does not switch still speaks HTTP, and so does the client: what it sends is judged by nobody.
#[test]
fn an_upgrade_that_is_declined_ends_the_connection() {
    const DECLINES: &str = "
import socket
listener = socket.create_server(('198.41.0.5', 8080))
while True:
    stream, _ = listener.accept()
    come = b''
    while more := stream.recv(4096):
        if not come:
            if b'/chunked' in more:
                stream.sendall(b'HTTP/1.1 103 Early Hints\\r\\nLink: </a>\\r\\n\\r\\n')
                stream.sendall(b'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nno\\r\\n0\\r\\n\\r\\n')
            else:
                stream.sendall(b'HTTP/1.1 426 Upgrade Required\\r\\nContent-Length: 2\\r\\n\\r\\nno')
        come += more
    if come: print(come, 'ended', flush=True)
    stream.close()
";
    with_network("transparent::an_upgrade_that_is_declined_ends_the_connection", |network| {
        network.settings("", &listener("redirect"));
        let _tinaja = network.start(&[]);
        network.divert(&[]);
        let _declines = network.serve_by(DECLINES, B[0], 8080);
        let more = "meta nfproto ipv4 tcp dport 8080 redirect to :3129";
        run(Command::new("nft").args(["add", "rule", "inet", "tinaja", "nat_router"]).arg(more));
        for (path, status, end) in
            [("/length", "HTTP/1.1 426 ", "\r\n\r\nno"), ("/chunked", "HTTP/1.1 103 ", "2\r\nno\r\n0\r\n\r\n")]
        {
            let asks = format!(
                "GET {path} HTTP/1.1\\r\\nHost: b.test:8080\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n"
            );
            let posts = "POST /denied HTTP/1.1\\r\\nHost: b.test:8080\\r\\nContent-Length: 0\\r\\n\\r\\n";
            let script =
                format!("exec 3<>/dev/tcp/{}/8080; printf '{asks}{posts}' >&3; timeout 60 cat <&3; echo end $?", B[0]);
            let said = network.shell(&script);
            assert!(said.starts_with(status) && said.ends_with(&format!("{end}end 0\n")), "{said}");
            assert!(said.contains("Connection: close\r\n") && said.contains("Via: "), "{said}");
            let came = || fs::read_to_string(network.path("python.output")).unwrap();
            eventually("the origin's connection to end", || came().contains(path));
            assert!(came().contains("Upgrade: echo") && !came().contains("POST"), "{}", came());
            network.logged(&[path, "TCP_MISS", "\"method\":\"GET\""]);
        }
    });
}
