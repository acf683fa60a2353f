//! Answers over HTTP/2 that are over for their requests, and wait for a client that is slow to take them.
//!
//! `h2` takes the last bytes of an answer before the client does. A connection that had nothing else to do counted as idle then: at a
//! reload it was closed after two seconds, in the middle of what it had to send. And nobody counted what waited.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use tinaja_clock::ManualClock;
use tinaja_testkit::client::get;
use tinaja_testkit::port::free_port;

use crate::frames::{
    CANCEL, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame,
};
use crate::support::{Origin, Proxy, eventually, reply};

const ANSWERS: u32 = 99;
const BODY: usize = 30_000;
/// More than the two systems hold of a connection that is not read from.
const LARGE: usize = 24 << 20;

/// What all clients hold, as an operator sees it.
fn held(metrics: SocketAddr) -> usize {
    figure(metrics, "tinaja_clients_held_bytes")
}

fn figure(metrics: SocketAddr, name: &str) -> usize {
    let text = get(metrics, "/metrics").unwrap().text();
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap().parse::<f64>().unwrap() as usize
}

struct Slow {
    origin: Origin,
    proxy: Proxy,
    hand: ManualClock,
    metrics: SocketAddr,
    frames: Frames,
}

impl Slow {
    /// A client that has asked for many answers and takes nothing: all that is left to do is to send them.
    fn set() -> Slow {
        let origin = Origin::start(|request, stream| {
            let body = vec![b'x'; if request.path == "/large" { LARGE } else { BODY }];
            reply(stream, request, 200, "Cache-Control: max-age=86400\r\n", &body)
        });
        let route = format!("http://{}", origin.address).parse().unwrap();
        let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (proxy, hand) = Proxy::by_hand(|config| {
            config.listeners[0].mode = tinaja_proxy::Mode::Reverse(tinaja_proxy::Routes::to(route));
            config.metrics = Some(metrics);
            // So the system may hold a MiB of what is sent.
            config.limits.client_memory = 64 << 20;
            config.limits.idle = Duration::from_secs(5);
            config.limits.client_stall = Duration::from_secs(60);
            config.limits.stop = Duration::from_secs(300);
        });
        let frames = Frames::connect(proxy.address, &[(4, 1 << 30)]);
        let mut slow = Slow { origin, proxy, hand, metrics, frames };
        slow.serves("/large");
        slow.serves("/small");
        slow.proxy.has_stored(2);
        slow.frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        // One answer fills what the systems hold, the others queue up behind it, and it is taken back.
        let (large, small) = (slow.fields("/large"), slow.fields("/small"));
        let idle = slow.held();
        slow.frames.raw(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&large)));
        eventually("a piece waits, and all that the system holds", || slow.held() >= idle + (1 << 20) + (64 << 10));
        slow.settles();
        let requests =
            (1..=ANSWERS).flat_map(|number| frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &block(&small)));
        assert!(slow.frames.raw(&requests.collect::<Vec<_>>()));
        eventually("others wait behind it", || slow.held() >= idle + (2 << 20));
        slow.settles();
        let sent = slow.sent();
        slow.frames.send(RST_STREAM, 0, 1, &CANCEL.to_be_bytes());
        eventually("it is taken back", || slow.sent() >= sent + (1 << 20));
        slow.settles();
        assert!(slow.held() >= idle + (2 << 20) - (64 << 10), "{}", slow.held());
        slow
    }

    fn fields(&self, path: &'static str) -> [(&'static str, &'static [u8]); 4] {
        [(":method", b"GET"), (":scheme", b"http"), (":path", path.as_bytes()), (":authority", b"a.example")]
    }

    fn held(&self) -> usize {
        held(self.metrics)
    }

    /// Bytes of hits that have ended.
    fn sent(&self) -> usize {
        figure(self.metrics, "tinaja_sent_bytes_total{source=\"memory\"}")
    }

    /// Nothing moves any more.
    fn settles(&self) {
        let (mut last, mut same) = (0, 0);
        eventually("nothing moves", || {
            let held = self.held();
            same = if held == last { same + 1 } else { 0 };
            last = held;
            same == 20
        });
    }

    /// Another client is served.
    fn serves(&self, path: &str) {
        let mut other = self.proxy.client();
        other.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"));
        assert_eq!(other.read("GET").unwrap().status, 200);
    }

    /// The client reads all that it has asked for.
    fn reads(&mut self) {
        let (mut whole, mut bytes) = (0, 0);
        while whole < ANSWERS {
            let came = self.frames.read().unwrap_or_else(|| panic!("closed after {whole} answers and {bytes} bytes"));
            // Some of the one that was taken back was on its way.
            if came.stream == 1 {
                continue;
            }
            assert!(came.kind != RST_STREAM, "{came:?}");
            if came.kind == DATA {
                bytes += came.payload.len();
                whole += u32::from(came.flags & END_STREAM != 0);
            }
        }
        assert_eq!((bytes, self.origin.count()), (BODY * ANSWERS as usize, 2));
    }
}

/// The time for idle connections passes many times over.
#[test]
fn its_connection_is_not_idle() {
    let mut slow = Slow::set();
    for _ in 0..10 {
        slow.hand.advance(Duration::from_secs(3));
        slow.serves("/small");
    }
    slow.reads();
    eventually("nothing is counted any more", || slow.held() < 128 << 10);
    // And now it is.
    slow.hand.advance(Duration::from_secs(6));
    eventually("it is told to go", || matches!(slow.frames.read(), Some(frame) if frame.kind == GOAWAY));
}

/// The same while the proxy stops, as at a reload: the client has its patience, not two seconds.
#[test]
fn it_is_not_cut_when_the_proxy_stops() {
    let mut slow = Slow::set();
    let address = slow.proxy.address;
    // What the test reads with stays here.
    let mut proxy = std::mem::replace(&mut slow.proxy, Proxy::forward());
    let stops: JoinHandle<()> = std::thread::spawn(move || proxy.stop());
    eventually("nobody listens", || std::net::TcpStream::connect(address).is_err());
    for _ in 0..10 {
        slow.hand.advance(Duration::from_secs(3));
        std::thread::yield_now();
        assert!(!stops.is_finished(), "its last client was left alone");
    }
    slow.reads();
    eventually("it ends", || {
        slow.hand.advance(Duration::from_secs(1));
        stops.is_finished()
    });
    stops.join().unwrap();
}

/// A client that takes nothing for as long as a client may is let go, and what waited for it is free.
#[test]
fn one_that_takes_nothing_is_let_go() {
    let mut slow = Slow::set();
    slow.hand.advance(Duration::from_secs(61));
    eventually("what waited is free", || slow.held() < 128 << 10);
    slow.serves("/small");
    let mut whole = 0;
    while let Some(came) = slow.frames.read() {
        whole += u32::from(came.stream != 1 && came.kind == DATA && came.flags & END_STREAM != 0);
    }
    assert!(whole < ANSWERS, "{whole}");
}

/// A client that goes leaves nothing behind.
#[test]
fn what_waits_goes_with_its_connection() {
    let mut slow = Slow::set();
    slow.frames = Frames::connect(slow.proxy.address, &[]);
    eventually("what waited is free", || slow.held() < 128 << 10);
    slow.serves("/small");
}

/// What a client may send before its origin takes it is counted from its request's head on, and no longer than its request is there. With
/// little room it may send less.
#[test]
fn content_that_is_sent_ahead_is_counted() {
    for (budget, window) in [(64 << 20, 512 << 10), (1 << 20, 64 << 10)] {
        let origin = Origin::fixed("", "x");
        let route = format!("http://{}", origin.address).parse().unwrap();
        let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let proxy = Proxy::with(|config| {
            config.listeners[0].mode = tinaja_proxy::Mode::Reverse(tinaja_proxy::Routes::to(route));
            config.metrics = Some(metrics);
            config.limits.client_memory = budget;
        });
        let mut frames = Frames::connect(proxy.address, &[]);
        frames.find(&[SETTINGS]).unwrap();
        // Idle connections until half of a small budget is spent.
        let mut others = Vec::new();
        while budget == 1 << 20 && held(metrics) < (5 << 17) {
            others.push(std::net::TcpStream::connect(proxy.address).unwrap());
        }
        let idle = held(metrics);
        let fields: [(&str, &[u8]); 5] = [
            (":method", b"POST"),
            (":scheme", b"http"),
            (":path", b"/"),
            (":authority", b"a.example"),
            ("content-length", b"100000"),
        ];
        frames.send(HEADERS, END_HEADERS, 1, &block(&fields));
        eventually("it is counted", || held(metrics) >= idle + window - 1);
        assert!(held(metrics) < idle + window + (128 << 10), "{} and {idle}", held(metrics));
        frames.send(RST_STREAM, 0, 1, &CANCEL.to_be_bytes());
        eventually("it is free again", || held(metrics) <= idle + (8 << 10));
    }
}
