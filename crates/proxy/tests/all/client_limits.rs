//! One client that asks for more than its share gets 429, and the rest of the world is served as if it were not there.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tinaja_proxy::{Config, Limits, Mode, OriginUrl, Route, Routes};
use tinaja_testkit::client::get;
use tinaja_testkit::halting::Halting;
use tinaja_testkit::port::free_port;

use crate::support::{Client, Origin, Proxy, eventually};

/// A reverse proxy that is told by its clients who they are, and what it counts.
fn limited(origin: &str, limit: impl FnOnce(&mut Limits)) -> (Proxy, SocketAddr) {
    let (url, metrics) = (origin.parse().unwrap(), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let proxy = Proxy::with(|config| told(config, url, metrics, limit));
    (proxy, metrics)
}

fn told(config: &mut Config, url: OriginUrl, metrics: SocketAddr, limit: impl FnOnce(&mut Limits)) {
    config.listeners[0].mode = Mode::Reverse(Routes::to(url));
    config.listeners[0].trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    config.metrics = Some(metrics);
    limit(&mut config.limits);
}

fn ask(client: &mut Client, whose: &str, path: &str) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: {whose}\r\n\r\n"));
}

/// The status, and what Retry-After says.
fn asked(proxy: &Proxy, whose: &str, path: &str) -> (u16, Option<String>) {
    let mut client = proxy.client();
    ask(&mut client, whose, path);
    let answer = client.read("GET").unwrap();
    (answer.status, answer.header("retry-after").map(str::to_owned))
}

fn counted(metrics: SocketAddr, reason: &str) -> u64 {
    let line = format!("tinaja_client_refused_requests_total{{reason=\"{reason}\"}} ");
    let text = get(metrics, "/metrics").unwrap().text();
    text.lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse().unwrap()
}

/// A client that never stops asking, and one that asks now and then: hits and misses of the modest one are all answered.
#[test]
fn a_greedy_client_is_refused_and_a_modest_one_is_not() {
    let origin = Origin::of_patterns();
    let (proxy, metrics) = limited(&origin.url(""), |limits| {
        (limits.client_rate, limits.client_burst) = (20, 40);
    });
    assert_eq!(asked(&proxy, "198.51.100.1", "/300/hit").0, 200);
    proxy.has_stored(1);
    let (over, refused, served) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    match asked(&proxy, "203.0.113.7", "/300/hit") {
                        (200, None) => served.fetch_add(1, Relaxed),
                        (429, Some(seconds)) if seconds == "1" => refused.fetch_add(1, Relaxed),
                        other => panic!("{other:?}"),
                    };
                }
            });
        }
        eventually("the greedy one has spent its burst", || refused.load(Relaxed) > 20);
        // Within its burst, whatever the time: all are answered.
        for number in 0..35 {
            let path = if number % 5 == 0 { format!("/300/of-{number}") } else { "/300/hit".to_owned() };
            assert_eq!(asked(&proxy, "198.51.100.2", &path), (200, None), "{number}");
        }
        over.store(true, Relaxed);
    });
    assert!(served.load(Relaxed) >= 40, "it had its burst: {served:?}");
    assert_eq!(counted(metrics, "rate"), refused.load(Relaxed));
    assert_eq!(counted(metrics, "requests") + counted(metrics, "fetches"), 0);
}

/// By a clock that is moved: what is refused is told when it may come again, and may come then.
#[test]
fn a_share_comes_back_with_time() {
    let origin = Origin::of_patterns();
    let (url, metrics) = (origin.url("").parse().unwrap(), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let limit = |limits: &mut Limits| (limits.client_rate, limits.client_burst) = (1, 3);
    let (proxy, hand) = Proxy::by_hand(|config| told(config, url, metrics, limit));
    let statuses = |whose: &str| [(); 4].map(|()| asked(&proxy, whose, "/10/x").0);
    assert_eq!(statuses("203.0.113.7"), [200, 200, 200, 429]);
    // Nothing of what it says of itself makes it another client, and a network of IPv6 is one.
    assert_eq!(asked(&proxy, "198.51.100.1, 203.0.113.7", "/10/x").0, 429);
    assert_eq!(statuses("2001:db8::1"), [200, 200, 200, 429]);
    assert_eq!(asked(&proxy, "2001:db8::2", "/10/x").0, 429);
    hand.advance(Duration::from_secs(2));
    assert_eq!(statuses("203.0.113.7"), [200, 200, 429, 429]);
    assert_eq!(counted(metrics, "rate"), 6);
}

#[test]
fn requests_in_progress_are_counted_over_both_versions() {
    let halting = Halting::start(1_000_000);
    let (proxy, metrics) = limited(&halting.origin.url(""), |limits| limits.client_requests = 3);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let stream = runtime.block_on(tokio::net::TcpStream::connect(proxy.address)).unwrap();
    let (mut send, connection) = runtime.block_on(h2::client::handshake(stream)).unwrap();
    runtime.spawn(connection);
    let mut stream_of = |whose: &str, path: &str| {
        let request = http::Request::get(format!("http://a.example{path}")).header("x-forwarded-for", whose);
        let (answer, _) = send.send_request(request.body(()).unwrap(), true).unwrap();
        runtime.block_on(answer).unwrap()
    };
    // Two streams and a request over HTTP/1 whose answers do not end.
    let (one, two) = (stream_of("203.0.113.7", "/1"), stream_of("203.0.113.7", "/2"));
    assert_eq!((one.status().as_u16(), two.status().as_u16()), (200, 200));
    let mut third = proxy.client();
    ask(&mut third, "203.0.113.7", "/3");
    eventually("the third is being carried out", || halting.origin.count() == 3);
    assert_eq!(asked(&proxy, "203.0.113.7", "/4"), (429, Some("1".into())));
    let refused = stream_of("203.0.113.7", "/5");
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(stream_of("198.51.100.1", "/6").status().as_u16(), 200, "another's");
    assert_eq!(counted(metrics, "requests"), 2);
    // What ends makes room.
    drop((one, two));
    halting.go_on();
    assert_eq!(third.read("GET").unwrap().body.len(), 1_000_000);
    eventually("there is room again", || asked(&proxy, "203.0.113.7", "/3").0 == 200);
}

/// A client that has as many fetches as it may gets no further one, and hits all the same; whoever waits for one of its fetches is not
/// refused with it.
#[test]
fn fetches_in_flight_are_counted_until_they_end() {
    let origin = Origin::of_patterns();
    let halting = Halting::start(1_000_000);
    let (url, other): (OriginUrl, OriginUrl) =
        (halting.origin.url("").parse().unwrap(), origin.url("").parse().unwrap());
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let proxy = Proxy::with(|config| {
        told(config, url.clone(), metrics, |limits| limits.client_fetches = 2);
        let route = Route { host: None, path: "/300".into(), origin: other.into() };
        config.listeners[0].mode = Mode::Reverse(Routes::new(vec![route], Some(url.into())).unwrap());
    });
    assert_eq!(asked(&proxy, "198.51.100.1", "/300/hit").0, 200);
    proxy.has_stored(1);
    let mut first = proxy.client();
    ask(&mut first, "203.0.113.7", "/1");
    let mut second = proxy.client();
    ask(&mut second, "203.0.113.7", "/2");
    eventually("both are fetched", || halting.origin.count() == 2);
    assert_eq!(asked(&proxy, "203.0.113.7", "/300/miss"), (429, Some("1".into())));
    assert_eq!(asked(&proxy, "203.0.113.7", "/300/hit").0, 200, "hits go on");
    // Who joins a fetch has none of its own.
    let mut joined = proxy.client();
    ask(&mut joined, "203.0.113.7", "/1");
    // It has some of the answer, and so has joined.
    assert_eq!(joined.stream().peek(&mut [0]).unwrap(), 1);
    assert_eq!(asked(&proxy, "198.51.100.1", "/300/other").0, 200);
    assert_eq!(counted(metrics, "fetches"), 1);
    halting.go_on();
    for client in [&mut first, &mut second, &mut joined] {
        let answer = client.read("GET").unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 1_000_000));
    }
    eventually("there is room again", || asked(&proxy, "203.0.113.7", "/300/miss").0 == 200);
}

/// What is stored of an object is of another version than the origin's: it is asked twice for one request, which is refused for neither.
#[test]
fn a_request_that_asks_twice_has_one_place() {
    let origin = Origin::start(|request, stream| {
        let fields = "Cache-Control: max-age=600\r\nAccept-Ranges: bytes\r\n";
        let head = match request.field("range").as_deref() {
            Some("bytes=0-9") => {
                format!(
                    "206 Partial Content\r\n{fields}ETag: \"a\"\r\nContent-Range: bytes 0-9/100\r\nContent-Length: 10"
                )
            }
            // It does not heed If-Range.
            Some("bytes=10-99") => {
                format!(
                    "206 Partial Content\r\n{fields}ETag: \"b\"\r\nContent-Range: bytes 10-99/100\r\nContent-Length: 90"
                )
            }
            Some(other) => panic!("{other}"),
            None => format!("200 OK\r\n{fields}ETag: \"b\"\r\nContent-Length: 100"),
        };
        let length = head.rsplit(' ').next().unwrap().parse().unwrap();
        let answer = [format!("HTTP/1.1 {head}\r\n\r\n").into_bytes(), vec![b'x'; length]].concat();
        std::io::Write::write_all(stream, &answer).is_ok()
    });
    let (proxy, metrics) = limited(&origin.url(""), |limits| {
        (limits.client_fetches, limits.fill_range_below) = (1, 0);
    });
    let mut client = proxy.client();
    client.send("GET /x HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 203.0.113.7\r\nRange: bytes=0-9\r\n\r\n");
    assert_eq!(client.read("GET").unwrap().status, 206);
    // The list of parts, still empty; the part; the list with it. The fetch has ended before the last, and its place is free.
    proxy.has_stored(3);
    assert_eq!(asked(&proxy, "203.0.113.7", "/x").0, 200);
    let ranges: Vec<_> = origin.requests().iter().map(|request| request.field("range")).collect();
    assert_eq!(ranges, [Some("bytes=0-9".into()), Some("bytes=10-99".into()), None]);
    assert_eq!(counted(metrics, "fetches"), 0);
}
