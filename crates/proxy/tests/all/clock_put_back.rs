//! A clock that is put back while the proxy runs.
//!
//! Ages were told by the time of day alone. The network, or somebody by mistake, put the clock back by forty seconds, and whatever had been stored more than forty
//! seconds before was fresh for forty seconds more than its origin had said: with an hour, an hour.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use tinaja_clock::ManualClock;
use tinaja_store::Reference;

use crate::support::{Origin, Proxy, Response, reply};

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
/// again then, and went out as a hit would: the simulation found that.
#[test]
fn what_is_stale_stays_so_while_its_origin_is_asked() {
    let (well, hand) = (Arc::new(AtomicBool::new(true)), Arc::new(ManualClock::new()));
    let clock = hand.clock();
    let right = clock.wall();
    let round = Arc::new(AtomicU32::new(0));
    // No time of day comes twice but in one round.
    let begins = move |round: u32| right + 1000 * round * SECOND;
    let (is_well, sets, goes) = (well.clone(), hand.clone(), round.clone());
    let origin = Origin::start(move |request, stream| {
        if is_well.load(SeqCst) {
            return reply(
                stream,
                request,
                200,
                "Cache-Control: max-age=10, must-revalidate\r\nETag: \"1\"\r\n",
                b"hello",
            );
        }
        sets.set_wall(begins(goes.load(SeqCst)));
        false
    });
    let store = Reference::by(clock.clone().noting(Some(right - 600 * SECOND)));
    let proxy = Proxy::over(Arc::new(store), |_| {});
    for fields in ["", "Range: bytes=0-1\r\n"] {
        well.store(true, SeqCst);
        hand.set_wall(begins(round.fetch_add(1, SeqCst) + 1));
        let url = origin.url(if fields.is_empty() { "/whole" } else { "/part" });
        assert_eq!(proxy.get(&url).status, 200);
        assert!(proxy.get(&url).is_hit());
        hand.advance(20 * SECOND);
        well.store(false, SeqCst);
        let answer = proxy.request("GET", &url, fields);
        assert!(answer.status >= 500, "{fields}: it is stale, and nobody says that it still holds: {answer:?}");
    }
}
