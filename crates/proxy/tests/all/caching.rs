//! What is stored, served again, validated and left alone.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tinaja_clock::ManualClock;
use tinaja_store::Reference;

use crate::bans::Gate;
use crate::support::{Origin, Proxy, eventually, reply};

#[test]
fn the_second_request_is_a_hit() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nAge: 5\r\nContent-Type: text/plain\r\n", "hello");
    let (proxy, hand) = Proxy::by_hand(|_| {});
    let url = origin.url("/a?b=c");
    let first = proxy.get(&url);
    assert_eq!((first.status, first.text().as_str()), (200, "hello"), "{first:?}");
    assert_eq!(first.field("cache-status"), "Tinaja; fwd=uri-miss; fwd-status=200; stored");
    assert_eq!(first.field("age"), "5");
    assert!(first.field("via").starts_with("1.1 tinaja-"), "{first:?}");

    hand.advance(Duration::from_secs(1));
    let second = proxy.get(&url);
    assert_eq!((second.status, second.text().as_str()), (200, "hello"));
    let status = second.field("cache-status");
    assert!(status.starts_with("Tinaja; hit; ttl=5"), "{status}");
    assert_eq!(second.field("age"), "6");
    assert_eq!(second.field("content-length"), "5");
    assert_eq!(origin.count(), 1);

    let head = proxy.request("HEAD", &url, "");
    assert!(head.is_hit() && head.body.is_empty() && head.field("content-length") == "5", "{head:?}");
    let range = proxy.get_with(&url, "Range: bytes=1-2\r\n");
    assert_eq!((range.status, range.text().as_str()), (206, "el"), "{range:?}");
    let other = proxy.get(&origin.url("/a?b=d"));
    assert!(!other.is_hit(), "{other:?}");
    assert_eq!(origin.count(), 2);
}

#[test]
fn the_origin_sees_a_clean_request() {
    let origin = Origin::fixed("", "x");
    let proxy = Proxy::forward();
    proxy.get_with(
        &origin.url("/p?q"),
        "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nConnection: x-mine\r\nX-Mine: 1\r\n\
         TE: trailers\r\nUpgrade: websocket\r\nX-Forwarded-Host: evil\r\nX-Kept: 1\r\n",
    );
    let request = &origin.requests()[0];
    assert!(request.head.starts_with("GET /p?q HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.field("host"), Some(origin.address.to_string()));
    assert!(request.field("via").unwrap().starts_with("1.1 tinaja-"));
    assert_eq!(request.field("x-kept").as_deref(), Some("1"));
    for gone in
        ["proxy-connection", "proxy-authorization", "x-mine", "te", "upgrade", "x-forwarded-host", "x-forwarded-for"]
    {
        assert_eq!(request.field(gone), None, "{gone}");
    }
}

#[test]
fn what_must_not_be_stored_is_not() {
    let proxy = Proxy::forward();
    for fields in [
        "Cache-Control: no-store, max-age=60\r\n",
        "Cache-Control: private, max-age=60\r\n",
        "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n",
        "Cache-Control: max-age=60\r\nVary: *\r\n",
        "",
    ] {
        let origin = Origin::fixed(fields, "x");
        for expected in [1, 2] {
            let response = proxy.get(&origin.url("/"));
            assert_eq!(response.field("cache-status"), "Tinaja; fwd=uri-miss; fwd-status=200", "{fields}");
            assert_eq!(origin.count(), expected, "{fields}");
        }
    }
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "x");
    for (fields, status) in
        [("Authorization: Basic eA==\r\n", "fwd=uri-miss"), ("Cache-Control: no-store\r\n", "fwd=request")]
    {
        let before = origin.count();
        for _ in 0..2 {
            assert!(proxy.get_with(&origin.url("/a"), fields).field("cache-status").contains(status), "{fields}");
        }
        assert_eq!(origin.count(), before + 2, "{fields}");
    }
    let post = proxy.request("POST", &origin.url("/a"), "Content-Length: 0\r\n");
    assert_eq!(post.field("cache-status"), "Tinaja; fwd=method; fwd-status=200");
}

#[test]
fn lifetimes_are_guessed_from_last_modified() {
    let month_ago = SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
    let fields = format!("Last-Modified: {}\r\n", httpdate::fmt_http_date(month_ago));
    let origin = Origin::start(move |request, stream| reply(stream, request, 200, &fields, b"x"));
    let proxy = Proxy::forward();
    proxy.get(&origin.url("/"));
    let second = proxy.get(&origin.url("/"));
    let ttl: i64 = second.field("cache-status").rsplit('=').next().unwrap().parse().unwrap();
    assert!((3 * 24 * 3600 - 10..=3 * 24 * 3600).contains(&ttl), "{ttl}");
}

#[test]
fn stale_answers_are_validated() {
    let hand = ManualClock::new();
    let clock = hand.clock();
    let origin = Origin::start(move |request, stream| {
        let etag = if request.path == "/changes" { "\"2\"" } else { "\"1\"" };
        let date = httpdate::fmt_http_date(clock.wall());
        let fields = format!("Cache-Control: max-age=1\r\nETag: \"1\"\r\nDate: {date}\r\n");
        match request.field("if-none-match") {
            Some(known) if known == etag => {
                stream.write_all(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").as_bytes()).is_ok()
            }
            Some(_) => reply(stream, request, 200, &fields, b"new"),
            None => reply(stream, request, 200, &fields, b"old"),
        }
    });
    let proxy = Proxy::over(Arc::new(Reference::by(hand.clock())), |_| {});
    let same = origin.url("/same");
    assert_eq!(proxy.get(&same).text(), "old");
    assert_eq!(proxy.get_with(&same, "If-None-Match: \"1\"\r\n").status, 304);
    assert_eq!(proxy.get_with(&same, "If-None-Match: \"9\"\r\n").status, 200);
    assert_eq!(origin.count(), 1, "conditions are answered from the cache");
    proxy.has_stored(1);
    hand.advance(Duration::from_secs(2));
    let validated = proxy.get(&same);
    assert_eq!((validated.status, validated.text().as_str()), (200, "old"));
    assert_eq!(validated.field("cache-status"), "Tinaja; fwd=stale; fwd-status=304");
    assert_eq!(validated.field("age"), "0");
    assert!(proxy.get(&same).is_hit(), "fresh again");
    assert_eq!(origin.count(), 2);

    // A client that insists, with either spelling, has it validated too.
    for fields in ["Cache-Control: no-cache\r\n", "Cache-Control: max-age=0\r\n", "Pragma: no-cache\r\n"] {
        let before = origin.count();
        let forced = proxy.get_with(&same, fields);
        assert_eq!((forced.text().as_str(), origin.count()), ("old", before + 1), "{fields}");
        assert_eq!(forced.field("cache-status"), "Tinaja; fwd=request; fwd-status=304");
    }

    let changes = origin.url("/changes");
    assert_eq!(proxy.get(&changes).text(), "old");
    proxy.has_stored(2);
    hand.advance(Duration::from_secs(2));
    let fetched = proxy.get(&changes);
    assert_eq!(fetched.text(), "new");
    assert_eq!(fetched.field("cache-status"), "Tinaja; fwd=stale; fwd-status=200; stored");
    assert_eq!(proxy.get(&changes).text(), "new");
}

#[test]
fn variants_are_kept_apart() {
    let origin = Origin::start(|request, stream| {
        let language = request.field("accept-language").unwrap_or("none".into());
        reply(stream, request, 200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", language.as_bytes())
    });
    let proxy = Proxy::forward();
    let url = origin.url("/");
    for round in 0..2 {
        for language in ["de", "en", "fr"] {
            let response = proxy.get_with(&url, &format!("Accept-Language: {language}\r\n"));
            assert_eq!((response.text().as_str(), response.is_hit()), (language, round == 1), "{response:?}");
        }
        assert_eq!(proxy.get(&url).text(), "none");
    }
    assert_eq!(origin.count(), 4);
}

#[test]
fn a_part_on_a_miss_does_not_pull_the_whole() {
    let origin = Origin::start(|request, stream| match request.field("range") {
        Some(range) if range == "bytes=0-0" => {
            reply(stream, request, 206, "Content-Range: bytes 0-0/2000000\r\nCache-Control: max-age=60\r\n", b"x")
        }
        _ => reply(stream, request, 200, "Cache-Control: max-age=1\r\nETag: \"1\"\r\n", &[b'x'; 2_000_000]),
    });
    let (proxy, hand) = Proxy::by_hand(|_| {});
    let url = origin.url("/image");
    for _ in 0..2 {
        let part = proxy.get_with(&url, "Range: bytes=0-0\r\n");
        assert_eq!((part.status, part.body.len()), (206, 1), "{}", part.head);
        let head = proxy.request("HEAD", &url, "");
        assert_eq!((head.status, head.field("content-length").as_str()), (200, "2000000"));
    }
    let seen = origin.requests();
    assert_eq!(seen.iter().filter(|request| request.method == "HEAD").count(), 2);
    assert_eq!(seen.iter().filter(|request| request.field("range").is_some()).count(), 2);
    assert_eq!(seen.len(), 4, "nothing was fetched whole, nothing partial was stored");
    assert_eq!(proxy.get(&url).body.len(), 2_000_000);
    assert_eq!(proxy.get_with(&url, "Range: bytes=5-9\r\n").body.len(), 5);
    assert_eq!(origin.count(), 5, "a part of what is stored comes from the cache");
    proxy.has_stored(1);
    hand.advance(Duration::from_secs(2));
    proxy.get_with(&url, "Range: bytes=0-0\r\n");
    assert_eq!(origin.requests()[5].field("range").as_deref(), Some("bytes=0-0"), "stale: passed on as it is");
}

#[test]
fn a_change_makes_what_is_stored_invalid() {
    let origin = Origin::start(|request, stream| {
        let status = if request.path == "/fails" && request.method == "POST" { 500 } else { 200 };
        reply(stream, request, status, "Cache-Control: max-age=60\r\n", b"x")
    });
    let proxy = Proxy::forward();
    for (path, forgotten) in [("/works", true), ("/fails", false)] {
        let url = origin.url(path);
        proxy.get(&url);
        assert!(proxy.get(&url).is_hit());
        proxy.request("POST", &url, "Content-Length: 0\r\n");
        assert_eq!(!proxy.get(&url).is_hit(), forgotten, "{path}");
    }
}

#[test]
fn only_if_cached() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "x");
    let proxy = Proxy::forward();
    let refused = proxy.get_with(&origin.url("/"), "Cache-Control: only-if-cached\r\n");
    assert_eq!((refused.status, origin.count()), (504, 0));
    assert!(refused.text().contains("only-if-cached"), "{}", refused.text());
    proxy.get(&origin.url("/"));
    assert!(proxy.get_with(&origin.url("/"), "Cache-Control: only-if-cached\r\n").is_hit());
}

#[test]
fn stale_if_error_only_where_the_origin_allows_it() {
    for (control, status) in [
        ("max-age=1", 502),
        ("max-age=1, stale-if-error=600", 200),
        ("max-age=1, stale-if-error=600, must-revalidate", 502),
    ] {
        let failing = Arc::new(AtomicBool::new(false));
        let fails = failing.clone();
        let origin = Origin::start(move |request, stream| {
            !fails.load(Ordering::SeqCst)
                && reply(stream, request, 200, &format!("Cache-Control: {control}\r\n"), b"old")
        });
        let (proxy, hand) = Proxy::by_hand(|_| {});
        assert_eq!(proxy.get(&origin.url("/")).text(), "old");
        proxy.has_stored(1);
        hand.advance(Duration::from_secs(2));
        failing.store(true, Ordering::SeqCst);
        let response = proxy.get(&origin.url("/"));
        assert_eq!(response.status, status, "{control}: {response:?}");
        assert_eq!(response.text() == "old", status == 200, "{control}");
    }
}

/// What the origin was asked for before an unsafe request changed it was stored when it came later, and served as long as it was fresh: the
/// simulation found that. Whoever has changed something sees the change.
#[test]
fn what_is_on_its_way_when_its_url_is_changed_is_not_stored() {
    for fields in ["", "Accept-Language: en\r\n"] {
        let (version, asked, go) = (Arc::new(AtomicU64::new(1)), Gate::default(), Gate::default());
        let (now, heard, may) = (version.clone(), asked.clone(), go.clone());
        let origin = Origin::start(move |request, stream| {
            if request.method == "POST" {
                now.store(2, Ordering::SeqCst);
                return reply(stream, request, 200, "", b"changed");
            }
            let body = now.load(Ordering::SeqCst).to_string();
            heard.open();
            may.wait();
            let vary = if request.field("accept-language").is_some() { "Vary: Accept-Language\r\n" } else { "" };
            reply(stream, request, 200, &format!("Cache-Control: max-age=60\r\n{vary}"), body.as_bytes())
        });
        let (proxy, url) = (Proxy::forward(), origin.url("/x"));
        std::thread::scope(|scope| {
            let before = scope.spawn(|| proxy.get_with(&url, fields).text());
            asked.wait();
            assert_eq!(proxy.request("POST", &url, "Content-Length: 0\r\n").status, 200);
            go.open();
            assert_eq!(before.join().unwrap(), "1", "{fields}");
        });
        for _ in 0..3 {
            assert_eq!(proxy.get_with(&url, fields).text(), "2", "{fields}");
        }
        eventually("the newer one is stored", || proxy.get_with(&url, fields).is_hit());
    }
}
