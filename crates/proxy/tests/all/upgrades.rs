//! Requests that leave HTTP, as WebSockets do: by an access rule that names the protocol, in both modes, and never without an origin's 101.
//!
//! Upgrades ended at this proxy once, so that WebSockets behind it failed.

use std::io::{Read, Write};
use std::net::TcpStream;

use tinaja_proxy::{Action, Config, Mode, Routes, Rule};

use crate::support::{Client, Log, Origin, Proxy, Request};
use tinaja_testkit::origin::reply;
use tinaja_testkit::wait::eventually;

/// Says everything back, until the other side has said all.
fn echo(stream: &mut TcpStream) {
    let mut some = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut some) {
        if stream.write_all(&some[..read]).is_err() {
            return;
        }
    }
}

/// Switches at `/echo`, to something else at `/other`, without saying to what at `/silent`; declines elsewhere.
fn origin() -> Origin {
    Origin::start(|request: &Request, stream| {
        let switched = |fields: &str| format!("HTTP/1.1 101 Switching Protocols\r\n{fields}X-Kept: 1\r\n\r\n");
        let head = match request.path.as_str() {
            "/echo" => {
                switched("Connection: Upgrade, X-Own\r\nX-Own: 1\r\nUpgrade: WebSocket\r\nContent-Length: 3\r\n")
            }
            "/other" => switched("Connection: Upgrade\r\nUpgrade: h2c\r\n"),
            "/silent" => switched(""),
            _ => return reply(stream, request, 200, "Cache-Control: max-age=60\r\n", b"no socket"),
        };
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(b"hello").unwrap();
        echo(stream);
        false
    })
}

fn allow() -> Rule {
    Rule { upgrades: vec!["websocket".into()], ..Rule::new(Action::Allow) }
}

/// A proxy of each mode, and what comes before a path there.
fn in_both_modes(origin: &Origin, change: impl Fn(&mut Config)) -> [(Proxy, String); 2] {
    let to = format!("http://{}", origin.address);
    let forward = Proxy::with(&change);
    let reverse = Proxy::with(|config| {
        config.listeners[0].mode = Mode::Reverse(Routes::to(to.parse().unwrap()));
        change(config);
    });
    [(forward, to), (reverse, String::new())]
}

fn asking(origin: &Origin, url: &str, fields: &str) -> String {
    let host = origin.address;
    format!(
        "GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
    )
}

fn is_at_its_end(client: &Client) -> bool {
    client.stream().shutdown(std::net::Shutdown::Write).is_ok()
}

#[test]
fn bytes_go_both_ways_behind_the_origins_101() {
    let origin = origin();
    let log = Log::new();
    for (proxy, before) in in_both_modes(&origin, |config| {
        config.listeners[0].rules.push(allow());
        log.of(config);
    }) {
        let mut client = proxy.client();
        // What comes with the request goes with it: a client may know that the origin switches.
        client.send(asking(&origin, &format!("{before}/echo"), "Upgrade: h2c, websocket\r\n") + "early");
        let head = client.read("GET").unwrap();
        assert_eq!(head.status, 101, "{}", head.head);
        let field = |name| head.field(name).to_ascii_lowercase();
        assert_eq!((field("connection"), field("upgrade")), ("upgrade".into(), "websocket".into()), "{}", head.head);
        assert_eq!(
            (field("content-length"), field("x-own"), field("x-kept")),
            (String::new(), String::new(), "1".into())
        );
        assert!(field("via").contains("1.1 tinaja"), "{}", head.head);
        assert_eq!(client.read_bytes(10), b"helloearly");
        for length in [1_usize, 100_000] {
            client.send("x".repeat(length));
            assert_eq!(client.read_bytes(length), "x".repeat(length).as_bytes());
        }
        assert!(is_at_its_end(&client) && client.is_closed());
        let asked = origin.requests().pop().unwrap();
        let field = |name| asked.field(name).unwrap_or_default().to_ascii_lowercase();
        assert_eq!(
            (asked.path.as_str(), field("upgrade"), field("connection")),
            ("/echo", "websocket".into(), "upgrade".into())
        );
        assert_eq!(field("sec-websocket-version"), "13");
        // Nothing of it is stored.
        assert_eq!(proxy.store.stats().stored, 0);
        eventually("it is logged", || log.text().lines().any(|line| line.contains("\"status\":101")));
    }
    let logged = log.text();
    let switched: Vec<_> = logged.lines().filter(|line| line.contains("\"status\":101")).collect();
    assert!(switched.iter().all(|line| line.contains("TCP_TUNNEL") && line.contains("\"bytes\":100011")), "{logged}");
}

#[test]
fn without_the_origins_101_it_is_http_as_ever() {
    let origin = origin();
    for (proxy, before) in in_both_modes(&origin, |config| config.listeners[0].rules.push(allow())) {
        let mut client = proxy.client();
        let (no, next) = (format!("{before}/no"), format!("{before}/next"));
        // Behind it stands what would be a request of somebody else's if nobody judged it.
        client.send(asking(&origin, &no, "Upgrade: websocket\r\n"));
        let declined = client.read("GET").unwrap();
        assert_eq!((declined.status, declined.text().as_str()), (200, "no socket"));
        assert!(declined.cache_status().contains("fwd=bypass"), "{}", declined.head);
        client.send(format!("GET {next} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
        assert_eq!(client.read("GET").unwrap().status, 200, "the connection goes on");
        client.send("GET /hidden HTTP/1.1\r\nNo-Colon\r\n\r\n");
        assert_eq!(client.read("GET").unwrap().status, 400);
        assert_eq!(proxy.store.stats().stored, 1, "the one that asked for no upgrade");
        // To what nobody asked for, or to nothing.
        for path in ["/other", "/silent"] {
            let mut client = proxy.client();
            client.send(asking(&origin, &format!("{before}{path}"), "Upgrade: websocket\r\n"));
            assert_eq!(client.read("GET").unwrap().status, 502, "{path}");
            assert!(client.is_closed(), "{path}");
        }
    }
}

#[test]
fn what_no_rule_opens_goes_on_with_http() {
    let origin = origin();
    let (upgrade, host) = ("Upgrade: websocket\r\n", origin.address);
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 2] = [
        ("no rule", |_| {}),
        ("another protocol", |config| {
            config.listeners[0].rules.push(Rule { upgrades: vec!["tcp".into()], ..Rule::new(Action::Allow) });
        }),
    ];
    for (what, change) in changes {
        for (proxy, before) in in_both_modes(&origin, change) {
            let mut client = proxy.client();
            client.send(asking(&origin, &format!("{before}/no"), upgrade));
            assert_eq!(client.read("GET").unwrap().text(), "no socket", "{what}");
            assert_eq!(origin.requests().pop().unwrap().field("upgrade"), None, "{what}");
        }
    }
    // A rule is about what it says, and no more.
    for (proxy, before) in in_both_modes(&origin, |config| config.listeners[0].rules.push(allow())) {
        let url = format!("{before}/no");
        let old = format!("GET {url} HTTP/1.0\r\nHost: {host}\r\nConnection: Upgrade\r\n{upgrade}\r\n");
        let unsaid = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{upgrade}\r\n");
        let content = format!(
            "POST {url} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n{upgrade}Content-Length: 2\r\n\r\nhi"
        );
        for request in [old, unsaid, content, asking(&origin, &url, "Upgrade: h2c\r\n")] {
            let mut client = proxy.client();
            client.send(&request);
            assert_eq!(client.read("GET").unwrap().text(), "no socket", "{request}");
            assert!(
                origin.requests().iter().all(|asked| asked.path != "/echo" && asked.field("upgrade").is_none()),
                "{request}"
            );
        }
    }
}

#[test]
fn rules_say_who_may() {
    let origin = origin();
    let of = |action, network: &str| Rule { clients: vec![network.parse().unwrap()], action, ..allow() };
    for (proxy, before) in in_both_modes(&origin, |config| {
        // Before the one that opens this host for all.
        config.listeners[0].rules.put_first(&[of(Action::Deny, "127.0.0.0/8"), allow()]);
    }) {
        let mut client = proxy.client();
        client.send(asking(&origin, &format!("{before}/echo"), "Upgrade: websocket\r\n"));
        assert_eq!(client.read("GET").unwrap().status, 403);
        assert_eq!(proxy.get(&origin.url("/no")).status, 200, "what asks for no upgrade is another matter");
        assert!(origin.paths().iter().all(|path| path == "/no"));
    }
    let offline = Proxy::with(|config| {
        config.listeners[0].rules.push(allow());
        config.listeners[0].offline = true;
    });
    let mut client = offline.client();
    client.send(asking(&origin, &origin.url("/echo"), "Upgrade: websocket\r\n"));
    assert_eq!(client.read("GET").unwrap().status, 504);
}

/// A proxy that stops lets go of what never ends.
#[test]
fn a_stop_ends_them() {
    let origin = origin();
    let mut proxy = Proxy::with(|config| {
        config.listeners[0].rules.push(allow());
        config.limits.stop = std::time::Duration::from_millis(10);
    });
    let mut client = proxy.client();
    client.send(asking(&origin, &origin.url("/echo"), "Upgrade: websocket\r\n"));
    assert_eq!(client.read("GET").unwrap().status, 101);
    assert_eq!(client.read_bytes(5), b"hello");
    proxy.stop();
    assert!(client.is_closed());
}
