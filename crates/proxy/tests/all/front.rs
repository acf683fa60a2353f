//! Connections: judged heads, keep-alive, pipelining, caps and deadlines.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::support::{Client, Origin, Proxy, eventually, reply};

#[test]
fn doubtful_heads_are_refused_and_go_nowhere() {
    let origin = Origin::fixed("", "x");
    let proxy = Proxy::forward();
    let host = origin.address.to_string();
    let get = |fields: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
    for (head, status, name) in [
        (get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400, "both-lengths"),
        (get("Content-Length: 5\r\nContent-Length: 5\r\n"), 400, "content-length"),
        (get("Content-Length: 5,5\r\n"), 400, "content-length"),
        (get("Content-Length: +5\r\n"), 400, "content-length"),
        (get("Transfer-Encoding: xchunked\r\n"), 400, "transfer-encoding"),
        (get("Transfer-Encoding : chunked\r\n"), 400, "field-name"),
        (get("Transfer-Encoding: gzip, chunked\r\n"), 501, "transfer-coding"),
        (get("X: a\r\n b\r\n"), 400, "obs-fold"),
        (get("X: a\nTransfer-Encoding: chunked\r\n"), 400, "bare-cr-or-lf"),
        (get("X: a\rb\r\n"), 400, "bare-cr-or-lf"),
        (get("X: \0\r\n"), 400, "control-byte"),
        (get("Host: other\r\n"), 400, "host-twice"),
        (format!("GET http://{host}/ HTTP/1.1\r\nHost: other\r\n\r\n"), 400, "host-mismatch"),
        (format!("GET http://u@{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400, "userinfo"),
        (format!("GET http://{host}/# HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400, "fragment"),
        (format!("GET http://{host}/\\ HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400, "backslash"),
        (format!("GET http://{host}/ HTTP/2.0\r\nHost: {host}\r\n\r\n"), 505, "version"),
        (format!("POST http://{host}/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "transfer-encoding"),
        (format!("GET http://{host}/ HTTP/1.1\r\n\r\n"), 400, "host-missing"),
        ("GET / HTTP/1.1\n".into(), 400, "bare-cr-or-lf"),
        ("\u{16}\u{3}\u{1}\u{2}".into(), 400, "request-line"),
        (get(&format!("X: {}\r\n", "a".repeat(65_536))), 431, "head-too-large"),
        (get(&"X: a\r\n".repeat(200)), 431, "too-many-fields"),
    ] {
        let mut client = proxy.client();
        client.send(&head);
        let response = client.read("GET").unwrap();
        assert_eq!((response.status, response.field("x-refusal").as_str()), (status, name), "{head:.200}");
        assert!(client.is_closed(), "{name}");
    }
    assert_eq!(origin.count(), 0);
    let direct = proxy.client().request("GET", "//x", "");
    assert_eq!(direct.status, 400);
}

#[test]
fn requests_in_origin_form_are_told_what_this_is() {
    let proxy = Proxy::forward();
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.read("GET").unwrap();
    assert!(response.status == 400 && response.text().contains("forward proxy"), "{response:?}");
}

#[test]
fn twenty_requests_on_one_connection() {
    let origin = Origin::start(|request, stream| {
        reply(stream, request, 200, "Cache-Control: max-age=60\r\n", request.path.as_bytes())
    });
    let proxy = Proxy::forward();
    let mut client = proxy.client();
    for number in 0..20 {
        let path = format!("/{}", number % 10);
        let response = client.request("GET", &origin.url(&path), "");
        assert_eq!((response.text(), response.is_hit()), (path, number >= 10), "{response:?}");
        assert_eq!(response.field("connection"), "keep-alive");
    }
    assert_eq!(origin.count(), 10);
    let last = client.request("GET", &origin.url("/0"), "Connection: close\r\n");
    assert_eq!(last.field("connection"), "close");
    assert!(client.is_closed());
}

#[test]
fn pipelined_requests_are_answered_in_order_and_each_is_judged() {
    let origin = Origin::start(|request, stream| {
        if request.path.ends_with("slow") {
            std::thread::sleep(Duration::from_millis(200));
        }
        reply(stream, request, 200, "Cache-Control: max-age=60\r\n", request.path.as_bytes())
    });
    let proxy = Proxy::forward();
    let host = origin.address.to_string();
    let get = |path: &str| format!("GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let post = format!("POST http://{host}/posted HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbody");
    let good = [get("/slow"), get("/2"), post, get("/3"), get("/2")].concat();
    let bad = format!("GET http://{host}/bad HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5,5\r\n\r\n");
    // In one piece, and in pieces that arrive while an earlier request is being answered.
    for pieces in [1, 40] {
        let mut client = proxy.client();
        let everything = format!("{good}{bad}{}", get("/never"));
        for piece in everything.as_bytes().chunks(everything.len() / pieces + 1) {
            client.send(piece);
            std::thread::sleep(Duration::from_millis(2));
        }
        for path in ["/slow", "/2", "/posted", "/3", "/2"] {
            let response = client.read("GET").unwrap();
            assert_eq!((response.status, response.text().as_str()), (200, path), "{response:?}");
        }
        assert_eq!(client.read("GET").unwrap().status, 400);
        assert!(client.is_closed());
    }
    assert!(origin.requests().iter().all(|request| !matches!(request.path.as_str(), "/bad" | "/never")));
}

#[test]
fn a_request_hidden_in_a_body_stays_there() {
    let origin = Origin::start(|request, stream| reply(stream, request, 200, "Cache-Control: max-age=60\r\n", b"x"));
    let proxy = Proxy::forward();
    let hidden = format!("GET http://{}/hidden HTTP/1.1\r\nHost: x\r\n\r\n", origin.address);
    let mut client = proxy.client();
    // The body of a request that is answered from the cache, or refused, must not become the next request.
    proxy.get(&origin.url("/hit"));
    let length = format!("Content-Length: {}\r\n\r\n{hidden}", hidden.len() + 2);
    assert_eq!(client.request("GET", &origin.url("/hit"), &length).status, 200);
    assert_eq!(client.request("GET", &origin.url("/after"), "").status, 200);
    assert!(origin.requests().iter().all(|request| request.path != "/hidden"), "{:?}", origin.requests());

    for chunked in
        ["0x1\r\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "1\na\r\n0\r\n\r\n", "0\r\nContent-Length: 9\r\n\r\n"]
    {
        let mut client = proxy.client();
        client.send(format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}{hidden}",
            origin.url("/chunked"),
            origin.address
        ));
        if let Some(response) = client.read("POST") {
            assert!(response.status >= 400, "{chunked:?}: {response:?}");
        }
        assert!(client.is_closed(), "{chunked:?}");
    }
    assert!(origin.requests().iter().all(|request| !matches!(request.path.as_str(), "/hidden" | "/chunked")));
}

#[test]
fn slow_heads_and_idle_connections_end() {
    let proxy = Proxy::with(|config| {
        config.limits.head = Duration::from_millis(500);
        config.limits.idle = Duration::from_millis(300);
    });
    let began = Instant::now();
    let mut slow = proxy.client();
    slow.send("GET http://a/ HT");
    let response = slow.read("GET").unwrap();
    assert_eq!((response.status, response.field("x-refusal").as_str()), (408, "too-slow"));
    assert!(slow.is_closed());
    assert!(proxy.client().is_closed(), "idle");
    assert!(began.elapsed() < Duration::from_secs(15));

    let mut dripping = proxy.client();
    let began = Instant::now();
    for byte in "GET http://aaaaaaaaaaaaaaaaaaaaaaaa/ ".bytes() {
        dripping.send([byte]);
        std::thread::sleep(Duration::from_millis(50));
        if began.elapsed() > Duration::from_millis(700) {
            break;
        }
    }
    assert_eq!(dripping.read("GET").map(|response| response.status), Some(408), "each byte must not renew the time");
}

/// Another address of the same machine is another client.
#[test]
fn more_connections_than_one_client_may_have_get_429() {
    let origin = Origin::fixed("", "x");
    let proxy = Proxy::with(|config| config.limits.client_connections = 2);
    let (mut one, mut two) = (proxy.client(), proxy.client());
    assert_eq!(one.request("GET", &origin.url("/"), "").status, 200);
    assert_eq!(two.request("GET", &origin.url("/"), "").status, 200);
    let mut three = proxy.client();
    let refused = three.read("GET").unwrap();
    assert_eq!((refused.status, refused.field("retry-after").as_str()), (429, "1"));
    assert!(three.is_closed());
    let other = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&other, &std::net::SocketAddr::from(([127, 0, 0, 9], 0))).unwrap();
    rustix::net::connect(&other, &proxy.address).unwrap();
    let mut other = std::net::TcpStream::from(other);
    write!(other, "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/"), origin.address).unwrap();
    let mut status = [0; 12];
    other.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    drop(one);
    eventually("there is a place again", || proxy.client().request("GET", &origin.url("/"), "").status == 200);
}

#[test]
fn more_connections_than_allowed_get_503() {
    let origin = Origin::fixed("", "x");
    let proxy = Proxy::with(|config| config.limits.connections = 2);
    let (mut one, mut two) = (proxy.client(), proxy.client());
    assert_eq!(one.request("GET", &origin.url("/"), "").status, 200);
    assert_eq!(two.request("GET", &origin.url("/"), "").status, 200);
    let mut three = proxy.client();
    assert_eq!(three.read("GET").unwrap().status, 503);
    assert!(three.is_closed());
    drop(one);
    eventually("a place is free again", || {
        let mut again = Client::connect(proxy.address);
        again.send(format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/"), origin.address));
        again.read("GET").is_some_and(|response| response.status == 200)
    });
}

#[test]
fn old_clients_get_no_chunks() {
    let origin = Origin::start(|_, stream| {
        use std::io::Write;
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=9\r\n\r\n2\r\nhi\r\n0\r\n\r\n").is_ok()
    });
    let proxy = Proxy::forward();
    for _ in 0..2 {
        let mut client = proxy.client();
        client.send(format!("GET {} HTTP/1.0\r\n\r\n", origin.url("/")));
        let response = client.read("GET").unwrap();
        assert_eq!((response.status, response.text().as_str()), (200, "hi"));
        assert_eq!(response.field("transfer-encoding"), "");
    }
    assert_eq!(origin.count(), 1);
}
