//! A proxy that asks no origin: what it serves all the same, what it refuses, and that nobody hears of it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

use tinaja_clock::ManualClock;
use tinaja_proxy::cache_rules::{CacheRule, CacheRules, Orders, Override};
use tinaja_proxy::{Check, Config, Mode, Routes, Rule, Upstream};
use tinaja_store::{Reference, Store};
use tinaja_testkit::port::free_port;

use crate::streams::Streams;
use crate::support::{Origin, Proxy, Request, Response, eventually, reply};

/// Fields by paths.
type Fields = &'static [(&'static str, &'static str)];

/// Whoever listens where an origin was, and how many have come.
struct Watch(Arc<AtomicUsize>);

impl Watch {
    fn at(address: SocketAddr) -> Watch {
        let (listener, count) = (TcpListener::bind(address).unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        spawn(move || listener.incoming().for_each(|_| _ = counted.fetch_add(1, Ordering::SeqCst)));
        Watch(count)
    }

    /// Nobody came, nor does anybody come a moment later.
    fn saw_nobody(&self) {
        sleep(Duration::from_millis(200));
        assert_eq!(self.0.load(Ordering::SeqCst), 0, "the origin was connected to");
    }
}

/// A proxy that went offline with what it had.
struct Offline {
    /// The first to go: with its clock at a stand a proxy would not end.
    _hand: ManualClock,
    proxy: Proxy,
    /// The one that fetched, over the same cache.
    online: Proxy,
    watch: Watch,
    origin: Origin,
}

impl Offline {
    fn get(&self, path: &str, fields: &str) -> Response {
        self.proxy.get_with(&self.origin.url(path), fields)
    }

    /// Asserts that it is a 504 whose page says this, and that nothing is told of a cache.
    fn refuses(&self, answer: &Response, why: &str) {
        let text = answer.text();
        assert_eq!(answer.status, 504, "{why}: {answer:?}");
        assert!(text.contains("The proxy is offline") && text.contains(why), "{why}: {text}");
        assert!(answer.cache_status().is_empty(), "{answer:?}");
    }
}

const ABSENT: &str = "No response to this request is in the cache.";
const STRICT: &str = "must be validated before it is used";
const UNWANTED: &str = "older than the request allows";

/// Fetches these paths with these request fields, lets time go by, and goes offline.
fn offline(fields: Fields, rules: Vec<CacheRule>, asked: &[(&str, &str)], seconds: u64) -> Offline {
    let hand = ManualClock::new();
    let store: Arc<dyn Store> = Arc::new(Reference::by(hand.clock()));
    // It is listened at again once the origin has gone: any other port may be an outgoing connection's by then (once on a fresh clone).
    let listener = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
    let mut origin = Origin::on(listener, move |request, stream| {
        let found = fields.iter().find(|(path, _)| *path == request.path).map_or("", |(_, fields)| *fields);
        answer(request, stream, found)
    });
    let origin_port = origin.address.port();
    let with = |offline: bool| {
        Proxy::over(store.clone(), |config| {
            config.limits.fill_range_below = 0;
            config.listeners[0].cache_rules = CacheRules::new(rules.clone()).unwrap();
            config.listeners[0].rules.push(Rule::allow_connect_port(origin_port));
            config.listeners[0].offline = offline;
        })
    };
    let online = with(false);
    for (path, fields) in asked {
        let answer = online.get_with(&origin.url(path), fields);
        assert!(answer.cache_status().contains("; stored"), "{path}: {answer:?}");
    }
    origin.stop();
    hand.advance(Duration::from_secs(seconds));
    Offline { _hand: hand, proxy: with(true), online, watch: Watch::at(origin.address), origin }
}

/// Ten bytes, or the part of them that is asked for.
fn answer(request: &Request, stream: &mut std::net::TcpStream, fields: &str) -> bool {
    match request.field("range").as_deref() {
        Some("bytes=0-3") => reply(stream, request, 206, &format!("Content-Range: bytes 0-3/10\r\n{fields}"), b"0123"),
        _ => reply(stream, request, 200, fields, b"0123456789"),
    }
}

const LIFETIMES: Fields = &[
    ("/fresh", "Cache-Control: max-age=1000\r\n"),
    ("/stale", "Cache-Control: max-age=100\r\n"),
    ("/swr", "Cache-Control: max-age=100, stale-while-revalidate=1000\r\n"),
    ("/zero", "Cache-Control: max-age=0\r\nETag: \"1\"\r\n"),
    ("/must", "Cache-Control: max-age=100, must-revalidate\r\n"),
    ("/proxy", "Cache-Control: max-age=100, proxy-revalidate\r\n"),
    ("/shared", "Cache-Control: s-maxage=100\r\n"),
    ("/shared/fresh", "Cache-Control: s-maxage=1000\r\n"),
    ("/no-cache", "Cache-Control: no-cache\r\nETag: \"1\"\r\n"),
    ("/varies", "Cache-Control: max-age=1000\r\nVary: X\r\n"),
];

fn all() -> Vec<(&'static str, &'static str)> {
    LIFETIMES.iter().map(|(path, _)| (*path, "")).collect()
}

#[test]
fn what_is_there_is_served_fresh_or_stale() {
    let offline = offline(LIFETIMES, vec![], &all(), 223);
    for (path, ttl) in
        [("/fresh", 777), ("/shared/fresh", 777), ("/stale", -123), ("/swr", -123), ("/zero", -223), ("/varies", 777)]
    {
        for fields in ["", "Cache-Control: only-if-cached\r\n"] {
            let answer = offline.get(path, fields);
            assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"), "{path}");
            assert_eq!(answer.field("age"), "223", "{path}");
            assert_eq!(answer.cache_status(), format!("Tinaja; hit; ttl={ttl}; detail=OFFLINE"), "{path}");
        }
        let head = offline.proxy.request("HEAD", &offline.origin.url(path), "");
        assert!(head.status == 200 && head.is_hit() && head.body.is_empty(), "{path}: {head:?}");
    }
    let condition = offline.get("/zero", "If-None-Match: \"1\"\r\n");
    assert!(condition.status == 304 && condition.is_hit(), "{condition:?}");
    offline.watch.saw_nobody();
}

#[test]
fn what_must_be_validated_or_is_not_there_is_refused() {
    let offline = offline(LIFETIMES, vec![], &all(), 223);
    for path in ["/must", "/proxy", "/shared", "/no-cache"] {
        offline.refuses(&offline.get(path, ""), STRICT);
        offline.refuses(&offline.get(path, "Cache-Control: max-stale\r\n"), STRICT);
    }
    offline.refuses(&offline.get("/absent", ""), ABSENT);
    offline.refuses(&offline.get("/absent", "Range: bytes=0-1\r\n"), ABSENT);
    offline.refuses(&offline.get("/varies", "X: y\r\n"), ABSENT);
    offline.refuses(&offline.get("/fresh", "If-Match: \"1\"\r\n"), ABSENT);
    // A name is not looked up: that would be a 502.
    offline.refuses(&offline.proxy.get("http://nowhere.invalid/"), ABSENT);
    offline.watch.saw_nobody();
}

#[test]
fn clients_that_insist_get_nothing_that_nobody_has_validated() {
    let offline = offline(LIFETIMES, vec![], &all(), 223);
    for (control, fresh, stale) in [
        ("Cache-Control: no-cache", false, false),
        ("Pragma: no-cache", false, false),
        ("Cache-Control: max-age=0", false, false),
        ("Cache-Control: max-age=222", false, false),
        ("Cache-Control: max-age=223", true, false),
        ("Cache-Control: max-age=223, max-stale", true, true),
        ("Cache-Control: max-stale=123", true, true),
        ("Cache-Control: max-stale=122", true, false),
        ("Cache-Control: min-fresh=777", true, false),
        ("Cache-Control: min-fresh=778", false, false),
    ] {
        for (path, served) in [("/fresh", fresh), ("/stale", stale)] {
            let answer = offline.get(path, &format!("{control}\r\n"));
            match served {
                true => assert!(answer.status == 200 && answer.is_hit(), "{path} {control}: {answer:?}"),
                false => offline.refuses(&answer, UNWANTED),
            }
        }
    }
    offline.watch.saw_nobody();
}

#[test]
fn rules_may_override_what_forbids_it() {
    let grace = Orders { grace_seconds: Some(1), ..Orders::default() };
    let overriding = |path: &str, one: Override| CacheRule {
        paths: vec![path.parse().unwrap()],
        ..CacheRule::new(Orders { overrides: [one].into_iter().collect(), ..grace })
    };
    let ignoring = Orders { ignores_reload: true, ..Orders::default() };
    let mut rules: Vec<_> =
        ["/must", "/proxy", "/shared"].map(|path| overriding(path, Override::MustRevalidate)).into();
    rules.push(overriding("/no-cache", Override::NoCache));
    rules.push(CacheRule { paths: vec!["/*".parse().unwrap()], ..CacheRule::new(ignoring) });
    let asked = LIFETIMES.iter().filter(|(path, _)| !path.ends_with("no-cache")).map(|(path, _)| (*path, ""));
    let offline = offline(LIFETIMES, rules, &asked.collect::<Vec<_>>(), 223);
    for path in ["/must", "/proxy", "/shared", "/stale"] {
        let answer = offline.get(path, "");
        assert_eq!(answer.cache_status(), "Tinaja; hit; ttl=-123; detail=OFFLINE", "{path}: {answer:?}");
    }
    for path in ["/fresh", "/stale"] {
        assert!(offline.get(path, "Cache-Control: no-cache\r\n").is_hit(), "{path}");
        offline.refuses(&offline.get(path, "Cache-Control: max-age=9\r\n"), UNWANTED);
    }
    offline.watch.saw_nobody();
}

#[test]
fn parts_are_served_where_all_of_them_is_stored() {
    const FIELDS: Fields = &[
        ("/whole", "Cache-Control: max-age=100\r\nETag: \"1\"\r\n"),
        ("/pieces", "Cache-Control: max-age=100\r\nETag: \"1\"\r\n"),
    ];
    let offline = offline(FIELDS, vec![], &[("/whole", ""), ("/pieces", "Range: bytes=0-3\r\n")], 223);
    for path in ["/whole", "/pieces"] {
        let part = offline.get(path, "Range: bytes=1-2\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "12"), "{path}: {part:?}");
        assert_eq!(part.cache_status(), "Tinaja; hit; ttl=-123; detail=OFFLINE", "{path}");
    }
    assert_eq!(offline.get("/whole", "Range: bytes=2-8\r\n").text(), "2345678");
    for fields in ["Range: bytes=2-8\r\n", "Range: bytes=0-0,5-5\r\n", ""] {
        offline.refuses(&offline.get("/pieces", fields), "Only a part");
    }
    offline.watch.saw_nobody();
}

#[test]
fn what_is_not_for_the_cache_is_refused_at_once() {
    let offline = offline(LIFETIMES, vec![], &all(), 0);
    let url = offline.origin.url("/fresh");
    for (method, fields) in [
        ("POST", "Content-Length: 0\r\n"),
        ("PUT", "Content-Length: 3\r\n"),
        ("DELETE", ""),
        ("OPTIONS", ""),
        ("GET", "Cache-Control: no-store\r\n"),
    ] {
        offline.refuses(&offline.proxy.request(method, &url, fields), "Requests of this kind");
    }
    // What was asked for and not done is no change: it is there still.
    assert!(offline.get("/fresh", "").is_hit());
    for authority in [offline.origin.address.to_string(), "nowhere.invalid:443".to_owned()] {
        let mut client = offline.proxy.client();
        client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
        offline.refuses(&client.read("CONNECT").unwrap(), "Tunnels are closed meanwhile.");
    }
    let own = offline.proxy.request("OPTIONS", &url, "Max-Forwards: 0\r\n");
    assert_eq!(own.status, 200, "it goes no further than here");
    offline.watch.saw_nobody();
}

#[tokio::test]
async fn clients_over_http2_are_told_the_same() {
    let offline = offline(LIFETIMES, vec![], &all(), 223);
    let streams = Streams::connect(offline.proxy.address).await;
    for (path, ttl) in [("/fresh", 777), ("/stale", -123), ("/swr", -123)] {
        let answer = streams.get(&offline.origin.url(path)).await;
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "0123456789"), "{path}");
        assert_eq!(answer.field("cache-status"), format!("Tinaja; hit; ttl={ttl}; detail=OFFLINE"), "{path}");
    }
    for (method, path, why) in
        [("GET", "/must", STRICT), ("GET", "/absent", ABSENT), ("POST", "/fresh", "Requests of this kind")]
    {
        let answer = streams.ask(method, &offline.origin.url(path), &[], &[]).await.unwrap();
        assert!(answer.status == 504 && answer.text().contains(why), "{method} {path}: {answer:?}");
    }
    offline.watch.saw_nobody();
}

/// What is seen of who asks: the proxy over the same cache that is online validates behind its answer, this one does not.
#[test]
fn whoever_is_online_asks() {
    let offline = offline(LIFETIMES, vec![], &all(), 223);
    let (url, asked) = (offline.origin.url("/swr"), offline.origin.count());
    assert!(offline.proxy.get(&url).is_hit());
    offline.watch.saw_nobody();
    assert!(offline.online.get(&url).is_hit());
    // By the connection that it has kept, or by a new one.
    let came = || offline.origin.count() - asked + offline.watch.0.load(Ordering::SeqCst);
    eventually("it is validated", || came() > 0);
}

#[test]
fn origins_are_not_checked() {
    for offline in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let watch = Watch::at(address);
        let first = Upstream::from(format!("http://{address}").parse::<tinaja_proxy::OriginUrl>().unwrap());
        let check = Check { interval: Duration::from_millis(20), ..Check::of("/healthz".into()) };
        let upstream = Upstream { check: Some(check), ..first };
        let set = |config: &mut Config| {
            config.listeners[0].mode = Mode::Reverse(Routes::new(vec![], Some(upstream)).unwrap());
            config.listeners[0].offline = offline;
        };
        let _proxy = Proxy::with(set);
        match offline {
            true => watch.saw_nobody(),
            false => eventually("it is checked", || watch.0.load(Ordering::SeqCst) > 0),
        }
    }
}
