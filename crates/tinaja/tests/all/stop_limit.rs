//! The time to stop is over while purges and a fetch go on: what is written stays right.
//!
//! In one of sixty runs two pages that nobody had purged were gone after the restart. The index knows an object by 12 bits of its hash
//! and the two sets that it may be in: two pages had the same, so each that was stored pushed out the other, and until the restart
//! both were served from memory. That is how the index is meant, and this test is about what was found on disk before.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::home::Home;
use tinaja_testkit::body::body;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, Request, reply};
use tinaja_testkit::wait::wait_for;

const PAGES: usize = 300;
const LENGTH: usize = 3_000_000;
const FRESH: &str = "Cache-Control: max-age=6000\r\nETag: \"1\"\r\n";

/// Pages in two versions, each with a tag of its own, and one large object that stops half-way where it is asked for whole.
fn origin(deployed: &Arc<Vec<AtomicBool>>, ends: &Arc<AtomicBool>) -> Origin {
    let (deployed, ends) = (deployed.clone(), ends.clone());
    Origin::start(move |request, stream| {
        if request.path == "/large" {
            return large(request, stream, &ends);
        }
        let number: usize = request.path.trim_start_matches('/').parse().unwrap();
        let version = if deployed[number].load(SeqCst) { b"2" } else { b"1" };
        reply(stream, request, 200, &format!("{FRESH}xkey: t{number}\r\n"), version)
    })
}

fn large(request: &Request, stream: &mut TcpStream, ends: &AtomicBool) -> bool {
    let all = body("large", LENGTH);
    let from =
        request.field("range").and_then(|range| range.trim_start_matches("bytes=").split('-').next()?.parse().ok());
    if let Some(from) = from {
        let fields = format!("{FRESH}Content-Range: bytes {from}-{}/{LENGTH}\r\n", LENGTH - 1);
        return reply(stream, request, 206, &fields, &all[from..]);
    }
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {LENGTH}\r\nConnection: close\r\n\r\n");
    let half = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&all[..LENGTH / 2]));
    while half.is_ok() && !ends.load(SeqCst) {
        thread::sleep(Duration::from_millis(5));
    }
    let _ = stream.write_all(&all[LENGTH / 2..]);
    false
}

/// Deploys and purges one page after the other until nobody answers any more. The pages whose purges were answered.
fn purge_all(at: SocketAddr, deployed: &[AtomicBool], done: &AtomicUsize) -> BTreeSet<usize> {
    let mut purged = BTreeSet::new();
    for (number, deployed) in deployed.iter().enumerate() {
        deployed.store(true, SeqCst);
        let Ok(mut stream) = TcpStream::connect(at) else { break };
        let _ =
            write!(stream, "PURGE /{number} HTTP/1.1\r\nHost: {at}\r\nxkey: t{number}\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        if stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200") {
            purged.insert(number);
            done.fetch_add(1, SeqCst);
        }
    }
    purged
}

/// Asks for all pages that nobody has purged yet. Those that are found; the others are fetched, and may push out one that looks alike.
fn look_up_all(listen: SocketAddr) -> BTreeSet<usize> {
    let is_found = |number: &usize| {
        let answer = get(listen, &format!("/{number}")).unwrap();
        assert_eq!(answer.text(), "1");
        answer.is_hit()
    };
    (0..PAGES).filter(is_found).collect()
}

#[test]
fn what_is_written_when_the_time_to_stop_is_over_stays_right() {
    for after in [1, 20, 60] {
        let deployed: Arc<Vec<AtomicBool>> = Arc::new((0..PAGES).map(|_| AtomicBool::new(false)).collect());
        let ends = Arc::new(AtomicBool::new(false));
        let origin = origin(&deployed, &ends);
        let home = Home::new();
        let mode = format!(
            "mode = \"reverse\"\norigin = \"{}\"\n[[listener.rule]]\naction = \"allow\"\nmethod = [\"PURGE\"]\n",
            origin.url("")
        );
        let stopping = |process: &mut tinaja_testkit::process::Process| {
            // So short that it is over as soon as it begins.
            process.signal(Signal::TERM);
            process.wait().code()
        };
        let command = || home.start_with_stop(&mode, "1ms");
        let mut process = command();
        assert!(look_up_all(home.listen).is_empty());
        // On the disk, twice: whoever pushed another out is pushed out by that one in the second round, so neither is left.
        let mut found = BTreeSet::from_iter(0..PAGES);
        for _ in 0..2 {
            assert_eq!(stopping(&mut process), Some(0));
            process = command();
            found = &found & &look_up_all(home.listen);
        }
        assert!(found.len() + 10 > PAGES, "{}", found.len());
        let done = AtomicUsize::new(0);
        let purged = thread::scope(|scope| {
            let mut reader = TcpStream::connect(home.listen).unwrap();
            write!(reader, "GET /large HTTP/1.1\r\nHost: {}\r\n\r\n", home.listen).unwrap();
            let mut half = vec![0; LENGTH / 3];
            reader.read_exact(&mut half).unwrap();
            let purging = scope.spawn(|| purge_all(home.listen, &deployed, &done));
            wait_for("purges", Duration::from_secs(60), || (done.load(SeqCst) >= after).then_some(()));
            assert_eq!(stopping(&mut process), Some(0));
            ends.store(true, SeqCst);
            purging.join().unwrap()
        });
        assert!(purged.len() >= after, "{}", purged.len());
        let mut again = command();
        let stale = purged.iter().filter(|number| get(home.listen, &format!("/{number}")).unwrap().text() != "2");
        assert_eq!(stale.collect::<Vec<_>>(), Vec::<&usize>::new(), "of {} purged pages", purged.len());
        let untouched = found.into_iter().filter(|number| !deployed[*number].load(SeqCst));
        for number in untouched {
            let answer = get(home.listen, &format!("/{number}")).unwrap();
            assert!(answer.is_hit() && answer.text() == "1", "{number}: {answer:?}");
        }
        let whole = get(home.listen, "/large").unwrap();
        assert!(whole.body == body("large", LENGTH));
        let rest = origin
            .requests()
            .iter()
            .filter(|request| request.path == "/large")
            .filter_map(|request| request.field("range"))
            .count();
        assert_eq!(rest, 1, "what had come was kept, and the rest asked for");
        assert!(!home.path("cache/tinaja.bans.damaged").exists());
        assert_eq!(stopping(&mut again), Some(0));
    }
}
