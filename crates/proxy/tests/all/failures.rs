//! Origins that fail: a clean answer, and nothing wrong stored.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Log, Origin, Proxy, reply};
use tinaja_testkit::port::free_port;

#[test]
fn short_bodies_are_not_stored() {
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nCache-Control: max-age=60\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n5\r\nshort\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\nffffff\r\nshort",
    ] {
        let origin = Origin::start(move |_, stream| {
            stream.write_all(head.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            false
        });
        let proxy = Proxy::forward();
        for expected in [1, 2] {
            let response = proxy.get(&origin.url("/"));
            assert!(response.status == 502 || !response.whole, "{head}: passed off as whole: {response:?}");
            assert_eq!(origin.count(), expected, "{head}");
        }
    }
}

#[test]
fn origins_that_talk_nonsense() {
    for (answer, name) in [
        ("", "nothing"),
        ("hello\r\n\r\n", "no HTTP"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\nCache-Control: max-age=60\r\n\r\nhello",
            "two lengths",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello", "no number"),
        ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "an upgrade nobody asked for"),
    ] {
        let origin = Origin::start(move |_, stream| {
            stream.write_all(answer.as_bytes()).unwrap();
            false
        });
        let proxy = Proxy::forward();
        for _ in 0..2 {
            let response = proxy.get(&origin.url("/"));
            assert_eq!(response.status, 502, "{name}: {response:?}");
            assert!(response.text().contains("The origin failed"), "{name}: {}", response.text());
            assert!(!response.is_hit());
        }
    }
}

#[test]
fn surplus_bytes_of_an_origin_are_nobodys_answer() {
    // In one piece: what comes once the connection is in use again cannot be told from an answer, by anybody. Written in
    // two, this failed on a machine so busy that the second came after the next request.
    let connections = Arc::new(Mutex::new(HashSet::new()));
    let seen = connections.clone();
    let origin = Origin::start(move |_, stream| {
        seen.lock().unwrap().insert(stream.peer_addr().unwrap());
        let real = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\nreal";
        let evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
        stream.write_all(&[&real[..], evil].concat()).is_ok()
    });
    let proxy = Proxy::forward();
    for path in ["/1", "/2", "/3"] {
        let response = proxy.get(&origin.url(path));
        assert!(response.text() == "real", "{response:?}");
    }
    assert_eq!(connections.lock().unwrap().len(), 3, "a connection that said too much is not used again");
    for path in ["/1", "/2", "/3"] {
        let stored = proxy.get(&origin.url(path));
        assert!(stored.is_hit() && stored.text() == "real", "{stored:?}");
    }
}

#[test]
fn nobody_listens() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let log = Log::new();
    let proxy = Proxy::with(|config| log.of(config));
    let response = proxy.get(&format!("http://{address}/"));
    assert_eq!(response.status, 502);
    let why = log.why(&response);
    assert!(why.contains(&format!("Cannot connect to {address}: it was refused")), "{why}");
    assert!(response.text().contains("The origin cannot be reached.") && !response.text().contains("127.0.0.1"));
    assert!(response.field("content-type").starts_with("text/html"));
    assert_eq!(response.field("cache-status"), "", "no cache had a part in it: {response:?}");
}

#[test]
fn names_that_do_not_exist() {
    let log = Log::new();
    let proxy = Proxy::with(|config| log.of(config));
    let response = proxy.get("http://no-such-name.invalid/");
    assert!(matches!(response.status, 502 | 504), "{response:?}");
    assert!(log.why(&response).contains("no-such-name.invalid"), "{}", log.why(&response));
    assert!(response.text().contains("cannot be resolved"), "{}", response.text());
}

/// Says nothing more until the proxy has left.
fn until_left(stream: &mut TcpStream) {
    while stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {}
}

#[test]
fn origins_that_hang() {
    let origin = Origin::start(|_, stream| {
        until_left(stream);
        false
    });
    let proxy = Proxy::with(|config| config.limits.origin_stall = Duration::from_millis(300));
    let response = proxy.get(&origin.url("/"));
    assert_eq!(response.status, 504, "{response:?}");
    assert!(response.text().contains("did not answer in time"));
}

/// Silence amid a body: cut, for the client and for whoever reads along, and nothing is stored.
#[test]
fn origins_that_fall_silent() {
    for framing in ["Content-Length: 100000", "Transfer-Encoding: chunked"] {
        let origin = Origin::start(move |_, stream| {
            let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\nCache-Control: max-age=60\r\n\r\n186A0\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&[b'x'; 40_000]).unwrap();
            until_left(stream);
            false
        });
        let proxy = Proxy::with(|config| config.limits.origin_stall = Duration::from_millis(500));
        let url = origin.url("/");
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..3).map(|_| scope.spawn(|| proxy.get(&url))).collect();
            for client in clients {
                let response = client.join().unwrap();
                assert!(response.status == 200 && !response.whole, "{framing}: {}", response.head);
            }
        });
        assert_eq!((origin.count(), proxy.store.stats().stored), (1, 0), "{framing}");
    }
}

#[test]
fn a_kept_connection_that_was_closed_is_not_an_error() {
    // The origin closes after each answer without saying so.
    let origin = Origin::start(|request, stream| {
        reply(stream, request, 200, "", b"x");
        false
    });
    let proxy = Proxy::forward();
    for _ in 0..10 {
        assert_eq!(proxy.get(&origin.url("/")).status, 200);
    }
}

#[test]
fn loops_are_cut() {
    let proxy = Proxy::with(|config| config.name = Some("me".into()));
    let itself = proxy.get(&format!("http://{}/", proxy.address));
    assert_eq!(itself.status, 508, "{itself:?}");
    let origin = Origin::fixed("", "x");
    let via = proxy.get_with(&origin.url("/"), "Via: 1.1 other, 1.1 me\r\n");
    assert_eq!((via.status, origin.count()), (508, 0));
    assert_eq!(proxy.get_with(&origin.url("/"), "Via: 1.1 other\r\n").status, 200);
    assert_eq!(origin.requests()[0].field("via").as_deref(), Some("1.1 other"), "each hop adds a line");
    assert!(origin.requests()[0].head.contains("1.1 me\r\n"));
}

#[test]
fn bodies_of_requests_arrive() {
    let origin = Origin::start(|request, stream| reply(stream, request, 200, "", &request.body));
    let proxy = Proxy::forward();
    let mut client = proxy.client();
    for (fields, sent, expected) in [
        ("Content-Length: 5\r\n", "hello".to_owned(), "hello".to_owned()),
        ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n".into(), "hello world".into()),
        ("Content-Length: 300000\r\n", "x".repeat(300_000), "x".repeat(300_000)),
    ] {
        client.send(format!("POST {} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n{sent}", origin.url("/"), origin.address));
        let response = client.read("POST").unwrap();
        assert!(response.status == 200 && response.text() == expected, "{}", response.head);
    }
}
