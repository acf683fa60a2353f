//! A clock that is put back while the proxy runs.
//!
//! Ages were told by the time of day alone. The network, or somebody by mistake, put the clock back by forty seconds, and whatever had been stored more than forty
//! seconds before was fresh for forty seconds more than its origin had said: with an hour, an hour.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use tinaja_clock::ManualClock;
use tinaja_store::Reference;
use tinaja_testkit::client::get;
use tinaja_testkit::port::free_port;

use crate::support::{Origin, Proxy, Response, eventually, reply};

const SECOND: Duration = Duration::from_secs(1);

fn proxy() -> (Proxy, ManualClock) {
    let hand = ManualClock::new();
    let clock = hand.clock();
    let before = clock.wall() - 600 * SECOND;
    (Proxy::over(Arc::new(Reference::by(clock.noting(Some(before)))), |_| {}), hand)
}

fn age(answer: &Response) -> u64 {
    answer.field("age").parse().unwrap()
}

#[test]
fn what_was_stored_before_grows_no_younger() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "hello");
    let (proxy, hand) = proxy();
    let url = origin.url("/a");
    let right = hand.clock().wall();
    assert!(!proxy.get(&url).is_hit());
    hand.advance(50 * SECOND);
    hand.set_wall(right + 10 * SECOND);
    let hit = proxy.get(&url);
    assert!(hit.is_hit() && age(&hit) == 50, "{hit:?}");
    assert!(hit.field("cache-status").contains("ttl=10"), "{hit:?}");
    hand.advance(11 * SECOND);
    assert!(!proxy.get(&url).is_hit(), "61 seconds have gone by");
    assert_eq!(origin.count(), 2);
    // Right again: by the time of day a minute has gone by, and nobody is served what may be stale.
    hand.set_wall(hand.clock().wall() + 40 * SECOND);
    hand.advance(30 * SECOND);
    assert!(!proxy.get(&url).is_hit(), "the machine may have been suspended");
}

#[test]
fn what_is_stored_afterwards_is_a_hit_once_the_clock_was_right_at_the_start() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "hello");
    let hand = ManualClock::new();
    let right = hand.clock().wall();
    // A board whose clock keeps the local time, of a zone five hours ahead, until the network has been asked.
    hand.set_wall(right + 5 * 3600 * SECOND);
    let store = Reference::by(hand.clock().noting(Some(right - 600 * SECOND)));
    let proxy = Proxy::over(Arc::new(store), |_| {});
    let early = origin.url("/early");
    assert!(!proxy.get(&early).is_hit());
    hand.advance(20 * SECOND);
    hand.set_wall(right + 20 * SECOND);
    let hit = proxy.get(&early);
    assert!(hit.is_hit() && age(&hit) == 20, "it came when the clock was ahead: {hit:?}");
    let late = origin.url("/late");
    assert!(!proxy.get(&late).is_hit());
    hand.advance(30 * SECOND);
    let hit = proxy.get(&late);
    assert!(hit.is_hit() && age(&hit) == 30, "{hit:?}");
    hand.advance(31 * SECOND);
    assert!([early, late].iter().all(|url| !proxy.get(url).is_hit()));
}

/// The clock is put back while an origin is asked whether something stale still holds, and the origin gives no answer. By the clock it was fresh
/// again then, and went out as a hit would: the simulation found that. So it was for whoever waited for another's request meanwhile.
#[test]
fn what_is_stale_stays_so_while_its_origin_is_asked() {
    let (hand, fails) = (Arc::new(ManualClock::new()), Arc::new(AtomicU32::new(0)));
    let right = hand.clock().wall();
    let round = Arc::new(AtomicU32::new(0));
    // No time of day comes twice but in one round.
    let begins = move |round: u32| right + 1000 * round * SECOND;
    let (sets, how, goes) = (hand.clone(), fails.clone(), round.clone());
    let origin = Origin::start(move |request, stream| {
        let fields = "Cache-Control: max-age=10, must-revalidate\r\nETag: \"1\"\r\n";
        match how.load(SeqCst) {
            WELL => return reply(stream, request, 200, fields, b"hello"),
            _ => sets.set_wall(begins(goes.load(SeqCst))),
        }
        how.load(SeqCst) == SAYS_SO && reply(stream, request, 503, "", b"no")
    });
    let store = Reference::by(hand.clock().noting(Some(right - 600 * SECOND)));
    let proxy = Proxy::over(Arc::new(store), |_| {});
    for failure in [BREAKS_OFF, SAYS_SO] {
        for fields in ["", "Range: bytes=0-1\r\n"] {
            fails.store(WELL, SeqCst);
            let number = round.fetch_add(1, SeqCst) + 1;
            hand.set_wall(begins(number));
            let url = origin.url(&format!("/{number}"));
            assert_eq!(proxy.get(&url).status, 200);
            assert!(proxy.get(&url).is_hit());
            hand.advance(20 * SECOND);
            fails.store(failure, SeqCst);
            let answer = proxy.request("GET", &url, fields);
            assert!(answer.status >= 500, "{fields}: it is stale, and nobody says that it still holds: {answer:?}");
        }
    }
}

/// What an origin does.
const WELL: u32 = 0;
const BREAKS_OFF: u32 = 1;
const SAYS_SO: u32 = 2;

/// The same for a request that waits for another one's, until that has failed, and then asks by itself.
#[test]
fn what_is_stale_stays_so_while_another_asks() {
    let hand = Arc::new(ManualClock::new());
    let right = hand.clock().wall();
    let (asked, waits) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let (counts, sets, is_waiting) = (asked.clone(), hand.clone(), waits.clone());
    let origin = Origin::start(move |request, stream| match counts.fetch_add(1, SeqCst) {
        0 => reply(stream, request, 200, "Cache-Control: max-age=10, must-revalidate\r\n", b"hello"),
        1 => {
            eventually("another waits", || is_waiting.load(SeqCst));
            sets.set_wall(right);
            false
        }
        _ => false,
    });
    let store = Reference::by(hand.clock().noting(Some(right - 600 * SECOND)));
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let proxy = Proxy::over(Arc::new(store), |config| config.metrics = Some(metrics));
    let url = origin.url("/");
    assert_eq!(proxy.get(&url).status, 200);
    hand.advance(20 * SECOND);
    std::thread::scope(|scope| {
        let ask = || scope.spawn(|| proxy.get(&url));
        let first = ask();
        eventually("the first is asked for", || asked.load(SeqCst) == 2);
        let second = ask();
        let waiting = || get(metrics, "/metrics").unwrap().text().contains("\ntinaja_waiting_requests 1\n");
        eventually("the second waits", waiting);
        waits.store(true, SeqCst);
        for answer in [first, second] {
            let answer = answer.join().unwrap();
            assert!(answer.status >= 500, "it is stale, and nobody says that it still holds: {answer:?}");
        }
    });
}
