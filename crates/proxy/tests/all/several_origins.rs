//! Several origins behind a route: who is asked, when a request is sent on to the next, and when never.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Log, Origin, Proxy, Response, eventually, reply};
use tinaja_proxy::{Balance, Check, Upstream};
use tokio::net::TcpSocket;

const LONG: Duration = Duration::from_secs(3600);

/// An address that refuses connections, for as long as the socket is kept: it is bound, so that nobody else gets it, and does
/// not listen.
fn dead() -> (SocketAddr, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    (socket.local_addr().unwrap(), socket)
}

/// Says its name, which may not be stored.
fn named(name: &'static str) -> Origin {
    Origin::fixed("Cache-Control: no-store\r\n", name)
}

/// Takes a request, and closes.
fn closing() -> Origin {
    Origin::start(|_, _| false)
}

fn body(proxy: &Proxy, path: &str) -> (u16, String) {
    let Response { status, body, .. } = proxy.get(&format!("http://a{path}"));
    (status, String::from_utf8(body).unwrap())
}

#[test]
fn the_next_stands_in_for_one_that_is_dead_and_it_is_asked_again_once_it_lives() {
    let ((first, kept), second) = (dead(), named("second"));
    let proxy = Proxy::before(&[first, second.address], |upstream| upstream.rest = Duration::from_millis(200));
    for _ in 0..5 {
        assert_eq!(body(&proxy, "/"), (200, "second".into()));
    }
    drop(kept);
    let listener = TcpListener::bind(first).unwrap();
    let revived =
        Origin::on(listener, |request, stream| reply(stream, request, 200, "Cache-Control: no-store\r\n", b"1"));
    eventually("the first is asked again", || body(&proxy, "/").1 == "1");
    let count = second.count();
    for _ in 0..5 {
        assert_eq!(body(&proxy, "/"), (200, "1".into()));
    }
    assert_eq!(second.count(), count);
    assert!(revived.count() >= 6);
}

#[test]
fn only_what_may_be_repeated_is_sent_on_once_it_was_sent() {
    for (method, fields, sent_on) in [
        ("GET", "", true),
        ("HEAD", "", true),
        ("DELETE", "", true),
        ("POST", "", false),
        ("POST", "Content-Length: 5\r\n\r\nhello", false),
        ("PATCH", "", false),
        // It may be repeated, but what the client sent is gone.
        ("PUT", "Content-Length: 5\r\n\r\nhello", false),
    ] {
        let (first, second) = (closing(), named("second"));
        let proxy = Proxy::before(&[first.address, second.address], |_| {});
        let mut client = proxy.client();
        let (fields, content) = fields.split_once("\r\n\r\n").unwrap_or((fields, ""));
        let end = if fields.is_empty() { "" } else { "\r\n" };
        client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}{end}\r\n{content}"));
        let status = client.read(method).unwrap().status;
        let expected = if sent_on { (200, 1, 1) } else { (502, 1, 0) };
        assert_eq!((status, first.count(), second.count()), expected, "{method} {fields}");
    }
}

#[test]
fn what_never_reached_an_origin_is_sent_on_whatever_it_is() {
    let ((first, _kept), second) = (dead(), named("second"));
    let proxy = Proxy::before(&[first, second.address], |_| {});
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.read("POST").unwrap().status, 200);
    assert_eq!(second.requests()[0].body, b"hello");
}

#[test]
fn an_answer_that_has_begun_is_never_asked_for_again() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nCache-Control: no-store\r\n\r\nbegun",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nCache-Control: max-age=60\r\n\r\nbegun",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    ] {
        let first = Origin::start(move |_, stream| {
            stream.write_all(answer.as_bytes()).unwrap();
            false
        });
        let second = named("second");
        let proxy = Proxy::before(&[first.address, second.address], |_| {});
        let mut client = proxy.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut got = Vec::new();
        // A cut may come as a reset.
        let _ = (&mut client.stream()).read_to_end(&mut got);
        let got = String::from_utf8_lossy(&got).into_owned();
        assert!(!got.contains("second"), "{got}");
        assert_eq!((first.count(), second.count()), (1, 0), "{answer}");
    }
}

#[test]
fn tries_are_counted_and_origins_that_are_out_are_left_alone() {
    let origins: Vec<Origin> = (0..5).map(|_| closing()).collect();
    let addresses: Vec<SocketAddr> = origins.iter().map(|origin| origin.address).collect();
    let log = Log::new();
    let change = |upstream: &mut Upstream| (upstream.tries, upstream.fails, upstream.rest) = (3, 2, LONG);
    let proxy = Proxy::before_with(&addresses, change, |config| log.of(config));
    let counts = || origins.iter().map(Origin::count).collect::<Vec<_>>();
    assert_eq!(body(&proxy, "/").0, 502);
    assert_eq!(counts(), [1, 1, 1, 0, 0]);
    assert_eq!(body(&proxy, "/").0, 502);
    assert_eq!(counts(), [2, 2, 2, 0, 0]);
    assert_eq!((body(&proxy, "/").0, body(&proxy, "/").0), (502, 502));
    assert_eq!(counts(), [2, 2, 2, 2, 2]);
    for _ in 0..20 {
        let page = proxy.get("http://a/");
        assert_eq!(page.status, 503);
        let why = log.why(&page);
        assert!(why.contains("None of the 5 origins") && why.contains("without an answer"), "{why}");
        assert!(page.text().contains("No origin is available now."), "{}", page.text());
    }
    assert_eq!(counts(), [2; 5]);
}

#[test]
fn one_origin_alone_is_asked_whatever_happens() {
    let origin = closing();
    let proxy = Proxy::before(&[origin.address], |upstream| upstream.fails = 1);
    for expected in 1..10 {
        assert_eq!(body(&proxy, "/").0, 502);
        assert_eq!(origin.count(), expected);
    }
}

#[test]
fn what_is_stale_stands_in_when_all_are_out() {
    let fields = "Cache-Control: max-age=0, stale-if-error=600\r\n";
    let alive = Arc::new(AtomicBool::new(true));
    let living = alive.clone();
    let first = Origin::start(move |request, stream| {
        living.load(Ordering::SeqCst) && reply(stream, request, 200, fields, b"stored")
    });
    let second = closing();
    let proxy = Proxy::before(&[first.address, second.address], |upstream| (upstream.fails, upstream.rest) = (1, LONG));
    assert_eq!(body(&proxy, "/a"), (200, "stored".into()));
    alive.store(false, Ordering::SeqCst);
    // Validated in vain by both, and then by none.
    for _ in 0..5 {
        assert_eq!(body(&proxy, "/a"), (200, "stored".into()));
    }
    assert_eq!(body(&proxy, "/b").0, 503);
    assert!(second.count() == 1 && first.count() <= 3, "{} {}", first.count(), second.count());
}

#[test]
fn what_one_origin_sent_is_a_hit_for_all() {
    let ((first, _kept), second) = (dead(), Origin::fixed("Cache-Control: max-age=600\r\n", "second"));
    let proxy = Proxy::before(&[first, second.address], |_| {});
    assert_eq!(body(&proxy, "/"), (200, "second".into()));
    let again = proxy.get("http://a/");
    assert!(again.is_hit() && second.count() == 1);
}

#[test]
fn in_turn_and_by_url() {
    let origins = ["a", "b", "c"].map(named);
    let addresses = origins.each_ref().map(|origin| origin.address);
    let proxy = Proxy::before(&addresses, |upstream| upstream.balance = Balance::RoundRobin);
    for n in 0..9 {
        assert_eq!(body(&proxy, &format!("/{n}")).0, 200);
    }
    assert_eq!(origins.each_ref().map(Origin::count), [3, 3, 3]);
    let proxy = Proxy::before(&addresses, |upstream| upstream.balance = Balance::Hash);
    let ask = || (0..30).map(|n| body(&proxy, &format!("/{n}")).1).collect::<Vec<_>>();
    let names = ask();
    assert_eq!(ask(), names);
    assert!(["a", "b", "c"].iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
}

#[test]
fn checks_put_an_origin_out_and_bring_it_back() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = well.clone();
    let first = Origin::start(move |request, stream| {
        let status = if request.path == "/healthz" && !is_well.load(Ordering::SeqCst) { 500 } else { 200 };
        reply(stream, request, status, "Cache-Control: no-store\r\n", b"first")
    });
    let second = named("second");
    let proxy = Proxy::before(&[first.address, second.address], |upstream| {
        (upstream.fails, upstream.rest) = (2, Duration::ZERO);
        upstream.check = Some(Check { interval: Duration::from_millis(50), ..Check::of("/healthz".into()) });
    });
    eventually("the first is out", || body(&proxy, "/").1 == "second");
    // Nobody tries it but those who check.
    for _ in 0..10 {
        assert_eq!(body(&proxy, "/"), (200, "second".into()));
    }
    let asked = first.requests().into_iter().find(|request| request.path == "/healthz").unwrap();
    assert_eq!(
        (asked.field("host"), asked.field("connection")),
        (Some(first.address.to_string()), Some("close".into()))
    );
    well.store(true, Ordering::SeqCst);
    eventually("the first is back", || body(&proxy, "/").1 == "first");
}

#[test]
fn a_kept_connection_is_used_again_and_only_as_long_as_it_may() {
    let connections = Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    let seen = connections.clone();
    let origin = Origin::start(move |request, stream| {
        seen.lock().unwrap().insert(stream.peer_addr().unwrap());
        reply(stream, request, 200, "Cache-Control: no-store\r\n", b"kept")
    });
    let count = || connections.lock().unwrap().len();
    let proxy = Proxy::before(&[origin.address], |_| {});
    let mut asked = 0;
    // A connection is given back behind the answer, and the next request may come before that.
    eventually("a connection is used again", || {
        asked += 1;
        assert_eq!(body(&proxy, "/").0, 200);
        count() < asked
    });
    let proxy = Proxy::before(&[origin.address], |upstream| upstream.keep = 0);
    let before = count();
    for _ in 0..5 {
        assert_eq!(body(&proxy, "/").0, 200);
    }
    assert_eq!(count(), before + 5);
}
