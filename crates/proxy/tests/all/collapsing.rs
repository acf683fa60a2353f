//! Many clients, one object, one request to the origin.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::support::{Altered, Client, Origin, Proxy, Response, eventually, reply};
use tinaja_testkit::client::get;
use tinaja_testkit::port::free_port;
use tokio::sync::watch;

/// An origin that answers nothing until all clients but one wait for another's fetch, as the proxy's metrics say.
#[derive(Clone)]
struct Hold {
    metrics: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Hold {
    fn new() -> Hold {
        Hold { metrics: SocketAddr::from(([127, 0, 0, 1], free_port())), over: Arc::default() }
    }

    /// Holds an answer back.
    fn wait(&self) {
        eventually("the answers may come", || self.over.load(SeqCst));
    }

    /// Lets the answers come once so many wait.
    fn end_once(&self, waiting: usize) {
        let gauge = format!("\ntinaja_waiting_requests {waiting}\n");
        eventually("the others wait", || get(self.metrics, "/metrics").unwrap().text().contains(&gauge));
        self.over.store(true, SeqCst);
    }
}

/// So many clients ask at once; what the origin holds back comes when all of them have asked.
fn ask_at_once(proxy: &Proxy, url: &str, clients: usize, hold: &Hold) -> Vec<Response> {
    let barrier = Arc::new(Barrier::new(clients));
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let (barrier, url, address) = (barrier.clone(), url.to_owned(), proxy.address);
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                barrier.wait();
                client.request("GET", &url, "")
            })
        })
        .collect();
    hold.end_once(clients - 1);
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn fifty_clients_one_request() {
    for chunked in [false, true] {
        let hold = Hold::new();
        let held = hold.clone();
        let origin = Origin::start(move |request, stream| {
            held.wait();
            let fields = "Cache-Control: max-age=60\r\n";
            if !chunked {
                return reply(stream, request, 200, fields, &[b'x'; 100_000]);
            }
            let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{fields}\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            for _ in 0..10 {
                stream.write_all(b"2710\r\n").unwrap();
                stream.write_all(&[b'x'; 10_000]).unwrap();
                stream.write_all(b"\r\n").unwrap();
                std::thread::sleep(Duration::from_millis(30));
            }
            stream.write_all(b"0\r\n\r\n").is_ok()
        });
        let proxy = Proxy::with(|config| config.metrics = Some(hold.metrics));
        let responses = ask_at_once(&proxy, &origin.url("/new"), 50, &hold);
        for response in &responses {
            assert!(response.status == 200 && response.whole && response.body == [b'x'; 100_000], "{}", response.head);
        }
        assert_eq!(origin.count(), 1, "chunked: {chunked}");
        let collapsed = responses.iter().filter(|response| response.field("cache-status").contains("collapsed"));
        assert_eq!(collapsed.count(), 49, "the others waited");
    }
}

/// Now and then fifty clients caused two requests: one of them had looked and found nothing, and before it could wait for
/// the fetch that was under way, that had come back.
#[test]
fn a_client_overtaken_between_looking_and_asking_gets_what_came() {
    let (looked, answered) = (watch::Sender::new(0), watch::Sender::new(false));
    let (looks, answers) = (looked.clone(), answered.clone());
    let store = Altered::looking(move |number| {
        let (mut looks, mut answers) = (looks.subscribe(), answers.subscribe());
        looked.send_modify(|count| *count += 1);
        match number {
            // The first finds nothing once the second looks too; the second, once the first has its answer.
            0 => Some(Box::pin(async move { looks.wait_for(|count| *count > 1).await.ok().and(None) })),
            1 => Some(Box::pin(async move { answers.wait_for(|came| *came).await.ok().and(None) })),
            _ => None,
        }
    });
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "x");
    let proxy = Proxy::over(Arc::new(store), |_| {});
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                assert_eq!(proxy.get(&origin.url("/new")).text(), "x");
                answered.send_replace(true);
            });
        }
    });
    assert_eq!(origin.count(), 1);
}

#[test]
fn followers_read_along() {
    // The origin keeps back the second half of the body until whoever comes in the middle has its first bytes.
    let (half, rest) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (sent, goes_on) = (half.clone(), rest.clone());
    let origin = Origin::start(move |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\nCache-Control: max-age=60\r\n\r\n").unwrap();
        stream.write_all(&[b'x'; 200_000]).unwrap();
        sent.wait();
        goes_on.wait();
        stream.write_all(&[b'x'; 200_000]).is_ok()
    });
    let proxy = Proxy::forward();
    let url = origin.url("/slow");
    let (address, first_url) = (proxy.address, url.clone());
    let first = std::thread::spawn(move || Client::connect(address).request("GET", &first_url, ""));
    half.wait();
    let mut client = proxy.client();
    let host = url.split('/').nth(2).unwrap();
    client.send(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.read_bytes(10_000);
    rest.wait();
    assert!(first.join().unwrap().whole);
    assert_eq!(origin.count(), 1);
}

#[test]
fn private_answers_reach_their_client_only() {
    let (hold, together) = (Hold::new(), Arc::new(Barrier::new(19)));
    let (held, first) = (hold.clone(), AtomicBool::new(true));
    let origin = Origin::start(move |request, stream| {
        held.wait();
        // Those who waited in vain go all at once, not in a row: none has its answer before the last has asked.
        if !first.swap(false, SeqCst) {
            together.wait();
        }
        let cookie = request.field("x-client").unwrap_or_default();
        reply(stream, request, 200, "Cache-Control: private\r\n", cookie.as_bytes())
    });
    let proxy = Proxy::with(|config| config.metrics = Some(hold.metrics));
    let url = origin.url("/me");
    let threads: Vec<_> = (0..20)
        .map(|number| {
            let (address, url) = (proxy.address, url.clone());
            std::thread::spawn(move || {
                let response = Client::connect(address).request("GET", &url, &format!("X-Client: {number}\r\n"));
                assert_eq!(response.text(), number.to_string());
            })
        })
        .collect();
    hold.end_once(19);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(origin.count(), 20);
}

#[test]
fn a_client_that_leaves_takes_nobody_along() {
    let origin = Origin::start(|request, stream| {
        std::thread::sleep(Duration::from_millis(400));
        reply(stream, request, 200, "Cache-Control: max-age=60\r\n", &[b'x'; 50_000])
    });
    let proxy = Proxy::forward();
    let url = origin.url("/left");
    let mut leader = proxy.client();
    leader.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
    std::thread::sleep(Duration::from_millis(100));
    let address = proxy.address;
    let follower = std::thread::spawn(move || Client::connect(address).request("GET", &url, ""));
    std::thread::sleep(Duration::from_millis(100));
    drop(leader);
    let response = follower.join().unwrap();
    assert!(response.whole && response.body.len() == 50_000, "{}", response.head);
    assert!(origin.count() <= 2, "{}", origin.count());
}

/// The origin keeps back every body until all clients have asked: if one of them waited for more than the head that says
/// that the answer is nobody else's, nobody would ever get an answer.
#[test]
fn nobody_waits_for_a_private_body() {
    const CLIENTS: usize = 10;
    for fields in ["Cache-Control: private\r\n", "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n"] {
        let all = Arc::new(Barrier::new(CLIENTS));
        let origin = Origin::start(move |request, stream| {
            std::thread::sleep(Duration::from_millis(200));
            let body = request.field("x-client").unwrap();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            all.wait();
            stream.write_all(body.as_bytes()).is_ok()
        });
        let proxy = Proxy::forward();
        let url = origin.url("/me");
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (url, proxy) = (&url, &proxy);
                scope.spawn(move || {
                    let response = proxy.get_with(url, &format!("X-Client: {number}\r\n"));
                    assert!(response.whole && response.text() == number.to_string(), "{response:?}");
                    assert!(!response.field("cache-status").contains("stored"), "{}", response.head);
                });
            }
        });
        assert_eq!(origin.count(), CLIENTS);
        assert_eq!(proxy.store.stats().stored, 0);
    }
}

/// An origin that serves `old`, then dies half-way through `new`, then refuses for good.
#[test]
fn an_origin_that_dies_half_way_leaves_the_older_version() {
    for chunked in [false, true] {
        let hold = Hold::new();
        let held = hold.clone();
        let origin = Origin::start(move |request, stream| {
            if request.path == "/old-only" || request.field("x-version").as_deref() == Some("old") {
                let fields = "Cache-Control: max-age=1, stale-if-error=600\r\n";
                return reply(stream, request, 200, fields, b"old");
            }
            if request.field("x-version").as_deref() == Some("down") {
                return false;
            }
            held.wait();
            let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 1000000" };
            let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\nCache-Control: max-age=60\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            if chunked {
                stream.write_all(b"F4240\r\n").unwrap();
            }
            for _ in 0..10 {
                stream.write_all(&[b'n'; 50_000]).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            false
        });
        let (proxy, hand) = Proxy::by_hand(|config| config.metrics = Some(hold.metrics));
        let url = origin.url("/x");
        assert_eq!(proxy.get_with(&url, "X-Version: old\r\n").text(), "old");
        proxy.has_stored(1);
        hand.advance(Duration::from_secs(2));
        let before = origin.count();
        let responses = ask_at_once(&proxy, &url, 10, &hold);
        for response in &responses {
            assert!(response.status == 200 && !response.whole, "chunked: {chunked}: {}", response.head);
            assert!(response.body.len() <= 500_000 && response.body.iter().all(|byte| *byte == b'n'));
        }
        assert_eq!(origin.count(), before + 1, "chunked: {chunked}: all saw the one answer");
        assert_eq!(proxy.store.stats().stored, 1, "the older version only");
        let again = proxy.get_with(&url, "X-Version: down\r\n");
        assert_eq!((again.status, again.text().as_str()), (200, "old"), "{}", again.head);
    }
}
