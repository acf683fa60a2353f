//! C12: a client that leads a fetch leaves at any moment, before the head, in it, between pieces of the body, behind it.
//!
//! Whoever waits for its answer gets one of its own where the leader's is private, and a whole one in any case.

use std::io::Write;
use std::time::Duration;

use crate::support::{Origin, Proxy, Request, eventually};

const FOLLOWERS: usize = 3;
/// Where the origin pauses, so that there is something to leave in.
const PAUSE: Duration = Duration::from_millis(4);

/// Says whom it answers, a few bytes at a time. Below `/private` nobody else may have it.
fn origin() -> Origin {
    Origin::start(|request, stream| {
        let private = request.path.starts_with("/private");
        let control = if private { "private, max-age=60" } else { "max-age=60" };
        let body = if private { user(request) } else { "everybody".into() };
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nX-For: {body}\r\nContent-Length: 9\r\n\r\n");
        let message = format!("{head}{body}");
        let (behind_line, behind_head) = (20, head.len());
        [0..behind_line, behind_line..behind_head, behind_head..behind_head + 4, behind_head + 4..message.len()]
            .into_iter()
            .all(|piece| {
                std::thread::sleep(PAUSE);
                stream.write_all(&message.as_bytes()[piece]).is_ok()
            })
    })
}

/// Nine bytes that name who asks.
fn user(request: &Request) -> String {
    request.field("x-user").unwrap_or_default()
}

fn ask(proxy: &Proxy, url: &str, user: &str) -> crate::support::Response {
    proxy.get_with(url, &format!("X-User: {user}\r\n"))
}

/// One fetch whose leader leaves that much later; how often the origin was asked.
fn leave_after(proxy: &Proxy, origin: &Origin, path: &str, later: Duration) -> usize {
    let (before, url) = (origin.count(), origin.url(path));
    let mut leader = proxy.client();
    leader.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\nX-User: leader000\r\n\r\n", origin.address));
    std::thread::scope(|scope| {
        let followers: Vec<_> = (0..FOLLOWERS)
            .map(|number| {
                let (user, url) = (format!("follower{number}"), &url);
                scope.spawn(move || (ask(proxy, url, &user), user))
            })
            .collect();
        std::thread::sleep(later);
        drop(leader);
        for follower in followers {
            let (answer, user) = follower.join().unwrap();
            let expected = if path.starts_with("/private") { user.as_str() } else { "everybody" };
            assert!(answer.status == 200 && answer.whole, "{path} {later:?}: {answer:?}");
            assert_eq!(
                (answer.text().as_str(), answer.field("x-for").as_str()),
                (expected, expected),
                "{path} {later:?}"
            );
        }
    });
    origin.count() - before
}

#[test]
fn the_leader_leaves_at_any_moment() {
    let (origin, proxy) = (origin(), Proxy::forward());
    let mut asked = 0;
    for moment in 0..25 {
        let later = Duration::from_millis(moment);
        let private = leave_after(&proxy, &origin, &format!("/private/{moment}"), later);
        assert!((FOLLOWERS..=FOLLOWERS + 1).contains(&private), "{later:?}: {private} requests for private answers");
        let path = format!("/shared/{moment}");
        let shared = leave_after(&proxy, &origin, &path, later);
        // The leader's own may be lost with it; those who waited for it ask once more between them, or each by itself.
        assert!((1..=FOLLOWERS + 1).contains(&shared), "{later:?}: {shared} requests for one answer");
        asked += shared;
        // The last bytes are at the clients a moment before they are in the cache.
        eventually("it is stored", || {
            let stored = ask(&proxy, &origin.url(&path), "somebody0");
            assert_eq!((stored.status, stored.text().as_str()), (200, "everybody"), "{later:?}");
            stored.is_hit()
        });
    }
    println!("25 moments: {asked} requests for 25 answers that {} clients shared", 25 * (FOLLOWERS + 1));
}
