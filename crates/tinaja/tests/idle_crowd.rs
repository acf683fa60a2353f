//! Ten thousand connections that ask for nothing: bounded memory, and the service goes on.
//!
//! A program of its own: it raises the limit of open files of its process, and of those that it starts, and uses up what it
//! raised it to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod support;

use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::tinaja::Setup;
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::wait::wait_for;

/// The default of `limits.connections`.
const MOST: usize = 10_000;
/// What its documentation says one takes, and some.
const EACH_BYTES: u64 = 18_000;

#[test]
fn ten_thousand_idle_connections() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let files = limit.maximum.map_or(usize::MAX, |most| most as usize);
    // Both ends are told; 200 files are for everything else.
    let idle = (MOST - 50).min(files.saturating_sub(200));
    if idle < MOST - 50 {
        eprintln!("only {idle} connections: the system allows {files} open files");
    }
    let (origin, setup) = (Origin::of_patterns(), Setup::forward());
    // Started with a soft limit far below: it raises that by itself.
    let proxy = setup.start_with_soft_limit(256);
    assert_eq!(proxy.get(&origin.url("/1000/a")).unwrap().status, 200);
    let before = proxy.process.peak_memory_bytes();
    let mut crowd: Vec<_> = (0..idle).map(|_| TcpStream::connect(proxy.address()).unwrap()).collect();
    for n in 0..20 {
        let path = format!("/5000/{}", n % 10);
        let response = proxy.get(&origin.url(&path)).unwrap();
        assert!(response.status == 200 && response.body == body(&path, 5000), "{:?}", response.head);
        assert_eq!(response.is_hit(), n >= 10);
    }
    let grown = proxy.process.peak_memory_bytes() - before;
    println!("{idle} idle connections: the proxy grew by {} KiB, {} bytes each", grown >> 10, grown / idle as u64);
    assert!(grown < idle as u64 * EACH_BYTES, "{grown} bytes");

    // Beyond the cap: an answer that says so, at once, and room again when some have left.
    //
    // A connection more was not opened each time, and on a busy machine the refusal never came, 4 times in 40: one of the
    // requests above still had its place when the hundred came, so 51 of them were turned away, and its place was free from
    // then on for whoever asked.
    if idle == MOST - 50 {
        crowd.extend((0..100).map(|_| TcpStream::connect(proxy.address()).unwrap()));
        let refused = wait_for("a refusal", Duration::from_secs(20), || {
            crowd.push(TcpStream::connect(proxy.address()).unwrap());
            let response = proxy.get(&origin.url("/5000/0"));
            response.ok().map(|response| response.status).filter(|status| *status == 503)
        });
        assert_eq!(refused, 503);
    }
    drop(crowd);
    wait_for("room", Duration::from_secs(20), || {
        let response = proxy.get(&origin.url("/5000/0"));
        response.ok().filter(|response| response.status == 200 && response.is_hit())
    });
}
