//! Starting, stopping, reverse mode, the access log, and large bodies.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Client, Origin, Proxy, eventually, reply};
use tinaja_logs::{CacheResult, squid};
use tinaja_proxy::{Config, Listener, LogFormat, Server};
use tinaja_store::{Reference, Store};

fn bind(change: impl FnOnce(&mut Config)) -> Result<Server, String> {
    let listeners = vec![Listener::forward("127.0.0.1:0".parse().unwrap())];
    let mut config = Config { listeners, ..Config::default() };
    change(&mut config);
    Server::bind(config, Arc::new(Reference::new())).map_err(|error| error.to_string())
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind(|config| config.listeners[0].address = address).err().unwrap();
    assert!(error.contains(&address.to_string()) && error.contains("in use") && error.contains("--listen"), "{error}");
    let error = bind(|config| config.listeners.clear()).err().unwrap();
    assert!(error.contains("no address"), "{error}");
    let error = bind(|config| config.listeners[0].address = "192.0.2.1:0".parse().unwrap()).err().unwrap();
    assert!(error.contains("cannot listen on 192.0.2.1:0"), "{error}");
    let error = bind(|config| config.access_log = Some("/no/such/dir/log".into())).err().unwrap();
    assert!(error.contains("/no/such/dir/log") && error.contains("--access-log"), "{error}");
}

#[test]
fn the_port_is_free_again_and_what_was_stored_is_there() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "kept");
    let store: Arc<dyn Store> = Arc::new(Reference::new());
    let mut first = Proxy::over(store.clone(), |_| {});
    assert_eq!(first.get(&origin.url("/")).text(), "kept");
    let address = first.address;
    first.stop();
    let second = Proxy::over(store, |config| config.listeners[0].address = address);
    assert!(second.get(&origin.url("/")).is_hit());
    assert_eq!(origin.count(), 1);
}

#[test]
fn stopping_waits_for_requests_but_not_for_ever() {
    for (delay, limit, whole) in [(1000, 10_000, true), (8000, 300, false)] {
        let origin = Origin::start(move |request, stream| {
            std::thread::sleep(Duration::from_millis(delay));
            reply(stream, request, 200, "", b"late")
        });
        let mut proxy = Proxy::with(|config| config.limits.stop = Duration::from_millis(limit));
        let idle = proxy.client();
        let (address, url) = (proxy.address, origin.url("/"));
        let waiting = std::thread::spawn(move || {
            let mut client = Client::connect(address);
            let host = url.split('/').nth(2).unwrap();
            client.send(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            client.read("GET").map(|response| response.text())
        });
        eventually("the origin is asked", || origin.count() == 1);
        let began = Instant::now();
        proxy.stop();
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        assert_eq!(waiting.join().unwrap(), whole.then(|| "late".to_owned()));
        drop(idle);
    }
}

#[test]
fn reverse_mode() {
    let origin = Origin::start(|request, stream| {
        let host = request.field("host").unwrap();
        reply(stream, request, 200, "Cache-Control: max-age=60\r\n", host.as_bytes())
    });
    let proxy = Proxy::reverse(&origin);
    let ask = |host: &str, fields: &str| {
        let mut client = proxy.client();
        client.send(format!("GET /page HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        client.read("GET").unwrap()
    };
    for (host, hit) in [("a.example", false), ("b.example:8080", false), ("A.Example", true), ("a.example", true)] {
        let response = ask(host, "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: evil\r\nForwarded: host=evil\r\n");
        assert_eq!((response.text(), response.is_hit()), (host.to_ascii_lowercase(), hit), "{response:?}");
    }
    let request = &origin.requests()[0];
    assert!(request.head.starts_with("GET /page HTTP/1.1\r\n"));
    assert_eq!(request.field("x-forwarded-for").as_deref(), Some("1.2.3.4, 127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto").as_deref(), Some("http"));
    assert_eq!((request.field("x-forwarded-host"), request.field("forwarded")), (None, None));
    let mut old = proxy.client();
    old.send("GET /old HTTP/1.0\r\n\r\n");
    assert_eq!(old.read("GET").unwrap().text(), origin.address.to_string());
}

#[test]
fn every_answer_is_in_the_access_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nContent-Type: text/plain; charset=x\r\n", "hello");
    let log = path.clone();
    let mut proxy = Proxy::with(move |config| config.access_log = Some(log));
    let mut client = proxy.client();
    for path in ["/a", "/a", "/%1b<\u{e9}>"] {
        client.request("GET", &origin.url(path), "");
    }
    proxy.get("http://127.0.0.1:25/");
    proxy.client().request("GET", "http://x/", "Host: y\r\n");
    let mut tunnel = proxy.client();
    tunnel.send("CONNECT 127.0.0.1:22 HTTP/1.1\r\n\r\n");
    tunnel.read("CONNECT");
    proxy.stop();
    let text = std::fs::read_to_string(&path).unwrap();
    let records: Vec<_> = text.lines().map(|line| squid::parse(line).unwrap()).collect();
    assert_eq!(records.len(), 6, "{text}");
    // Lines are written when a request has ended, so those of several connections come in any order.
    let find = |url: &str| records.iter().filter(|record| record.url == url).cloned().collect::<Vec<_>>();

    let pages = find(&origin.url("/a"));
    assert_eq!(pages.iter().map(|page| &page.result).collect::<Vec<_>>(), [&CacheResult::Miss, &CacheResult::Hit]);
    assert!(pages.iter().all(|page| (page.status, page.bytes, page.client.as_str()) == (200, 5, "127.0.0.1")));
    assert_eq!((pages[0].origin.as_deref(), pages[1].origin.as_deref()), (Some("127.0.0.1"), None));
    assert_eq!((pages[0].method.as_str(), pages[0].content_type.as_deref()), ("GET", Some("text/plain")));
    for (url, status, result) in [
        (origin.url("/%1b%3C%C3%A9%3E").as_str(), 200, CacheResult::Miss),
        ("http://127.0.0.1:25/", 403, CacheResult::Denied),
        ("error:host-twice", 400, CacheResult::None),
        ("127.0.0.1:22", 403, CacheResult::Denied),
    ] {
        let found = find(url);
        assert_eq!(found.len(), 1, "{url} in {text}");
        assert_eq!((found[0].status, &found[0].result), (status, &result), "{url}");
    }
}

#[test]
fn the_access_log_is_written_in_the_format_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::fixed("", "hello");
    for format in LogFormat::ALL {
        let path = dir.path().join(format.name());
        let log = path.clone();
        let mut proxy = Proxy::with(move |config| {
            config.access_log = Some(log);
            config.access_log_format = format;
        });
        let long = "x".repeat(20_000);
        proxy.get_with(&origin.url("/a"), &format!("User-Agent: tester/1 \"q\"\r\nReferer: http://{long}/\r\n"));
        proxy.stop();
        let text = std::fs::read_to_string(&path).unwrap();
        let record = format.parse(&text).unwrap();
        assert_eq!((record.url, record.status, record.bytes), (origin.url("/a"), 200, 5), "{text}");
        let names_clients = matches!(format, LogFormat::Combined | LogFormat::Json);
        assert_eq!(record.user_agent.as_deref(), names_clients.then_some("tester/1 \"q\""), "{format}");
        assert_eq!(record.referer.map(|referer| referer.len()), names_clients.then_some(2048), "{format}");
    }
}

#[test]
fn large_bodies_pass_whole() {
    const PIECES: usize = 640;
    let origin = Origin::start(|request, stream| {
        let piece = vec![b'x'; 100_000];
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n",
            PIECES * piece.len(),
            if request.path == "/stored" { "Cache-Control: max-age=60\r\n" } else { "" }
        );
        stream.write_all(head.as_bytes()).unwrap();
        (0..PIECES).all(|_| stream.write_all(&piece).is_ok())
    });
    let proxy = Proxy::forward();
    for path in ["/passed", "/stored", "/stored"] {
        let response = proxy.get(&origin.url(path));
        assert!(response.whole && response.body.len() == PIECES * 100_000, "{path}: {}", response.head);
    }
    assert_eq!(origin.count(), 2);
}
