//! Plain hits over HTTP/2, which are answered where their stream was accepted: they must look and count as all others do.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use h2::Reason;
use tinaja_logs::squid;

use crate::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, block, frame};
use crate::streams::Streams;
use crate::support::{Altered, Origin, Proxy, eventually, reply};

/// What changes with each answer goes; all else comes as the origin sent it. The same object over HTTP/1 has the same fields.
#[tokio::test]
async fn a_hit_is_what_the_origin_sent() {
    let origin = Origin::start(|_, stream| {
        let head = "HTTP/1.1 203 Whatever\r\nDate: Tue, 15 Nov 2022 08:12:31 GMT\r\nExpires: Tue, 15 Nov 2072 08:12:31 GMT\r\n\
                    X-CaSe: a,  b\r\nX-Case: c\r\nVia: 1.0 farther\r\nConnection: x-gone\r\nX-Gone: 1\r\nTransfer-Encoding: chunked\r\n\
                    Keep-Alive: timeout=5\r\n\r\n";
        let body = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        stream.write_all(head.as_bytes()).is_ok() && stream.write_all(body.as_bytes()).is_ok()
    });
    let proxy = Proxy::reverse(&origin);
    let streams = Streams::connect(proxy.address).await;
    let url = format!("http://{}/", proxy.address);
    let miss = streams.get(&url).await;
    assert_eq!((miss.status.as_u16(), miss.text().as_str(), miss.is_hit()), (203, "abcde", false), "{miss:?}");
    proxy.has_stored(1);
    let hit = streams.get(&url).await;
    assert_eq!((hit.status.as_u16(), hit.text().as_str(), hit.is_hit()), (203, "abcde", true), "{hit:?}");
    assert_eq!(hit.field("date"), "Tue, 15 Nov 2022 08:12:31 GMT");
    let all = |name: &str| hit.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(all("x-case"), ["a,  b", "c"]);
    let via = all("via");
    assert!(via[0] == "1.0 farther" && via[1].starts_with("1.1 tinaja-") && via.len() == 2, "{via:?}");
    assert!(["connection", "keep-alive", "transfer-encoding", "x-gone"].iter().all(|name| all(name).is_empty()));
    assert_eq!(all("content-length"), ["5"]);
    assert!(hit.field("age").parse::<u64>().unwrap() > 86_400, "{hit:?}");
    let mut old = proxy.client();
    old.send(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address));
    let old = old.read("GET").unwrap();
    // Nothing but the connection's own field is more there.
    let names: std::collections::BTreeSet<_> = hit.headers.keys().map(|name| name.as_str().to_owned()).collect();
    let lines = old.head.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0.to_ascii_lowercase()));
    assert_eq!(lines.filter(|name| name != "connection").collect::<std::collections::BTreeSet<_>>(), names);
    assert_eq!(origin.count(), 1);
}

/// Heads without bodies, variants, conditions and clients that insist: some of these are plain hits and some are the exchange's.
#[tokio::test]
async fn heads_variants_and_wishes() {
    let origin = Origin::start(|request, stream| {
        let language = request.field("accept-language").unwrap_or_default();
        match request.path.as_str() {
            "/none" => stream.write_all(b"HTTP/1.1 204 No Content\r\nCache-Control: max-age=60\r\n\r\n").is_ok(),
            "/empty" => reply(stream, request, 200, "Cache-Control: max-age=60\r\n", b""),
            _ => {
                let fields = "Cache-Control: max-age=60\r\nVary: Accept-Language\r\nETag: \"a\"\r\nAge: 10\r\n";
                reply(stream, request, 200, fields, language.as_bytes())
            }
        }
    });
    let proxy = Proxy::reverse(&origin);
    let streams = Streams::connect(proxy.address).await;
    let url = |path: &str| format!("http://{}{path}", proxy.address);
    for (path, status, length) in [("/none", 204, ""), ("/empty", 200, "0")] {
        for is_hit in [false, true] {
            let got = streams.get(&url(path)).await;
            assert_eq!((got.status.as_u16(), got.is_hit(), got.body.len()), (status, is_hit, 0), "{got:?}");
            assert_eq!(got.field("content-length"), length, "{got:?}");
            eventually("it is stored", || proxy.store.stats().stored > 0);
        }
    }
    for is_hit in [false, true, true] {
        for language in ["en", "fr", "qu"] {
            let got = streams.ask("GET", &url("/"), &[("accept-language", language)], &[]).await.unwrap();
            assert_eq!((got.text().as_str(), got.is_hit()), (language, is_hit), "{got:?}");
        }
    }
    let asked = async |method: &str, fields: &[(&str, &str)]| {
        let fields = [&[("accept-language", "en")], fields].concat();
        let got = streams.ask(method, &url("/"), &fields, &[]).await.unwrap();
        (got.status.as_u16(), got.is_hit(), got.text())
    };
    assert_eq!(asked("HEAD", &[]).await, (200, true, String::new()));
    assert_eq!(asked("GET", &[("if-none-match", "\"a\"")]).await, (304, true, String::new()));
    assert_eq!(asked("GET", &[("range", "bytes=1-1")]).await, (206, true, "n".into()));
    assert_eq!(asked("GET", &[("cache-control", "max-age=30")]).await, (200, true, "en".into()));
    assert_eq!(asked("GET", &[("cache-control", "max-age=5")]).await, (200, false, "en".into()));
    assert_eq!(asked("GET", &[("cache-control", "no-store")]).await, (200, false, "en".into()));
    assert_eq!(origin.count(), 2 + 3 + 2);
}

/// A body that is longer than any buffer comes whole, beside others and at a client that takes a piece at a time.
#[tokio::test]
async fn large_bodies_beside_small_ones() {
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let body = large.clone();
    let origin = Origin::start(move |request, stream| {
        let body = if request.path == "/large" { &body[..] } else { b"small" };
        reply(stream, request, 200, "Cache-Control: max-age=60\r\n", body)
    });
    let proxy = Proxy::reverse(&origin);
    let streams = Arc::new(Streams::connect(proxy.address).await);
    let url = |path: &str| format!("http://{}{path}", proxy.address);
    streams.get(&url("/large")).await;
    streams.get(&url("/small")).await;
    proxy.has_stored(2);
    let asked: Vec<_> = (0..40)
        .map(|number| {
            let (streams, url) = (streams.clone(), url(if number % 4 == 0 { "/large" } else { "/small" }));
            tokio::spawn(async move { streams.get(&url).await })
        })
        .collect();
    for (number, answer) in asked.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        assert!(answer.is_hit() && answer.broken.is_none(), "{number}: {:?}", answer.headers);
        assert!(answer.body == if number % 4 == 0 { &large[..] } else { b"small" }, "{number}");
    }
    assert_eq!(origin.count(), 2);
}

/// A hit is in the log once, with its bytes, like one over HTTP/1.
#[tokio::test]
async fn hits_are_logged() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nContent-Type: text/plain; charset=utf-8\r\n", "hello");
    let origin_url = format!("http://{}", origin.address).parse().unwrap();
    let mut proxy = Proxy::with(|config| {
        config.listeners[0].mode = tinaja_proxy::Mode::Reverse(tinaja_proxy::Routes::to(origin_url));
        config.access_log = Some(log.clone());
    });
    let streams = Streams::connect(proxy.address).await;
    let url = format!("http://{}/x", proxy.address);
    streams.get(&url).await;
    proxy.has_stored(1);
    for _ in 0..3 {
        assert!(streams.get(&url).await.is_hit());
    }
    streams.ask("HEAD", &url, &[], &[]).await.unwrap();
    drop(streams);
    proxy.stop();
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<_> = text.lines().map(|line| squid::parse(line).unwrap()).collect();
    let mut said: Vec<_> =
        lines.iter().map(|line| (line.method.as_str(), line.result.to_string(), line.status, line.bytes)).collect();
    // In whichever order: a client has the end of its answer a moment before the log has its line.
    said.sort();
    let hit = |method, bytes| (method, "TCP_HIT".to_owned(), 200, bytes);
    let miss = ("GET", "TCP_MISS".to_owned(), 200, 5);
    assert_eq!(said, [hit("GET", 5), hit("GET", 5), hit("GET", 5), miss, hit("HEAD", 0)], "{text}");
    assert!(lines.iter().all(|line| line.url == url && line.content_type.as_deref() == Some("text/plain")), "{text}");
}

/// A stream that panics where it is accepted is reset, and the connection and its other streams go on.
#[tokio::test]
async fn a_panic_ends_one_stream() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "hello");
    let origin_url = format!("http://{}", origin.address).parse().unwrap();
    let on = Arc::new(AtomicBool::new(false));
    let switch = on.clone();
    let store = Altered::looking(move |_| {
        assert!(!switch.swap(false, SeqCst), "the test asks for it");
        None
    });
    let proxy = Proxy::over(Arc::new(store), |config| {
        config.listeners[0].mode = tinaja_proxy::Mode::Reverse(tinaja_proxy::Routes::to(origin_url));
    });
    let streams = Streams::connect(proxy.address).await;
    let url = format!("http://{}/", proxy.address);
    streams.get(&url).await;
    proxy.has_stored(1);
    for _ in 0..3 {
        on.store(true, SeqCst);
        let error = streams.ask("GET", &url, &[], &[]).await.unwrap_err();
        assert!(error.is_reset() && error.reason() != Some(Reason::NO_ERROR), "{error:?}");
        assert!(streams.get(&url).await.is_hit());
    }
    assert_eq!(origin.count(), 1);
}

/// Whoever sends many requests at once leaves others their turn: with one thread, another client's hit comes before the last of them.
#[test]
fn others_have_their_turn() {
    const STREAMS: u32 = 100;
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "hello");
    let origin_url = format!("http://{}", origin.address).parse().unwrap();
    // The one thread stands still at the first lookup of many.
    let (store, standstill) = Altered::standing();
    let proxy = Proxy::over(Arc::new(store), |config| {
        config.listeners[0].mode = tinaja_proxy::Mode::Reverse(tinaja_proxy::Routes::to(origin_url));
        config.access_log = Some(log.clone());
        config.workers = 1;
    });
    let authority = proxy.address.to_string();
    let mut other = proxy.client();
    for path in ["/many", "/other"] {
        other.send(format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
        other.read("GET").unwrap();
    }
    proxy.has_stored(2);
    let mut frames = Frames::connect(proxy.address, &[]);
    let fields: [(&str, &[u8]); 4] =
        [(":method", b"GET"), (":scheme", b"http"), (":path", b"/many"), (":authority", authority.as_bytes())];
    frames.get(1, &fields);
    frames.find(&[DATA]).unwrap();
    standstill.close();
    let requests =
        (1..=STREAMS).flat_map(|number| frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &block(&fields)));
    assert!(frames.raw(&requests.collect::<Vec<_>>()));
    standstill.is_reached();
    other.send(format!("GET /other HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    standstill.open();
    assert_eq!(other.read("GET").unwrap().status, 200);
    let mut ended = 0;
    while ended < STREAMS {
        let came = frames.read().unwrap();
        ended += u32::from(came.kind == DATA && came.flags & END_STREAM != 0);
    }
    let lines = tinaja_testkit::wait::wait_for("all lines", std::time::Duration::from_secs(60), || {
        let text = std::fs::read_to_string(&log).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.contains("/other")).collect();
        (lines.len() == 2 + 1 + STREAMS as usize + 1).then_some(lines)
    });
    let behind = lines.iter().rev().take_while(|is_other| !**is_other).count();
    println!("{behind} of {STREAMS} came after it");
    assert!(behind > 0, "it came last");
}
