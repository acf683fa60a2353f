//! Processor time of a request, beside real nginx, Varnish and Traffic Server on the same core in the same run: memory hits, disk hits, misses.
//!
//! `cargo bench -p tinaja` runs all of it and writes `docs/bench/beside-nginx.md`. It needs nginx, Traffic Server, Varnish, and the C compiler
//! that Varnish asks for. For a profiler:
//! `cargo bench -p tinaja -- --only memory --server tinaja --seconds 30` keeps one server busy and prints its process.
//!
//! `cargo bench -p tinaja -- --http2` measures memory hits over HTTP/2 by TLS beside nginx, H2O and a bare server of the same libraries, and writes `docs/bench/http2.md`;
//! `--before PROGRAM` adds another program of ours, in the same rounds, and `--program PROGRAM` measures that one in place of the one that cargo has built: what
//! `scripts/release` builds, as packages have it.
//!
//! `cargo bench -p tinaja -- --intercepted` measures hits, handshakes and certificates of an intercepting proxy beside nginx, which ends TLS, and
//! beside Squid, and writes `docs/bench/intercepted.md`. Squid with TLS is Debian's `squid-openssl`, which apt fetches and which is unpacked
//! for the run alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod bare_http2;
mod http2;
mod intercepted;
mod load;
mod origin;
mod report;
mod servers;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use load::Load;
use report::Line;
use servers::{Kind, Server};

/// As in Tinaja: the bare server of HTTP/2 is this program. Clients and origins have it too, whose time is not counted.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The core that the servers share, one at a time busy; everything else runs on the other.
const SERVED: usize = 0;
const LOADING: usize = 1;

/// Bytes of each body.
pub const BODY_BYTES: usize = 8 * 1024;
const ROUNDS: usize = 3;
const CONNECTIONS: usize = 16;
/// Objects that fit into any memory.
const FEW: usize = 100;
/// Objects for the disk, each asked for once a round.
const MANY: usize = 12_000;

fn main() {
    let flags: Vec<String> = std::env::args().skip(1).filter(|flag| flag != "--bench").collect();
    let value = |name: &str| flags.iter().position(|flag| flag == name).and_then(|at| flags.get(at + 1));
    if let Some(address) = value("--bare-http2") {
        // The server of [`servers::Kind::BareHttp2`]: this program again.
        let value = |name| value(name).unwrap();
        let bytes = value("--bytes").parse().unwrap();
        bare_http2::serve(address.parse().unwrap(), value("--certificate").as_ref(), value("--key").as_ref(), bytes)
    }
    load::pin(std::process::id(), LOADING);
    if flags.iter().any(|flag| flag == "--http2") {
        let program = value("--program").map_or(env!("CARGO_BIN_EXE_tinaja"), String::as_str);
        let lines = http2::measure(Path::new(program), value("--before").map(Path::new));
        return report::write_http2(&lines, value("--program").is_some());
    }
    if flags.iter().any(|flag| flag == "--intercepted") {
        return report::write_intercepted(&intercepted::measure());
    }
    let origin = origin::start(BODY_BYTES);
    if let Some(only) = value("--only") {
        let server = value("--server").map_or("tinaja", String::as_str);
        let seconds = value("--seconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(10);
        if only == "http2" {
            return http2::keep_busy(server, Duration::from_secs(seconds));
        }
        return keep_busy(origin, only, server, Duration::from_secs(seconds));
    }
    let mut lines = Vec::new();
    let lists: [(_, &[Kind]); 3] = [
        (
            "memory hit",
            &[Kind::TinajaInMemory, Kind::Nginx, Kind::NginxWithOpenFiles, Kind::Varnish, Kind::TrafficServer],
        ),
        ("disk hit", &[Kind::TinajaOnDisk, Kind::Nginx, Kind::NginxWithOpenFiles, Kind::TrafficServerOnDisk]),
        ("miss", &[Kind::TinajaInMemory, Kind::Nginx, Kind::NginxInTmpfs, Kind::Varnish, Kind::TrafficServer]),
    ];
    for (what, servers) in lists {
        let line = measure(origin, what, servers);
        eprintln!("{}", line.text());
        lines.push(line);
    }
    report::write(&lines);
}

/// Measures one kind of request on these servers, in turns.
fn measure(origin: std::net::SocketAddr, what: &'static str, kinds: &[Kind]) -> Line {
    let servers: Vec<_> = kinds.iter().map(|kind| Server::start(*kind, origin)).collect();
    for server in &servers {
        load::pin(server.pid(), SERVED);
        prepare(what, server);
    }
    let mut line = Line::new(what, kinds);
    for round in 0..ROUNDS {
        for (at, server) in servers.iter().enumerate() {
            let load = requests(what, round);
            if what == "disk hit" {
                server.forget_pages();
            }
            let before = server.cpu();
            let began = Instant::now();
            let hits = load.run(server.address());
            line.add(
                at,
                (server.cpu() - before) / load.len() as u32,
                load.len() as f64 / began.elapsed().as_secs_f64(),
            );
            let expected = if what == "miss" { 0 } else { load.len() };
            assert_eq!(hits, expected, "{what} of {:?}", kinds[at]);
        }
    }
    line
}

/// Has everything in the cache that the phase wants there.
fn prepare(what: &str, server: &Server) {
    let warm = match what {
        "memory hit" => Load::new((0..FEW).map(path), CONNECTIONS),
        "disk hit" => Load::new((0..MANY).map(path), CONNECTIONS),
        _ => Load::new((0..FEW).map(|at| format!("/warm/{at}")), CONNECTIONS),
    };
    warm.run(server.address());
    server.settle();
}

fn requests(what: &str, round: usize) -> Load {
    match what {
        "memory hit" => Load::new((0..40_000).map(|at| path(at % FEW)), CONNECTIONS),
        // A stride that is no divisor of the count visits each once, far from its neighbours.
        "disk hit" => Load::new((0..MANY).map(|at| path(at * 7919 % MANY)), CONNECTIONS),
        _ => Load::new((0..10_000).map(|at| format!("/new/{round}/{at}")), CONNECTIONS),
    }
}

fn path(number: usize) -> String {
    format!("/object/{number}")
}

/// One server under one load, for a profiler.
fn keep_busy(origin: std::net::SocketAddr, only: &str, server: &str, time: Duration) {
    let what = match only {
        "memory" => "memory hit",
        "disk" => "disk hit",
        _ => "miss",
    };
    let kind = match (server, only) {
        ("nginx", _) => Kind::Nginx,
        ("traffic-server", "disk") => Kind::TrafficServerOnDisk,
        ("traffic-server", _) => Kind::TrafficServer,
        ("varnish", _) => Kind::Varnish,
        ("tinaja", "disk") => Kind::TinajaOnDisk,
        ("tinaja", _) => Kind::TinajaInMemory,
        _ => panic!("--server {server}: there are tinaja, nginx, varnish and traffic-server"),
    };
    let server = Server::start(kind, origin);
    load::pin(server.pid(), SERVED);
    prepare(what, &server);
    println!("process {}, {what}", server.pid());
    let (began, mut round, mut requested, before) = (Instant::now(), 0, 0, server.cpu());
    while began.elapsed() < time {
        let load = requests(what, round);
        load.run(server.address());
        requested += load.len();
        round += 1;
    }
    println!("{requested} requests, {:.1?} of processor time each", (server.cpu() - before) / requested as u32);
}
