//! What belongs to one connection stays on it: both ways, on every path that a message can take.

use std::io::Write;

use crate::support::{Client, Origin, Proxy, Request, Response};

/// Sent by clients and origins alike; none of it may get through, X-Own for it is named in Connection.
const HOP: &str = "Connection: X-Own, keep-alive\r\nConnection: x-second\r\nX-Own: 1\r\nX-Second: 2\r\n\
                   Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X-End\r\n\
                   Upgrade: websocket\r\nX-Kept: 3\r\n";

/// Those that somebody could see, but for Connection, which each side sends for itself.
const GONE: [&str; 7] = ["x-own", "x-second", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"];

/// Answers everything so; `/stale` may be stored and has to be validated each time.
fn origin() -> Origin {
    Origin::start(|request, stream| {
        let caching = match request.path.as_str() {
            "/fresh" => "Cache-Control: max-age=60\r\nETag: \"a\"\r\n",
            "/stale" => "Cache-Control: max-age=0\r\nETag: \"a\"\r\n",
            _ => "Cache-Control: no-store\r\n",
        };
        let early =
            if request.path == "/early" { format!("HTTP/1.1 103 Early Hints\r\n{HOP}\r\n") } else { String::new() };
        let status = if request.field("if-none-match").is_some() { "304 Not Modified" } else { "200 OK" };
        let length = if status.starts_with("304") { String::new() } else { "Content-Length: 4\r\n".to_owned() };
        let head = format!("{early}HTTP/1.1 {status}\r\n{length}{caching}{HOP}\r\n");
        let body: &[u8] = if status.starts_with("304") || request.method == "HEAD" { b"" } else { b"body" };
        stream.write_all(head.as_bytes()).is_ok() && stream.write_all(body).is_ok()
    })
}

fn assert_clean(answer: &Response, what: &str) {
    for name in GONE {
        assert_eq!(answer.field(name), "", "{what}: {name} in {}", answer.head);
    }
    assert_eq!(answer.field("x-kept"), "3", "{what}: {}", answer.head);
    let connection = answer.field("connection").to_ascii_lowercase();
    assert!(matches!(connection.as_str(), "" | "close" | "keep-alive"), "{what}: {connection}");
}

fn assert_sent_clean(request: &Request, what: &str) {
    for name in GONE {
        assert_eq!(request.field(name), None, "{what}: {name} in {}", request.head);
    }
    assert_eq!(request.field("x-kept").as_deref(), Some("3"), "{what}: {}", request.head);
    let connection = request.field("connection").unwrap_or_default().to_ascii_lowercase();
    assert!(matches!(connection.as_str(), "" | "keep-alive"), "{what}: {connection}");
    assert_eq!(request.field("proxy-authorization"), None, "{what}");
}

#[test]
fn on_every_path() {
    let origin = origin();
    let proxy = Proxy::forward();
    let hit = |answer: &Response| answer.is_hit();
    let mut asked = 0;
    let more = "Proxy-Authorization: Basic eA==\r\n";
    for (what, method, path, fields, status, at_origin, is_hit) in [
        ("a miss", "GET", "/fresh", "", 200, 1, false),
        ("a hit", "GET", "/fresh", "", 200, 0, true),
        ("a hit's head", "HEAD", "/fresh", "", 200, 0, true),
        ("a range of a hit", "GET", "/fresh", "Range: bytes=1-2\r\n", 206, 0, true),
        ("a condition on a hit", "GET", "/fresh", "If-None-Match: \"a\"\r\n", 304, 0, true),
        ("a reload", "GET", "/fresh", "Cache-Control: no-cache\r\n", 200, 1, false),
        ("a hit after the reload", "GET", "/fresh", "", 200, 0, true),
        ("a miss to be validated", "GET", "/stale", "", 200, 1, false),
        ("a validated answer", "GET", "/stale", "", 200, 1, false),
        ("what is not stored", "GET", "/never", "", 200, 1, false),
        ("a head that is not stored", "HEAD", "/never", "", 200, 1, false),
        ("a range that is not stored", "GET", "/never", "Range: bytes=0-1\r\n", 200, 1, false),
        ("another method", "POST", "/never", "Content-Length: 2\r\n", 200, 1, false),
        ("a method of its own", "DELETE", "/never", "", 200, 1, false),
    ] {
        let mut client = proxy.client();
        let (url, host) = (origin.url(path), origin.address);
        client.send(format!("{method} {url} HTTP/1.1\r\nHost: {host}\r\n{HOP}{more}{fields}\r\n"));
        if method == "POST" {
            client.send("hi");
        }
        let answer = client.read(method).unwrap();
        assert_eq!((answer.status, hit(&answer)), (status, is_hit), "{what}: {answer:?}");
        assert_clean(&answer, what);
        asked += at_origin;
        assert_eq!(origin.count(), asked, "{what}");
        if at_origin == 1 {
            assert_sent_clean(origin.requests().last().unwrap(), what);
        }
    }
}

#[test]
fn behind_a_reverse_proxy() {
    let origin = origin();
    let proxy = Proxy::reverse(&origin);
    for (path, hit) in [("/fresh", false), ("/fresh", true), ("/never", false)] {
        let mut client = proxy.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{HOP}\r\n"));
        let answer = client.read("GET").unwrap();
        assert_eq!(answer.is_hit(), hit);
        assert_clean(&answer, path);
    }
    origin.requests().iter().for_each(|request| assert_sent_clean(request, "reverse"));
}

#[test]
fn in_interim_responses() {
    let origin = origin();
    let proxy = Proxy::forward();
    let ask = |version: &str| {
        let mut client: Client = proxy.client();
        client.send(format!("GET {} HTTP/{version}\r\nHost: {}\r\n\r\n", origin.url("/early"), origin.address));
        client
    };
    let mut client = ask("1.1");
    let early = client.read("GET").unwrap();
    assert_eq!(early.status, 103);
    assert_clean(&early, "interim");
    assert_eq!(client.read("GET").unwrap().text(), "body");
    // HTTP/1.0 knows none.
    assert_eq!(ask("1.0").read("GET").unwrap().status, 200);
}

#[test]
fn interim_responses_without_end() {
    let origin = Origin::start(|_, stream| {
        // Until nobody listens any more.
        (0..100_000).all(|_| stream.write_all(b"HTTP/1.1 103 Early Hints\r\nX-Kept: 3\r\n\r\n").is_ok());
        false
    });
    let proxy = Proxy::forward();
    let mut client = proxy.client();
    client.send(format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/"), origin.address));
    let mut interim = 0;
    while client.read("GET").is_some_and(|answer| answer.status == 103) {
        interim += 1;
    }
    assert!((1..=tinaja_http::limits::MAX_INTERIM_RESPONSES).contains(&interim), "{interim}");
    let other = Origin::fixed("", "still serving");
    assert_eq!(proxy.get(&other.url("/")).text(), "still serving");
}
