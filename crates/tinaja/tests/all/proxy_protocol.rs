//! The PROXY protocol as real programs speak it: curl, and HAProxy with both versions, also before TLS.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use crate::support::home::Home;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, run};
use tinaja_testkit::wait::eventually;

/// An origin that says who its proxy says the client is.
fn telling() -> Origin {
    Origin::start(|request, stream| {
        let told = request.field("x-forwarded-for").unwrap_or_default();
        reply(stream, request, 200, "Cache-Control: no-store\r\n", told.as_bytes())
    })
}

fn told(origin: &Origin, network: &str) -> String {
    format!("mode = \"reverse\"\norigin = \"{}\"\nproxy_protocol = \"{network}\"", origin.url(""))
}

fn curl(dir: &Path, url: &str, more: &[&str]) -> String {
    run(client("curl", dir).args(["-sS", "--fail", "--max-time", "20", "--noproxy", "", url]).args(more))
}

fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// HAProxy, which sends what comes at each address to a server, with these words.
fn haproxy(dir: &TempDir, all: &[(SocketAddr, SocketAddr, &str)]) -> Process {
    let mut text = "defaults\n mode tcp\n timeout connect 10s\n timeout client 30s\n timeout server 30s\n".to_owned();
    for (number, (listen, server, words)) in all.iter().enumerate() {
        text += &format!("listen l{number}\n bind {listen}\n server s {server} {words}\n");
    }
    let file = dir.path().join("haproxy.cfg");
    fs::write(&file, text).unwrap();
    let mut command = client("haproxy", dir.path());
    let mut process = Process::start("haproxy", command.arg("-db").arg("-f").arg(&file), &dir.path().join("output"));
    all.iter().for_each(|(listen, ..)| process.wait_until_listening(*listen));
    process
}

#[test]
fn curl_says_where_it_is() {
    let (origin, home) = (telling(), Home::new());
    let tinaja = home.start(&told(&origin, "127.0.0.0/8"));
    let url = format!("http://{}/", home.listen);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let more = ["--haproxy-protocol", "--interface", "127.0.0.9", version];
        assert_eq!(curl(home.dir.path(), &url, &more), "127.0.0.9", "{version}");
    }
    drop(tinaja);
}

#[test]
fn clients_of_haproxy_are_known_by_their_own_addresses() {
    let (origin, home, mut secured) = (telling(), Home::new(), Home::new());
    let www = secured.certificate("www", "DNS:www.test");
    let _plain = home.start(&told(&origin, "127.0.0.1"));
    let _tls = secured.start(&told(&origin, "127.0.0.1"));
    let (dir, [one, two, checked, tls]) = (TempDir::new().unwrap(), [free(), free(), free(), free()]);
    let _haproxy = haproxy(
        &dir,
        &[
            (one, home.listen, "send-proxy"),
            (two, home.listen, "send-proxy-v2 proxy-v2-options unique-id,crc32c"),
            (checked, home.listen, "send-proxy-v2 check check-send-proxy inter 100ms"),
            (tls, secured.listen, "send-proxy-v2"),
        ],
    );
    for (number, address) in [one, two, checked].into_iter().enumerate() {
        let from = format!("127.0.0.{}", 20 + number);
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let url = format!("http://{address}/");
            assert_eq!(curl(home.dir.path(), &url, &["--interface", &from, version]), from, "{address} {version}");
        }
        eventually("the log has the client", || {
            fs::read_to_string(home.path("access.log")).is_ok_and(|log| log.contains(&format!(" {from} ")))
        });
    }
    let authority = www.authority.to_str().unwrap();
    for version in ["--http1.1", "--http2"] {
        let to = format!("www.test:{}:127.0.0.1", tls.port());
        let more = ["--interface", "127.0.0.30", "--resolve", &to, "--cacert", authority, version];
        assert_eq!(curl(dir.path(), &format!("https://www.test:{}/", tls.port()), &more), "127.0.0.30", "{version}");
    }
    // Those who are not HAProxy are read as ever.
    assert_eq!(curl(dir.path(), &format!("http://{}/", home.listen), &["--interface", "127.0.0.40"]), "127.0.0.40");
    // Its checks are no failures.
    let said = fs::read_to_string(home.path("output")).unwrap();
    assert!(!said.contains("PROXY protocol"), "{said}");
}
