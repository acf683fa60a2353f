//! Plain hits, which are answered without the exchange: they must look and count as all others do.

use std::io::Write;
use std::sync::Arc;

use crate::support::{Altered, Client, Log, Origin, Proxy, eventually, reply};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

/// A store on disk that keeps nothing in memory.
fn cold_store(dir: &std::path::Path) -> Arc<dyn Store> {
    let options = CacheOptions::new(dir).disk_bytes(64 << 20).memory_bytes(0);
    Arc::new(Cache::open(options).unwrap())
}

/// What changes with each answer goes; all else comes as the origin sent it, its Date and the case of names too.
#[test]
fn a_hit_is_what_the_origin_sent() {
    let origin = Origin::start(|_, stream| {
        let head = "HTTP/1.1 203 Whatever\r\nDate: Tue, 15 Nov 2022 08:12:31 GMT\r\nExpires: Tue, 15 Nov 2072 08:12:31 GMT\r\n\
                    X-CaSe: a,  b\r\nVia: 1.0 farther\r\nConnection: x-gone\r\nX-Gone: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let body = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        stream.write_all(head.as_bytes()).is_ok() && stream.write_all(body.as_bytes()).is_ok()
    });
    let proxy = Proxy::forward();
    let mut client = proxy.client();
    let first = client.request("GET", &origin.url("/"), "");
    assert_eq!((first.status, first.text().as_str(), first.is_hit()), (203, "abcde", false), "{first:?}");
    let hit = client.request("GET", &origin.url("/"), "");
    assert_eq!((hit.status, hit.text().as_str(), hit.is_hit()), (203, "abcde", true), "{hit:?}");
    assert_eq!(hit.field("date"), "Tue, 15 Nov 2022 08:12:31 GMT");
    assert!(hit.head.contains("\r\nX-CaSe: a,  b\r\n"), "{}", hit.head);
    assert!(hit.field("via").starts_with("1.0 farther, 1.1 tinaja-"), "{}", hit.field("via"));
    assert_eq!((hit.field("x-gone"), hit.field("transfer-encoding")), (String::new(), String::new()));
    assert_eq!((hit.field("content-length").as_str(), hit.field("connection").as_str()), ("5", "keep-alive"));
    assert!(hit.field("age").parse::<u64>().unwrap() > 86_400, "{}", hit.field("age"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn old_clients_and_heads() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "hello");
    // A server to its clients; a forward proxy keeps no connection with old ones (passing.rs).
    let proxy = Proxy::reverse(&origin);
    proxy.get(&origin.url("/"));
    let mut client = proxy.client();
    let head = client.request("HEAD", &origin.url("/"), "");
    assert!(head.is_hit() && head.field("content-length") == "5", "{head:?}");
    client.send(format!("GET {} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", origin.url("/")));
    let kept = client.read("GET").unwrap();
    assert!(kept.is_hit() && kept.text() == "hello" && kept.field("connection") == "keep-alive", "{kept:?}");
    client.send(format!("GET {} HTTP/1.0\r\n\r\n", origin.url("/")));
    let last = client.read("GET").unwrap();
    assert!(last.is_hit() && last.text() == "hello" && last.field("connection") == "close", "{last:?}");
    assert!(client.is_closed());
    assert_eq!(origin.count(), 1);
}

/// Each variant is a hit for its own requests, whichever came first; when the first one changes, so do all.
#[test]
fn variants() {
    let origin = Origin::start(|request, stream| {
        let language = request.field("accept-language").unwrap_or_default();
        reply(stream, request, 200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", language.as_bytes())
    });
    let proxy = Proxy::forward();
    for (round, is_hit) in [(0, false), (1, true), (2, true)] {
        for language in ["en", "fr", "qu"] {
            let got = proxy.get_with(&origin.url("/"), &format!("Accept-Language: {language}\r\n"));
            assert_eq!((got.text().as_str(), got.is_hit()), (language, is_hit), "round {round}: {got:?}");
        }
    }
    assert_eq!(origin.count(), 3);
    proxy.request("DELETE", &origin.url("/"), "");
    for language in ["qu", "fr"] {
        let got = proxy.get_with(&origin.url("/"), &format!("Accept-Language: {language}\r\n"));
        assert!(!got.is_hit() && got.text() == language, "{got:?}");
    }
}

/// What the client says of caching counts here as it does everywhere.
#[test]
fn clients_that_insist() {
    let origin = Origin::fixed("Cache-Control: max-age=600\r\nAge: 100\r\nETag: \"a\"\r\n", "hello");
    let proxy = Proxy::forward();
    proxy.get(&origin.url("/"));
    for (fields, is_hit) in [
        ("Cache-Control: max-age=200\r\n", true),
        ("Cache-Control: only-if-cached\r\n", true),
        ("Cache-Control: max-age=50\r\n", false),
        ("Cache-Control: no-cache\r\n", false),
        ("Pragma: no-cache\r\n", false),
        ("Cache-Control: no-store\r\n", false),
    ] {
        let got = proxy.get_with(&origin.url("/"), fields);
        assert_eq!((got.is_hit(), got.text().as_str()), (is_hit, "hello"), "{fields}: {got:?}");
    }
    let condition = proxy.get_with(&origin.url("/"), "If-None-Match: \"a\"\r\n");
    assert_eq!((condition.status, condition.is_hit()), (304, true), "{condition:?}");
}

/// What the front read and could not use is handed on: the disk is read once for a request, not once for each way to
/// answer it. And what never reached the disk costs no read.
#[test]
fn the_disk_is_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = cold_store(dir.path());
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "hello");
    let proxy = Proxy::over(store.clone(), |_| {});
    proxy.get(&origin.url("/"));
    eventually("it is stored", || store.stats().live_objects == 1);
    block_on(store.flush()).unwrap();
    let reads_of = |method: &str, path: &str, fields: &str| {
        let before = store.stats().reads;
        let got = proxy.request(method, &origin.url(path), fields);
        (got.is_hit(), store.stats().reads - before)
    };
    assert_eq!(reads_of("GET", "/", ""), (true, 1), "a hit");
    assert_eq!(reads_of("HEAD", "/", ""), (true, 1), "a hit without its body");
    // The second read is for the head, which the origin's answer updates.
    assert_eq!(reads_of("HEAD", "/", "Cache-Control: no-cache\r\n"), (false, 2), "found, and of no use");
    assert_eq!(reads_of("GET", "/other", "Cache-Control: no-store\r\n"), (false, 0), "not for the cache");
    assert_eq!(origin.count(), 3);
    drop(proxy);
    block_on(store.close()).unwrap();
}

/// A connection takes megabytes of an answer at once where they go over large segments, as on loopback. One thread sent all of them before it looked at
/// anybody else: with 2,000 such clients a second, hits of others took ten times as long. Between two pieces others have their turn.
#[test]
fn a_long_hit_lets_others_have_their_turn() {
    const LONG: usize = 1 << 20;
    let log = Log::new();
    let origin = Origin::start(|request, stream| {
        let body = vec![b'x'; if request.path.ends_with("/long") { LONG } else { 5 }];
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).is_ok() && stream.write_all(&body).is_ok()
    });
    let origin_url = format!("http://{}", origin.address).parse().unwrap();
    let (store, standstill) = Altered::standing();
    let proxy = Proxy::over(Arc::new(store), |config| {
        config.listeners[0].mode = tinaja_proxy::Mode::Reverse(tinaja_proxy::Routes::to(origin_url));
        log.of(config);
        config.workers = 1;
        // With little the system would be told to hold little, and the long one had to wait by itself.
        config.limits.client_memory = 1 << 30;
    });
    let (mut long, mut other) = (proxy.client(), proxy.client());
    let ask = |client: &mut Client, path: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address));
    };
    for (client, path) in [(&mut long, "/long"), (&mut other, "/other")] {
        ask(client, path);
        client.read("GET").unwrap();
    }
    proxy.has_stored(2);
    // The one thread stands still before it sends anything, and finds the other's request afterwards.
    standstill.close();
    ask(&mut long, "/long");
    standstill.is_reached();
    ask(&mut other, "/other");
    let reads = std::thread::spawn(move || long.read("GET").unwrap().text().len());
    standstill.open();
    assert!(other.read("GET").unwrap().is_hit());
    assert_eq!(reads.join().unwrap(), LONG);
    let lines = tinaja_testkit::wait::wait_for("all lines", std::time::Duration::from_secs(60), || {
        let lines: Vec<_> = log.text().lines().map(|line| line.contains("/long")).collect();
        (lines.len() == 4).then_some(lines)
    });
    assert_eq!(lines, [true, false, false, true], "whether it is the long one's, in the order in which they ended");
}
