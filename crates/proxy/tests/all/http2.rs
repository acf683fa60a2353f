//! Requests over HTTP/2: the same answers, rules and routes as over HTTP/1.

use std::io::Write;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::frames::*;
use crate::streams::Streams;
use crate::support::{Altered, Origin, Proxy, reply};
use h2::Reason;
use tinaja_proxy::{Action, Rule};

#[tokio::test]
async fn misses_hits_heads_and_parts() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nETag: \"1\"\r\nConnection: x\r\nX: y\r\n", "hello");
    let proxy = Proxy::reverse(&origin);
    let streams = Streams::connect(proxy.address).await;
    let url = format!("http://{}/a?b", proxy.address);
    let miss = streams.get(&url).await;
    assert_eq!((miss.status.as_u16(), miss.text().as_str()), (200, "hello"), "{miss:?}");
    assert_eq!(miss.field("cache-status"), "Tinaja; fwd=uri-miss; fwd-status=200; stored");
    assert!(["connection", "transfer-encoding", "x"].iter().all(|name| miss.field(name).is_empty()), "{miss:?}");
    let hit = streams.get(&url).await;
    assert!(hit.is_hit() && hit.text() == "hello" && hit.field("content-length") == "5", "{hit:?}");
    let head = streams.ask("HEAD", &url, &[], &[]).await.unwrap();
    assert!(head.is_hit() && head.body.is_empty() && head.field("content-length") == "5", "{head:?}");
    let part = streams.ask("GET", &url, &[("range", "bytes=1-2")], &[]).await.unwrap();
    assert_eq!((part.status.as_u16(), part.text().as_str()), (206, "el"), "{part:?}");
    let same = streams.ask("GET", &url, &[("if-none-match", "\"1\"")], &[]).await.unwrap();
    assert!(same.status == 304 && same.body.is_empty(), "{same:?}");
    assert_eq!(origin.count(), 1);
    // Whoever comes over HTTP/1 gets the same object.
    let mut old = proxy.client();
    old.send(format!("GET /a?b HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address));
    assert!(old.read("GET").unwrap().is_hit());
}

/// Reading stops where long heads wait to be looked at, and nobody is told of what came before: it must go on by itself.
#[test]
fn requests_that_come_together_are_all_answered_however_long_their_heads() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "hello");
    let proxy = Proxy::reverse(&origin);
    let url = format!("http://{}/", origin.address);
    proxy.get(&url);
    proxy.has_stored(1);
    let host = origin.address.to_string();
    for bytes in [1, 400, 9_000, 60_000] {
        let long = vec![b'x'; bytes];
        let fields: [(&str, &[u8]); 5] = [
            (":method", b"GET"),
            (":scheme", b"http"),
            (":authority", host.as_bytes()),
            (":path", b"/"),
            ("x-long", &long),
        ];
        let together: Vec<u8> = (0..90).flat_map(|stream| request(2 * stream + 1, &fields)).collect();
        let mut frames = Frames::connect(proxy.address, &[]);
        let mut writes = frames.sender();
        let sending = std::thread::spawn(move || writes.write_all(&together));
        let mut whole = 0;
        while whole < 90 {
            let came = frames.read().expect("an answer to each");
            whole += u32::from(came.kind == DATA && came.flags & END_STREAM != 0);
        }
        sending.join().unwrap().unwrap();
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn the_origin_gets_one_canonical_head() {
    let origin = Origin::fixed("", "x");
    let proxy = Proxy::forward();
    let streams = Streams::connect(proxy.address).await;
    let fields = [("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2"), ("proxy-authorization", "x")];
    let answer = streams.ask("GET", &origin.url("/p\"?q"), &fields, &[]).await.unwrap();
    assert_eq!(answer.status, 200);
    let request = &origin.requests()[0];
    assert!(request.head.starts_with("GET /p%22?q HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.field("host"), Some(origin.address.to_string()));
    assert_eq!(request.field("cookie").as_deref(), Some("a=1; b=2"));
    assert!(request.field("via").unwrap().starts_with("2 tinaja-"), "{}", request.head);
    assert!(["te", "proxy-authorization"].iter().all(|name| request.field(name).is_none()), "{}", request.head);
}

#[tokio::test]
async fn content_goes_up_with_and_without_a_length() {
    let origin = Origin::start(|request, stream| {
        let framed = format!("{:?} {:?}", request.field("content-length"), request.field("transfer-encoding"));
        reply(stream, request, 200, "", &[framed.as_bytes(), b" ", &request.body].concat())
    });
    let proxy = Proxy::forward();
    let streams = Streams::connect(proxy.address).await;
    let url = origin.url("/");
    let large = vec![b'x'; 3_000_000];
    let sent = streams.ask("POST", &url, &[("content-length", "6")], &[b"abc", b"def"]).await.unwrap();
    assert_eq!(sent.text(), "Some(\"6\") None abcdef");
    let sent = streams.ask("PUT", &url, &[], &[b"abc", &large]).await.unwrap();
    assert_eq!(sent.body.len(), "None Some(\"chunked\") abc".len() + large.len());
    assert_eq!(streams.ask("POST", &url, &[], &[]).await.unwrap().text(), "Some(\"0\") None ");
    // More, or less, than was announced ends the stream and no other, and no origin takes it for whole.
    let count = origin.count();
    for (length, content) in [("2", &[&b"abc"[..]][..]), ("4", &[b"abc"]), ("4", &[])] {
        let error = streams.ask("POST", &url, &[("content-length", length)], content).await;
        assert_eq!(error.unwrap_err().reason(), Some(Reason::PROTOCOL_ERROR), "{length} {content:?}");
    }
    assert_eq!(origin.count(), count);
    assert_eq!(streams.get(&url).await.status, 200);
}

#[tokio::test]
async fn a_hundred_streams_at_once() {
    let together = Arc::new(Barrier::new(100));
    let waiting = together.clone();
    let origin = Origin::start(move |request, stream| {
        waiting.wait();
        reply(stream, request, 200, "Cache-Control: no-store\r\n", request.path.as_bytes())
    });
    let proxy = Proxy::forward();
    let streams = Arc::new(Streams::connect(proxy.address).await);
    let asked: Vec<_> = (0..100)
        .map(|number| {
            let (streams, url) = (streams.clone(), origin.url(&format!("/{number}")));
            tokio::spawn(async move { streams.get(&url).await.text() })
        })
        .collect();
    for (number, answer) in asked.into_iter().enumerate() {
        assert_eq!(answer.await.unwrap(), format!("/{number}"));
    }
}

/// One who is too many over HTTP/2 is a stream, not a connection: it is told so, and the others go on.
#[tokio::test]
async fn more_streams_than_there_are_places_get_503() {
    let (came, go) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    let held = (came.clone(), go.clone());
    let origin = Origin::start(move |request, stream| {
        if request.path.starts_with("/held") {
            held.0.wait();
            held.1.wait();
        }
        reply(stream, request, 200, "Cache-Control: no-store\r\n", b"x")
    });
    let proxy = Proxy::with(|config| config.limits.connections = 2);
    let streams = Arc::new(Streams::connect(proxy.address).await);
    let ask = |path: &str| {
        let (streams, url) = (streams.clone(), origin.url(path));
        tokio::spawn(async move { streams.get(&url).await.status })
    };
    let waiting = [ask("/held/1"), ask("/held/2")];
    meet(&came).await;
    assert_eq!(ask("/").await.unwrap(), 503);
    meet(&go).await;
    for answer in waiting {
        assert_eq!(answer.await.unwrap(), 200);
    }
    assert_eq!(ask("/").await.unwrap(), 200);
}

/// The place of a stream was free only some time after its answer had come, so that whoever asked again at once was now and
/// then told that there were too many.
#[tokio::test]
async fn whoever_has_an_answer_may_ask_again_at_once() {
    let (came, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let held = (came.clone(), go.clone());
    let origin = Origin::start(move |request, stream| {
        let fields = "Cache-Control: max-age=60\r\n";
        match request.path.as_str() {
            "/held" => {
                held.0.wait();
                held.1.wait();
                reply(stream, request, 200, "Cache-Control: no-store\r\n", b"x")
            }
            "/none" => stream.write_all(b"HTTP/1.1 204 No Content\r\nCache-Control: max-age=60\r\n\r\n").is_ok(),
            "/empty" => reply(stream, request, 200, fields, b""),
            "/chunks" => {
                let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{fields}\r\n");
                stream.write_all(head.as_bytes()).is_ok() && stream.write_all(b"1\r\nx\r\n0\r\n\r\n").is_ok()
            }
            _ => reply(stream, request, 200, fields, b"x"),
        }
    });
    // Every way to end an answer, with the place of the connection itself, and with one of the crowd's.
    // A port that is not allowed: a page of the proxy's own.
    let nobody = "http://127.0.0.1:1/".to_owned();
    let ways = [
        ("GET", origin.url("/x"), 200),
        ("HEAD", origin.url("/x"), 200),
        ("GET", origin.url("/none"), 204),
        ("GET", origin.url("/empty"), 200),
        ("GET", origin.url("/chunks"), 200),
        ("GET", nobody, 403),
    ];
    for places in [1, 2] {
        let proxy = Proxy::with(|config| config.limits.connections = places);
        let streams = Arc::new(Streams::connect(proxy.address).await);
        let first = (places == 2).then(|| {
            let (streams, url) = (streams.clone(), origin.url("/held"));
            tokio::spawn(async move { streams.get(&url).await.status })
        });
        if first.is_some() {
            meet(&came).await;
        }
        for number in 0..300 {
            let (method, url, status) = &ways[number % ways.len()];
            let answer = streams.ask(method, url, &[], &[]).await.unwrap();
            assert_eq!(answer.status, *status, "request {number}: {method} {url}");
        }
        if let Some(first) = first {
            meet(&go).await;
            assert_eq!(first.await.unwrap(), 200);
        }
    }
}

/// Waits at a barrier where another thread does.
async fn meet(barrier: &Arc<Barrier>) {
    let barrier = barrier.clone();
    tokio::task::spawn_blocking(move || barrier.wait()).await.unwrap();
}

#[tokio::test]
async fn large_answers_in_their_windows() {
    static BODY: [u8; 5_000_000] = [b'x'; 5_000_000];
    let origin = Origin::start(|request, stream| reply(stream, request, 200, "Cache-Control: max-age=60\r\n", &BODY));
    let proxy = Proxy::forward();
    let streams = Streams::connect(proxy.address).await;
    for hit in [false, true] {
        let answer = streams.get(&origin.url("/")).await;
        assert_eq!((answer.body.len(), answer.is_hit()), (BODY.len(), hit));
        assert!(answer.broken.is_none() && answer.body == BODY);
    }
}

#[tokio::test]
async fn interim_answers_and_cuts_are_seen() {
    let origin = Origin::start(|request, stream| {
        let hints = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
        stream.write_all(hints).unwrap();
        if request.path == "/cut" {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").unwrap();
            return false;
        }
        reply(stream, request, 200, "", b"whole")
    });
    let proxy = Proxy::forward();
    let streams = Streams::connect(proxy.address).await;
    let whole = streams.get(&origin.url("/")).await;
    assert_eq!((whole.interim.len(), whole.text().as_str()), (1, "whole"), "{whole:?}");
    let cut = streams.get(&origin.url("/cut")).await;
    // What waits to be sent may be lost with the reset, and nothing else comes instead.
    assert!(cut.status == 200 && b"abc".starts_with(&cut.body), "{cut:?}");
    assert!(cut.broken.is_some_and(|error| error.is_reset()));
    assert_eq!(streams.get(&origin.url("/")).await.text(), "whole");
}

#[tokio::test]
async fn rules_routes_and_refusals_are_the_same() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "x");
    let forward = Proxy::with(|config| {
        config.limits.connections = 100;
        let (clients, ports, destinations) = (vec![], vec![], vec![]);
        let rule = Rule { clients, methods: vec!["PURGE".into()], ports, destinations, ..Rule::new(Action::Allow) };
        config.listeners[0].rules.push(rule);
    });
    let streams = Streams::connect(forward.address).await;
    let url = origin.url("/");
    let status = async |method: &str, uri: &str, fields: &[(&str, &str)]| {
        let answer = streams.ask(method, uri, fields, &[]).await.unwrap();
        (answer.status.as_u16(), answer.field("x-refusal").to_owned())
    };
    assert_eq!(status("PURGE", &url, &[]).await.0, 404);
    assert_eq!(streams.get(&url).await.status, 200);
    assert_eq!(status("PURGE", &url, &[]).await.0, 200);
    assert!(!streams.get(&url).await.is_hit());
    assert_eq!(status("GET", "http://10.0.0.1/", &[]).await.0, 403);
    assert_eq!(status("GET", &url, &[("host", "other")]).await, (400, "host-mismatch".into()));
    assert_eq!(status("GET", "http://u@a/", &[]).await, (400, "userinfo".into()));
    assert_eq!(status("TRACE", &url, &[]).await, (501, "method".into()));
    assert_eq!(status("CONNECT", "a.example:443", &[]).await, (501, "method".into()));
    // As clients send it: the stream stays open, for the tunnel.
    let open = streams.ask("CONNECT", "a.example:443", &[], &[b""]).await.unwrap();
    assert_eq!((open.status.as_u16(), open.field("x-refusal")), (501, "method"));
    assert_eq!(status("GET", &url, &[("x", &"y".repeat(60_000)), ("z", &"y".repeat(9000))]).await.0, 431);
    assert_eq!(streams.ask("HEAD", "http://10.0.0.1/", &[], &[]).await.unwrap().body, b"");
    assert_eq!(streams.get(&url).await.status, 200);
}

#[tokio::test]
async fn a_panic_ends_one_stream_alone() {
    let origin = Origin::start(|request, stream| {
        let fields = if request.path == "/panic" { "X-Panic: yes\r\n" } else { "" };
        reply(stream, request, 200, &format!("Cache-Control: max-age=60\r\n{fields}"), b"x")
    });
    let proxy = Proxy::over(Altered::broken(), |_| {});
    let streams = Streams::connect(proxy.address).await;
    assert_eq!(streams.get(&origin.url("/")).await.text(), "x");
    let (broken, other) = (origin.url("/panic"), origin.url("/other"));
    let (broken, other) = tokio::join!(streams.ask("GET", &broken, &[], &[]), streams.get(&other));
    assert!(broken.unwrap_err().is_reset());
    assert_eq!(other.text(), "x");
    assert!(streams.get(&origin.url("/")).await.is_hit(), "the connection goes on");
}

#[tokio::test]
async fn idle_connections_and_those_of_a_proxy_that_stops_are_told_so() {
    let (came, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let held = (came.clone(), go.clone());
    let origin = Origin::start(move |request, stream| {
        held.0.wait();
        held.1.wait();
        reply(stream, request, 200, "", b"late")
    });
    let (mut proxy, hand) = Proxy::by_hand(|config| config.limits.idle = Duration::from_secs(1));
    let streams = Streams::connect(proxy.address).await;
    // A request that takes longer than that does not count as idle.
    let url = origin.url("/");
    let (answer, ()) = tokio::join!(streams.get(&url), async {
        meet(&came).await;
        hand.advance(Duration::from_secs(2));
        meet(&go).await;
    });
    assert_eq!(answer.text(), "late");
    // Time goes by until something has come of it.
    let passing = async || loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        hand.advance(Duration::from_millis(20));
    };
    tokio::select! {
        ended = streams.driver => ended.unwrap().expect("GOAWAY without an error"),
        () = passing() => {}
    }

    let streams = Arc::new(Streams::connect(proxy.address).await);
    let asked = tokio::spawn({
        let (streams, url) = (streams.clone(), origin.url("/"));
        async move { streams.get(&url).await.text() }
    });
    meet(&came).await;
    let address = proxy.address;
    let stopped = tokio::task::spawn_blocking(move || proxy.stop());
    // Only what was under way before the stop is answered after it.
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    meet(&go).await;
    tokio::select! {
        stopped = stopped => stopped.unwrap(),
        () = passing() => {}
    }
    assert_eq!(asked.await.unwrap(), "late");
    let streams = Arc::into_inner(streams).unwrap();
    streams.driver.await.unwrap().expect("GOAWAY without an error");
}

/// H4: trailers over HTTP/2 come to their end here, whatever they are called; malformed ones make the request malformed.
#[test]
fn h04_trailers_end_here() {
    let origin = Origin::fixed("Cache-Control: no-store\r\n", "x");
    let proxy = Proxy::reverse(&origin);
    let pseudo: [(&str, &[u8]); 4] =
        [(":method", b"POST"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/")];
    let mut whole = 0;
    let trailers: [(&str, &[u8], bool); 8] = [
        ("x-end", b"1", true),
        ("content-length", b"99", true),
        ("host", b"evil.example", true),
        ("authorization", b"Basic eDp5", true),
        // Malformed by RFC 9113 8.3; `h2` drops it.
        (":path", b"/evil", true),
        ("X-End", b"1", false),
        ("x", b"y\r\nz: 1", false),
        ("x y", b"z", false),
    ];
    for (name, value, good) in trailers {
        let mut frames = Frames::connect(proxy.address, &[]);
        frames.send(HEADERS, END_HEADERS, 1, &block(&pseudo));
        frames.send(DATA, 0, 1, b"hello");
        frames.send(HEADERS, END_STREAM | END_HEADERS, 1, &block(&[(name, value)]));
        let answer = frames.find(&[HEADERS, RST_STREAM, GOAWAY]).expect("an answer");
        assert_eq!(answer.kind == HEADERS && answer.payload[0] == 0x88, good, "{name}: {answer:?}");
        whole += usize::from(good);
        assert_eq!(origin.count(), whole, "{name}: no whole request but these");
        let last = origin.requests().pop().unwrap();
        let seen = (last.path.as_str(), last.body.as_slice(), last.field("host"));
        assert_eq!(seen, ("/", &b"hello"[..], Some("a".into())), "{name}");
        assert_eq!(
            (last.field("x-end"), last.field("authorization"), last.field("content-length")),
            (None, None, None)
        );
    }
}
