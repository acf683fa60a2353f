//! What rules about storing make of answers, over real sockets: what is kept, for how long, and what is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tinaja_clock::ManualClock;
use tinaja_proxy::Listener;
use tinaja_proxy::cache_rules::{CacheRule, CacheRules, Orders, Override, Overrides, Preset, Storing};

use crate::support::{Origin, Proxy, Response, eventually, reply};

const TTL: Orders = Orders { ttl_seconds: Some(100), ..NONE };
const NONE: Orders = Orders {
    store: Storing::Careful,
    ttl_seconds: None,
    min_seconds: 0,
    max_seconds: 1 << 31,
    grace_seconds: None,
    overrides: Overrides::NONE,
    without_cookies: false,
    ignores_reload: false,
    encode: tinaja_proxy::cache_rules::Codings::NONE,
};

/// A forward proxy with these rules, and its clock.
fn proxy(rules: Vec<CacheRule>) -> (Proxy, ManualClock) {
    Proxy::by_hand(|config| config.listeners[0].cache_rules = CacheRules::new(rules).unwrap())
}

/// A rule for this path alone.
fn at(path: &str, orders: Orders) -> CacheRule {
    CacheRule { paths: vec![path.parse().unwrap()], ..CacheRule::new(orders) }
}

fn overriding(orders: Orders, one: Override) -> Orders {
    Orders { overrides: [one].into_iter().collect(), ..orders }
}

/// An origin whose answer has the fields that the path stands for.
fn origin(fields: &'static [(&'static str, &'static str)]) -> Origin {
    Origin::start(move |request, stream| {
        let found = fields.iter().find(|(path, _)| *path == request.path);
        let status = if request.path.starts_with("/found") { 302 } else { 200 };
        reply(stream, request, status, found.map_or("", |(_, fields)| *fields), b"body")
    })
}

#[test]
fn a_lifetime_for_answers_without_one() {
    let origin = origin(&[("/given", "Cache-Control: max-age=5\r\n"), ("/private", "Cache-Control: private\r\n")]);
    let (proxy, hand) = proxy(vec![CacheRule::new(TTL)]);
    for path in ["/plain", "/given", "/private", "/found"] {
        assert!(!proxy.get(&origin.url(path)).is_hit());
    }
    hand.advance(Duration::from_secs(4));
    let hits = |paths: [&str; 4]| paths.map(|path| proxy.get(&origin.url(path)).is_hit());
    assert_eq!(hits(["/plain", "/given", "/private", "/found"]), [true, true, false, false]);
    assert!(proxy.get(&origin.url("/plain")).cache_status().contains("hit; ttl=96"));
    hand.advance(Duration::from_secs(2));
    assert_eq!(hits(["/plain", "/given", "/private", "/found"]), [true, false, false, false]);
    hand.advance(Duration::from_secs(100));
    assert!(!proxy.get(&origin.url("/plain")).is_hit());
}

#[test]
fn without_a_rule_that_fits_nothing_changes() {
    let origin = origin(&[]);
    let (proxy, _) = proxy(vec![at("/other", TTL)]);
    for _ in 0..2 {
        let answer = proxy.get(&origin.url("/plain"));
        assert_eq!(answer.cache_status(), "Tinaja; fwd=uri-miss; fwd-status=200");
    }
    assert_eq!(origin.count(), 2);
}

/// The first rule that fits decides alone: what is left to RFC 9111 above a rule for all stays so.
#[test]
fn the_first_that_fits_decides() {
    let origin = origin(&[("/never", "Cache-Control: max-age=60\r\n")]);
    let never = Orders { store: Storing::Never, ..NONE };
    let (proxy, _) = proxy(vec![at("/never", never), at("/default*", NONE), CacheRule::new(TTL)]);
    for (path, stored) in [("/never", false), ("/default/x", false), ("/x", true)] {
        proxy.get(&origin.url(path));
        assert_eq!(proxy.get(&origin.url(path)).is_hit(), stored, "{path}");
    }
}

#[test]
fn bounds_of_a_lifetime() {
    let origin = origin(&[("/", "Cache-Control: max-age=60\r\n")]);
    for (orders, seconds) in [
        (Orders { min_seconds: 100, ..NONE }, 100),
        (Orders { max_seconds: 10, ..NONE }, 10),
        (overriding(Orders { ttl_seconds: Some(30), ..NONE }, Override::Lifetime), 30),
    ] {
        let (proxy, hand) = proxy(vec![CacheRule::new(orders)]);
        proxy.get(&origin.url("/"));
        hand.advance(Duration::from_secs(seconds - 1));
        assert!(proxy.get(&origin.url("/")).is_hit(), "{orders:?}");
        hand.advance(Duration::from_secs(2));
        assert!(!proxy.get(&origin.url("/")).is_hit(), "{orders:?}");
    }
}

/// What is overruled is told where the answer is stored.
#[test]
fn overrides_are_told() {
    let origin = origin(&[("/", "Cache-Control: no-store\r\n"), ("/private", "Cache-Control: private\r\n")]);
    let (proxy, _) = proxy(vec![CacheRule::new(overriding(TTL, Override::NoStore))]);
    let first = proxy.get(&origin.url("/"));
    assert_eq!(first.cache_status(), "Tinaja; fwd=uri-miss; fwd-status=200; stored; detail=OVERRIDE_no-store");
    assert!(proxy.get(&origin.url("/")).is_hit());
    let other = proxy.get(&origin.url("/private"));
    assert_eq!(other.cache_status(), "Tinaja; fwd=uri-miss; fwd-status=200", "another directive stands");
    let plain = proxy.get(&origin.url("/plain"));
    assert_eq!(plain.cache_status(), "Tinaja; fwd=uri-miss; fwd-status=200; stored", "nothing was overruled");
}

/// The one who fetches gets the cookie, and nobody else does.
#[test]
fn cookies_are_not_stored() {
    let origin = origin(&[("/", "Set-Cookie: a=b\r\nCache-Control: max-age=60\r\n")]);
    let (proxy, _) = proxy(vec![CacheRule::new(Orders { without_cookies: true, ..NONE })]);
    let first = proxy.get(&origin.url("/"));
    assert_eq!(first.field("set-cookie"), "a=b");
    let second = proxy.get(&origin.url("/"));
    assert!(second.is_hit() && second.field("set-cookie").is_empty(), "{second:?}");
}

/// A 304 may bring a cookie too.
#[test]
fn a_validation_brings_no_cookie_into_the_cache() {
    let origin = Origin::start(|request, stream| match request.field("if-none-match") {
        Some(_) => reply(stream, request, 304, "ETag: \"1\"\r\nSet-Cookie: c=d\r\nCache-Control: max-age=60\r\n", b""),
        None => reply(stream, request, 200, "ETag: \"1\"\r\nCache-Control: max-age=5\r\n", b"body"),
    });
    let (proxy, hand) = proxy(vec![CacheRule::new(Orders { without_cookies: true, ..NONE })]);
    proxy.get(&origin.url("/"));
    hand.advance(Duration::from_secs(6));
    assert!(!proxy.get(&origin.url("/")).is_hit());
    let third = proxy.get(&origin.url("/"));
    assert!(third.is_hit() && third.field("set-cookie").is_empty(), "{third:?}");
}

#[test]
fn an_answer_to_an_authorised_request_is_for_nobody_else() {
    let origin = origin(&[("/public", "Cache-Control: public\r\n")]);
    let authorised = "Authorization: Basic eA==\r\n";
    let orders = Orders { min_seconds: 50, ..TTL };
    let (proxy, _) = proxy(vec![at("/opened", overriding(orders, Override::Authorization)), CacheRule::new(orders)]);
    for (path, shared) in [("/x", false), ("/public", false), ("/opened", true)] {
        let first = proxy.get_with(&origin.url(path), authorised);
        assert_eq!(first.cache_status().contains("; detail=OVERRIDE_authorization"), shared, "{first:?}");
        assert_eq!(proxy.get(&origin.url(path)).is_hit(), shared, "{path}");
    }
}

#[test]
fn clients_that_insist_are_not_heeded_where_a_rule_says_so() {
    let origin = origin(&[]);
    let ignoring = Orders { ignores_reload: true, ..TTL };
    let (proxy, hand) = proxy(vec![
        CacheRule { statuses: vec!["200".parse().unwrap()], ..at("/kept*", ignoring) },
        CacheRule::new(TTL),
    ]);
    let insisting = ["Cache-Control: no-cache\r\n", "Cache-Control: max-age=0\r\n", "Pragma: no-cache\r\n"];
    for path in ["/kept/a", "/b"] {
        proxy.get(&origin.url(path));
        for fields in insisting {
            let answer = proxy.get_with(&origin.url(path), fields);
            assert_eq!(answer.is_hit(), path == "/kept/a", "{path} {fields}: {answer:?}");
        }
        // Whoever has only part of it, or a condition, goes another way.
        let part = proxy.get_with(&origin.url(path), "Range: bytes=0-1\r\nCache-Control: no-cache\r\n");
        assert_eq!(part.is_hit(), path == "/kept/a", "{part:?}");
    }
    hand.advance(Duration::from_secs(101));
    assert!(!proxy.get_with(&origin.url("/kept/a"), insisting[0]).is_hit(), "stale is stale");
}

/// An origin that can be switched off.
fn failing() -> (Origin, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let told = fails.clone();
    let origin = Origin::start(move |request, stream| {
        let status = if told.load(Ordering::SeqCst) { 503 } else { 200 };
        reply(stream, request, status, "", b"body")
    });
    (origin, fails)
}

#[test]
fn grace_while_the_origin_is_away() {
    let (origin, fails) = failing();
    let (proxy, hand) = proxy(vec![CacheRule::new(Orders { grace_seconds: Some(60), ..TTL })]);
    let get = || -> Response { proxy.get(&origin.url("/")) };
    get();
    fails.store(true, Ordering::SeqCst);
    hand.advance(Duration::from_secs(130));
    let before = origin.count();
    // Stale: served at once, and asked for behind it.
    let stale = get();
    assert!(stale.is_hit() && stale.status == 200 && stale.cache_status().contains("ttl=-"), "{stale:?}");
    eventually("the origin is asked", || origin.count() > before);
    let insisting = proxy.get_with(&origin.url("/"), "Cache-Control: max-age=1000\r\n");
    assert_eq!(insisting.status, 200, "asked for, and served since the origin fails: {insisting:?}");
    hand.advance(Duration::from_secs(31));
    assert_eq!(get().status, 503, "past its grace");
    fails.store(false, Ordering::SeqCst);
    assert_eq!(get().status, 200);
    assert!(get().is_hit());
}

/// A size that is not announced fits no rule about sizes, before and after.
#[test]
fn rules_about_sizes_and_types() {
    let origin = Origin::start(|request, stream| match request.path.as_str() {
        "/chunked" => {
            use std::io::Write;
            let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
            stream.write_all(text.as_bytes()).is_ok()
        }
        "/image" => reply(stream, request, 200, "Content-Type: image/png\r\n", b"body"),
        _ => reply(stream, request, 200, "", b"body"),
    });
    let small = CacheRule { max_bytes: Some(4), ..at("/c*", TTL) };
    let image = CacheRule { types: vec!["image/*".parse().unwrap()], ..CacheRule::new(TTL) };
    let (proxy, _) = proxy(vec![small, image]);
    for (path, stored) in [("/chunked", false), ("/c", true), ("/image", true), ("/other", false)] {
        proxy.get(&origin.url(path));
        assert_eq!(proxy.get(&origin.url(path)).is_hit(), stored, "{path}");
    }
}

/// In front of an origin, the host is the one that clients ask for.
#[test]
fn hosts_of_a_reverse_proxy() {
    let origin = origin(&[]);
    let rule = CacheRule { hosts: vec!["*.kept.example".parse().unwrap()], ..CacheRule::new(TTL) };
    let mut proxy = Proxy::with(|config| {
        config.listeners[0] = Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap());
        config.listeners[0].cache_rules = CacheRules::new(vec![rule]).unwrap();
    });
    for (host, stored) in [("www.kept.example", true), ("WWW.kept.example:8080", true), ("kept.example", false)] {
        let is_hit = || {
            let mut client = proxy.client();
            client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            client.read("GET").unwrap().is_hit()
        };
        assert_eq!((is_hit(), is_hit()), (false, stored), "{host}");
    }
    proxy.stop();
}

/// Files that never change are kept whatever the client says, indexes are asked for each time, and blobs that only some may have
/// are not given to others.
#[test]
fn the_preset_for_packages() {
    let origin = Origin::start(|request, stream| {
        let indexed = request.path.ends_with("Release");
        match request.field("if-none-match") {
            Some(_) => reply(stream, request, 304, "ETag: \"1\"\r\n", b""),
            None if indexed => reply(stream, request, 200, "ETag: \"1\"\r\nCache-Control: max-age=60\r\n", b"index"),
            None => reply(stream, request, 200, "", b"body"),
        }
    });
    let (proxy, hand) = proxy(Preset::Packages.rules(&["127.0.0.1".parse().unwrap()]));
    let reload = |path: &str| proxy.get_with(&origin.url(path), "Cache-Control: max-age=0\r\n");
    for path in ["/debian/pool/main/h/hello_1_all.deb", "/simple/x/x-1-py3-none-any.whl", "/x/-/x-1.tgz"] {
        proxy.get(&origin.url(path));
        hand.advance(Duration::from_secs(30 * 24 * 3600));
        assert!(reload(path).is_hit(), "{path}");
    }
    let index = "/debian/dists/bookworm/InRelease";
    let before = origin.count();
    let answers: Vec<_> = (0..3).map(|_| proxy.get(&origin.url(index))).collect();
    assert_eq!(origin.count(), before + 3, "asked for each time");
    let validated = |answer: &Response| answer.status == 200 && answer.cache_status().contains("fwd-status=304");
    assert!(answers[1..].iter().all(validated), "{answers:?}");
    // Without a validator, an index is not stored at all.
    for _ in 0..2 {
        assert!(!proxy.get(&origin.url("/debian/dists/bookworm/main/binary-amd64/Packages")).is_hit());
    }
    let blob = origin.url("/v2/x/blobs/sha256:0123456789abcdef");
    proxy.get_with(&blob, "Authorization: Bearer x\r\n");
    assert!(!proxy.get(&blob).is_hit());
    assert!(proxy.get_with(&blob, "Authorization: Bearer y\r\n").is_hit(), "what was had without it is for all");
}
