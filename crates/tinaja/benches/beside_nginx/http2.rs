//! Memory hits over HTTP/2 by TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tinaja_testkit::load::Streams;
use tinaja_testkit::nginx::Certificates;

use crate::report::Line;
use crate::servers::{Kind, NAME, Server, certificates};
use crate::{BODY_BYTES, FEW, LOADING, ROUNDS, SERVED, load, origin, path};

/// Bytes of a small body: less than a TLS record's head and a handful of fields would hide.
const SMALL_BYTES: usize = 300;
/// Requests of a round.
const REQUESTS: usize = 60_000;
/// Connections, and requests at once on each: as a few browsers, or one proxy, in the middle of a page.
const CONNECTIONS: usize = 4;
const STREAMS: usize = 32;

const KINDS: [Kind; 5] =
    [Kind::TinajaByTls, Kind::NginxByTls, Kind::NginxByTlsWithOpenFiles, Kind::H2o, Kind::BareHttp2];

/// Measures both sizes. `program` is the Tinaja that is measured, `before` another one to measure too: an older one.
pub fn measure(program: &Path, before: Option<&Path>) -> Vec<Line> {
    let dir = TempDir::new().unwrap();
    let tls = certificates(dir.path());
    [("HTTP/2 hit of 8 KiB", BODY_BYTES), ("HTTP/2 hit of 300 bytes", SMALL_BYTES)]
        .into_iter()
        .map(|(what, body_bytes)| {
            let line = of_size((what, body_bytes), &tls, program, before);
            eprintln!("{}", line.text());
            line
        })
        .collect()
}

fn of_size(
    (what, body_bytes): (&'static str, usize),
    tls: &Certificates,
    program: &Path,
    before: Option<&Path>,
) -> Line {
    let origin = origin::start(body_bytes);
    let mut kinds = KINDS.to_vec();
    let mut servers: Vec<_> = KINDS.iter().map(|kind| start(*kind, program, origin, body_bytes, tls)).collect();
    if let Some(program) = before {
        kinds.push(Kind::OlderByTls);
        servers.push(Server::tinaja_by_tls(program, origin, tls));
    }
    for server in &servers {
        load::pin(server.pid(), SERVED);
        asked(server, tls, body_bytes, (0..FEW).map(path).collect());
        server.settle();
    }
    let mut line = Line::new(what, &kinds);
    let paths: Vec<_> = (0..REQUESTS).map(|at| path(at % FEW)).collect();
    for _ in 0..ROUNDS {
        for (at, server) in servers.iter().enumerate() {
            let (cpu, began) = (server.cpu(), Instant::now());
            let hits = asked(server, tls, body_bytes, paths.clone());
            assert_eq!(hits, REQUESTS, "{what} of {:?}", kinds[at]);
            line.add(at, (server.cpu() - cpu) / REQUESTS as u32, REQUESTS as f64 / began.elapsed().as_secs_f64());
        }
    }
    line
}

fn start(kind: Kind, program: &Path, origin: SocketAddr, body_bytes: usize, tls: &Certificates) -> Server {
    if kind == Kind::TinajaByTls {
        return Server::tinaja_by_tls(program, origin, tls);
    }
    let files: Vec<_> = (0..FEW).map(|at| (path(at), vec![b'b'; body_bytes])).collect();
    Server::start_by_tls(kind, origin, tls, &files)
}

/// Asks for these, and compares every body. How many were hits.
fn asked(server: &Server, tls: &Certificates, body_bytes: usize, paths: Vec<String>) -> usize {
    let (server, name, authority) = (server.address(), NAME.to_owned(), tls.authority.clone());
    let client = Streams { server, name, authority, connections: CONNECTIONS, streams: STREAMS };
    client.ask(&paths, &vec![b'b'; body_bytes])
}

/// One server under this load, for a profiler.
pub fn keep_busy(server: &str, time: Duration) {
    let kind = match server {
        "nginx" => Kind::NginxByTls,
        "h2o" => Kind::H2o,
        "bare" => Kind::BareHttp2,
        "tinaja" => Kind::TinajaByTls,
        _ => panic!("--server {server}: over HTTP/2 there are tinaja, nginx, h2o and bare"),
    };
    let dir = TempDir::new().unwrap();
    let tls = certificates(dir.path());
    let origin = origin::start(BODY_BYTES);
    let server = start(kind, Path::new(env!("CARGO_BIN_EXE_tinaja")), origin, BODY_BYTES, &tls);
    load::pin(server.pid(), SERVED);
    load::pin(std::process::id(), LOADING);
    asked(&server, &tls, BODY_BYTES, (0..FEW).map(path).collect());
    println!("process {}, HTTP/2 hit", server.pid());
    let (began, before, mut requested) = (Instant::now(), server.cpu(), 0);
    while began.elapsed() < time {
        requested += asked(&server, &tls, BODY_BYTES, (0..REQUESTS).map(|at| path(at % FEW)).collect());
    }
    println!("{requested} requests, {:.1?} of processor time each", (server.cpu() - before) / requested as u32);
}
