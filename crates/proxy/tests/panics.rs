//! Faults of the program's own: each is counted and ends as little as it can. One test, since the count is the process's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use support::{Altered, Origin, Proxy, eventually, reply};
use tinaja_proxy::{count_panics, panics};
use tinaja_store::device::wrap::Faulty;
use tinaja_store::device::{Medium, Memory};
use tinaja_store::engine::registry::{Ask, Opening};
use tinaja_store::layout::Stamp;
use tinaja_store::{Cache, EngineRef, Secret, Settings, Store, block_on, engines};
use tinaja_testkit::port::free_port;

const DISK_BYTES: u64 = 16 << 20;

/// A store whose engine meets a panic in whatever it asks of its disk, from when the switch is on.
fn breaking(engine: EngineRef, switch: &Arc<AtomicBool>) -> Cache {
    let (memory, on) = (Memory::over(&Medium::zeroed(DISK_BYTES as usize)), switch.clone());
    let disk = Faulty::new(Arc::new(memory), move |_, _| {
        assert!(!on.load(SeqCst), "the test asks for it");
        None
    });
    let secret = Secret::from_bytes([1; 32]);
    let (settings, stamp) = (Settings::new(), Stamp { seed: secret.seed() });
    let ask = Ask { bytes: DISK_BYTES, reserved: 4096, mean_object_bytes: 8192, stamp, settings: &settings };
    let cut = engine.cut(&ask).unwrap();
    Cache::over(cut.open(Opening::of(Arc::new(disk))).unwrap(), secret, 0).unwrap()
}

fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The figure of this name.
fn figure(address: SocketAddr, name: &str) -> u64 {
    let text = ask(address, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

fn telling() -> Origin {
    Origin::start(|request, stream| {
        let fields = if request.path.contains("boom") { "X-Panic: yes\r\n" } else { "" };
        let fields = format!("Cache-Control: max-age=60\r\n{fields}");
        reply(stream, request, 200, &fields, request.path.as_bytes())
    })
}

#[test]
fn each_panic_is_counted_and_a_broken_engine_lets_requests_pass() {
    count_panics();
    let origin = telling();

    // One request's: its connection ends, and that is all.
    let proxy = Proxy::over(Altered::broken(), |_| {});
    assert_eq!(proxy.get(&origin.url("/well")).status, 200);
    assert_eq!(panics(), 0);
    let mut client = TcpStream::connect(proxy.address).unwrap();
    write!(client, "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/boom"), origin.address).unwrap();
    let mut got = String::new();
    let _ = client.read_to_string(&mut got);
    assert!(!got.ends_with("/boom"), "{got}");
    assert!(proxy.get(&origin.url("/well")).field("cache-status").contains("hit"));
    assert_eq!(panics(), 1);
    drop(proxy);

    // An engine's: it stops, and everything is fetched.
    for (number, engine) in [engines::HASHCACHE_LOG, engines::HASHCACHE_SETMEM].into_iter().enumerate() {
        let switch = Arc::new(AtomicBool::new(false));
        let store: Arc<dyn Store> = Arc::new(breaking(engine, &switch));
        let desk = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let proxy = Proxy::over(store.clone(), |config| config.metrics = Some(desk));
        let url = |n: usize| origin.url(&format!("/{engine}/{n}"));
        let hit = |n: usize| {
            let answer = proxy.get(&url(n));
            assert_eq!((answer.status, answer.text()), (200, format!("/{engine}/{n}")));
            answer.field("cache-status").contains("hit")
        };
        assert!(!(0..20).any(hit));
        eventually("all are stored", || store.stats().stored == 20);
        block_on(store.flush()).unwrap();
        assert!((0..20).filter(|&n| hit(n)).count() > 10);
        assert!(ask(desk, "/healthz").ends_with("\r\n\r\nok\n"));
        switch.store(true, SeqCst);
        // Something to be written, which comes behind the answer.
        hit(20);
        eventually("the engine stops", || block_on(store.flush()).is_err());
        // Twice, so that what was fetched is not stored either.
        assert!(!(0..20).chain(0..20).any(hit));
        assert_eq!(figure(desk, "tinaja_store_stopped_engines"), 1);
        // Another thread may have met it at the same time.
        assert!(figure(desk, "tinaja_panics_total") >= 2 + number as u64);
        assert!(ask(desk, "/healthz").contains("degraded: 1 of the engines found themselves broken"));
        assert!(ask(desk, "/readyz").ends_with("ready\n"));
    }
}
