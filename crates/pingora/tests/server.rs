//! The storage inside a real Pingora proxy, with a real origin and real connections on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use common::altered::Altered;
use common::narrow::Narrow;
use common::origin::{Answer, Origin, ask};
use common::{body, over};
use pingora::cache::cache_control::CacheControl;
use pingora::cache::lock::CacheKeyLockImpl;
use pingora::cache::{CacheKey, CacheMetaDefaults, RespCacheable, filters};
use pingora::http::ResponseHeader;
use pingora::prelude::*;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, ShutdownSignal, ShutdownSignalWatch};
use tinaja_pingora::TinajaStorage;
use tinaja_store::{Lookup, Reference, Store};
use tinaja_testkit::port::free_port;
use tokio::sync::{Notify, watch};

const DEFAULTS: CacheMetaDefaults = CacheMetaDefaults::new(|_| None, 0, 0);

struct Proxy {
    origin: SocketAddr,
    storage: &'static TinajaStorage,
    lock: &'static CacheKeyLockImpl,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ();
    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, _: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.origin, false, String::new())))
    }

    fn request_cache_filter(&self, session: &mut Session, _: &mut ()) -> Result<()> {
        session.cache.enable(self.storage, None, None, Some(self.lock), None);
        Ok(())
    }

    fn cache_key_callback(&self, session: &Session, _: &mut ()) -> Result<CacheKey> {
        Ok(CacheKey::new(format!("{} {}", self.origin, session.req_header().uri), ""))
    }

    fn response_cache_filter(&self, _: &Session, response: &ResponseHeader, _: &mut ()) -> Result<RespCacheable> {
        let control = CacheControl::from_resp_headers(response);
        Ok(filters::resp_cacheable(control.as_ref(), response.clone(), false, &DEFAULTS))
    }

    fn is_purge(&self, session: &Session, _: &()) -> bool {
        session.req_header().method.as_str() == "PURGE"
    }
}

/// A running proxy; dropped, it stops.
struct Running {
    proxy: SocketAddr,
    origin: Origin,
    stop: std::sync::Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

struct Stop(std::sync::Arc<Notify>);

#[async_trait]
impl ShutdownSignalWatch for Stop {
    async fn recv(&self) -> ShutdownSignal {
        self.0.notified().await;
        ShutdownSignal::FastShutdown
    }
}

impl Running {
    fn over(store: impl Store) -> Running {
        let (address, origin) = Origin::start();
        let proxy = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (storage, stop) = (over(store), std::sync::Arc::new(Notify::new()));
        let lock = storage.lock(Duration::from_secs(10));
        let signal = Stop(stop.clone());
        let thread = std::thread::spawn(move || {
            let mut server = Server::new_with_opt_and_conf(None, ServerConf { threads: 2, ..Default::default() });
            server.bootstrap();
            let mut service = http_proxy_service(&server.configuration, Proxy { origin: address, storage, lock });
            service.add_tcp(&proxy.to_string());
            server.add_service(service);
            server.run(RunArgs { shutdown_signal: Box::new(signal) });
        });
        while TcpStream::connect(proxy).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Running { proxy, origin, stop, thread: Some(thread) }
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        ask(self.proxy, method, path, headers, Duration::ZERO)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.notify_one();
        self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn a_miss_then_hits_then_a_purge() {
    let running = Running::over(Reference::new());
    for path in ["/plain-0", "/plain-10", "/plain-3000000"] {
        let sent = body(1, path[7..].parse().unwrap());
        for _ in 0..3 {
            let answer = running.get(path);
            assert!(answer.status == 200 && answer.whole && answer.body == sent, "{path}");
        }
        assert_eq!(running.origin.count(path), 1);
        let head = running.ask("HEAD", path, "");
        assert!(head.status == 200 && head.body.is_empty());

        assert_eq!(running.ask("PURGE", path, "").status, 200);
        assert_eq!(running.ask("PURGE", path, "").status, 404);
        assert!(running.get(path).body == sent);
        assert_eq!(running.origin.count(path), 2);
    }
}

#[test]
fn fifty_clients_at_once_cause_one_request() {
    let running = Running::over(Reference::new());
    let sent = body(1, 500_000);
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let answer = running.get("/slow-500000");
                assert!(answer.whole && answer.body == sent);
            });
        }
    });
    assert_eq!(running.origin.count("/slow-500000"), 1);
}

/// Once in many hundred runs fifty clients caused two requests. A client that had looked and not found was overtaken
/// before it took Pingora's lock: the fill began, let go of the lock since others can read along, and the lock was the
/// late client's, who asked the origin again.
#[test]
fn a_client_overtaken_between_its_lookup_and_its_lock_reads_along_too() {
    let (looked, followed) = (watch::Sender::new(0), watch::Sender::new(false));
    let (looks, follows) = (looked.clone(), followed.clone());
    let running = Running::over(Altered {
        on_lookup: Box::new(move |inner, key, deadline| {
            let (mut nth, mut looks, mut follows) = (0, looks.subscribe(), follows.subscribe());
            looked.send_modify(|count| (nth, *count) = (*count, *count + 1));
            match nth {
                // The first looks until the second looks too: both find nothing. The second hears of it only when
                // the first reads what it fills, and that comes after it has let go of the lock.
                0 => Lookup::Wait(Box::pin(async move { looks.wait_for(|count| *count > 1).await.ok().and(None) })),
                1 => Lookup::Wait(Box::pin(async move { follows.wait_for(|begun| *begun).await.ok().and(None) })),
                _ => inner.lookup(key, deadline),
            }
        }),
        on_follow: Box::new(move || followed.send_modify(|begun| *begun = true)),
        ..Altered::default()
    });
    let sent = body(1, 500_000);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let answer = running.get("/slow-500000");
                assert!(answer.whole && answer.body == sent);
            });
        }
    });
    assert_eq!(running.origin.count("/slow-500000"), 1);
}

#[test]
fn a_client_that_leaves_ends_neither_the_fill_nor_its_followers() {
    let running = Running::over(Reference::new());
    let (path, sent) = ("/slow-800000", body(1, 800_000));
    let mut leaving = TcpStream::connect(running.proxy).unwrap();
    write!(leaving, "GET {path} HTTP/1.1\r\nhost: t\r\n\r\n").unwrap();
    leaving.read_exact(&mut [0; 20]).unwrap();
    drop(leaving);
    for _ in 0..2 {
        let answer = running.get(path);
        assert!(answer.whole && answer.body == sent);
    }
    assert_eq!(running.origin.count(path), 1);
}

#[test]
fn what_breaks_off_is_passed_on_as_broken_and_never_stored() {
    let running = Running::over(Reference::new());
    for path in ["/short", "/short-late", "/chunked", "/chunked-late"] {
        for asked in 1..=3 {
            let answer = running.get(path);
            // Broken off before the head was sent on it is a 502, afterwards a body that does not end.
            assert!(answer.status == 502 || (answer.status == 200 && !answer.whole), "{path}: {}", answer.head);
            assert_eq!(running.origin.count(path), asked, "{path}");
        }
    }
}

#[test]
fn ranges_come_out_of_hits() {
    let running = Running::over(Reference::new());
    let (path, sent) = ("/plain-1000000", body(1, 1_000_000));
    let of_miss = running.ask("GET", path, "range: bytes=10-19\r\n");
    assert!(of_miss.status == 206 && of_miss.body == sent[10..20], "{}", of_miss.head);
    for (range, expected) in [("0-0", 0..1), ("500000-", 500_000..1_000_000), ("-7", 999_993..1_000_000)] {
        let answer = running.ask("GET", path, &format!("range: bytes={range}\r\n"));
        assert!(answer.status == 206 && answer.body == sent[expected], "{range}: {}", answer.head);
    }
    let parts = running.ask("GET", path, "range: bytes=5-9,300000-300009\r\n");
    assert!(parts.status == 206 && parts.whole);
    for expected in [&sent[5..10], &sent[300_000..300_010]] {
        assert!(parts.body.windows(expected.len()).any(|window| window == expected));
    }
    assert_eq!(running.ask("GET", path, "range: bytes=1000000-\r\n").status, 416);
    assert_eq!(running.origin.count(path), 1);
}

#[test]
fn what_is_stale_is_asked_about_and_its_metadata_renewed() {
    let running = Running::over(Reference::new());
    assert_eq!(running.get("/stale").body, b"steady");
    assert!(!running.origin.last("/stale").contains("if-none-match"));
    for _ in 0..3 {
        let answer = running.get("/stale");
        assert!(answer.status == 200 && answer.body == b"steady", "{}", answer.head);
    }
    // One question; the answer made it fresh for a minute.
    assert_eq!(running.origin.count("/stale"), 2);
    assert!(running.origin.last("/stale").contains("if-none-match: \"s\""));
}

#[test]
fn a_store_that_keeps_nothing_still_passes_everything_on() {
    let running = Running::over(Narrow::default());
    let sent = body(1, 40_000_000);
    std::thread::scope(|scope| {
        for pause in [Duration::ZERO, Duration::from_millis(3)] {
            let (running, sent) = (&running, &sent);
            scope.spawn(move || {
                let path = format!("/plain-40000000-{pause:?}");
                let answer = ask(running.proxy, "GET", &path, "", pause);
                assert!(answer.whole && answer.body == *sent, "{} bytes after {pause:?}", answer.body.len());
            });
        }
    });
    for _ in 0..2 {
        assert_eq!(running.get("/plain-10").body, body(1, 10));
    }
    assert_eq!(running.origin.count("/plain-10"), 2);
}
