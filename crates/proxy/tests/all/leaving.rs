//! Clients that leave amid a fetch: it goes on for those who read along, or if it is nearly done; else it ends.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Client, Origin, Proxy, eventually};

const PIECE: usize = 100_000;
const PIECES: usize = 100;

/// An origin that sends 10 MB in pieces, as far as `allowed` says, and knows how its answers ended.
struct Slow {
    origin: Origin,
    allowed: Arc<AtomicUsize>,
    /// Answers that could not be sent to their end, and ones that could.
    cut: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
}

fn slow(chunked: bool, head_first: bool) -> Slow {
    let (allowed, cut, done) = (Arc::new(AtomicUsize::new(0)), Arc::default(), Arc::default());
    let (may, cuts, ends): (_, Arc<AtomicUsize>, Arc<AtomicUsize>) =
        (allowed.clone(), Arc::clone(&cut), Arc::clone(&done));
    let origin = Origin::start(move |_, stream| {
        let framing =
            if chunked { "Transfer-Encoding: chunked".into() } else { format!("Content-Length: {}", PIECE * PIECES) };
        let waiting = |number: usize| {
            while may.load(Ordering::SeqCst) <= number {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        if !head_first {
            waiting(0);
        }
        let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\nCache-Control: max-age=60\r\nConnection: close\r\n\r\n");
        let mut written = stream.write_all(head.as_bytes());
        for number in 0..PIECES {
            waiting(number);
            let piece = vec![b'a' + (number % 26) as u8; PIECE];
            written = written.and_then(|()| match chunked {
                true => stream.write_all(&[format!("{PIECE:x}\r\n").as_bytes(), &piece, b"\r\n"].concat()),
                false => stream.write_all(&piece),
            });
        }
        if chunked {
            written = written.and_then(|()| stream.write_all(b"0\r\n\r\n"));
        }
        if written.is_ok() { &ends } else { &cuts }.fetch_add(1, Ordering::SeqCst);
        false
    });
    Slow { origin, allowed, cut, done }
}

fn body() -> Vec<u8> {
    (0..PIECES).flat_map(|number| vec![b'a' + (number % 26) as u8; PIECE]).collect()
}

impl Slow {
    /// Asks, and returns the connection once as many bytes as allowed have come.
    fn begin(&self, proxy: &Proxy, pieces: usize) -> Client {
        let mut client = proxy.client();
        client.send(format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", self.origin.url("/"), self.origin.address));
        if pieces > 0 {
            client.read_bytes(pieces * PIECE);
        }
        client
    }

    fn allow(&self, pieces: usize) {
        self.allowed.store(pieces, Ordering::SeqCst);
    }

    /// Lets the rest go, a piece at a time, and waits for the answer's end: whether it could be sent whole.
    fn finish(&self, from: usize) -> bool {
        let (cut, done) = (self.cut.load(Ordering::SeqCst), self.done.load(Ordering::SeqCst));
        for allowed in from..=PIECES {
            self.allow(allowed);
            std::thread::sleep(Duration::from_millis(10));
        }
        eventually("the answer has ended", || {
            self.cut.load(Ordering::SeqCst) > cut || self.done.load(Ordering::SeqCst) > done
        });
        self.done.load(Ordering::SeqCst) > done
    }
}

/// Leaves nothing to time: whoever waits for a head has joined long before the fetch may end.
fn leave(client: Client) {
    drop(client);
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn the_last_client_takes_the_fetch_along() {
    for chunked in [false, true] {
        let slow = slow(chunked, true);
        let proxy = Proxy::forward();
        slow.allow(20);
        leave(slow.begin(&proxy, 19));
        assert!(!slow.finish(20), "chunked: {chunked}: fetched to its end for nobody");
        assert_eq!(proxy.store.stats().stored, 0);
        // Nothing is left over: the next client has it all, and the one after it from the cache.
        assert!(proxy.get(&slow.origin.url("/")).body == body());
        assert!(proxy.get(&slow.origin.url("/")).is_hit());
        assert_eq!(slow.origin.count(), 2);
    }
}

#[test]
fn what_is_nearly_done_is_finished() {
    let slow = slow(false, true);
    let proxy = Proxy::forward();
    slow.allow(95);
    leave(slow.begin(&proxy, 94));
    assert!(slow.finish(95));
    eventually("it is stored", || proxy.store.stats().stored == 1);
    let again = proxy.get(&slow.origin.url("/"));
    assert!(again.is_hit() && again.body == body());
}

#[test]
fn the_settings_say_what_nearly_is() {
    for (bytes, percent, finished) in [(0, 10, true), (0, 101, false), (9_000_000, 101, true)] {
        let slow = slow(false, true);
        let proxy = Proxy::with(|config| {
            (config.limits.quick_abort_bytes, config.limits.quick_abort_percent) = (bytes, percent);
        });
        slow.allow(20);
        leave(slow.begin(&proxy, 19));
        assert_eq!(slow.finish(20), finished, "{bytes} {percent}");
    }
}

#[test]
fn whoever_reads_along_keeps_it_going() {
    for leader_leaves_before_the_head in [false, true] {
        let slow = slow(false, !leader_leaves_before_the_head);
        let proxy = Proxy::forward();
        let pieces = if leader_leaves_before_the_head { 0 } else { 20 };
        slow.allow(pieces);
        let leader = slow.begin(&proxy, pieces.saturating_sub(1));
        eventually("the first request", || slow.origin.count() == 1);
        let (url, address) = (slow.origin.url("/"), proxy.address);
        let follower = std::thread::spawn(move || Client::connect(address).request("GET", &url, ""));
        std::thread::sleep(Duration::from_millis(300));
        leave(leader);
        assert!(slow.finish(pieces), "before the head: {leader_leaves_before_the_head}");
        let got = follower.join().unwrap();
        assert!(got.whole && got.body == body(), "{} bytes", got.body.len());
        assert!(proxy.get(&slow.origin.url("/")).is_hit());
        assert_eq!(slow.origin.count(), 1);
    }
}

#[test]
fn the_last_of_several_takes_it_along() {
    let slow = slow(false, true);
    let proxy = Proxy::forward();
    slow.allow(20);
    let leader = slow.begin(&proxy, 19);
    let follower = slow.begin(&proxy, 10);
    leave(leader);
    slow.allow(30);
    std::thread::sleep(Duration::from_millis(100));
    leave(follower);
    assert!(!slow.finish(30), "fetched to its end for nobody");
    assert_eq!(proxy.store.stats().stored, 0);
}

#[test]
fn a_client_that_leaves_in_a_passed_on_answer_ends_it() {
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    let origin = Origin::start(move |_, stream| {
        let mut written = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2000000000\r\n\r\n");
        for _ in 0..20_000 {
            written = written.and_then(|()| stream.write_all(&[b'x'; PIECE]));
        }
        end.store(written.is_err(), Ordering::SeqCst);
        false
    });
    let proxy = Proxy::forward();
    let mut client = proxy.client();
    client.send(format!("GET {} HTTP/1.1\r\nHost: {}\r\nRange: bytes=0-99\r\n\r\n", origin.url("/"), origin.address));
    client.read_bytes(10 * PIECE);
    drop(client);
    eventually("the origin is told", || ended.load(Ordering::SeqCst));
}

/// The client whose request fetches an object once set the pace for everybody: one that stopped reading, without leaving,
/// held up all who read along until it was given up for stalling.
#[test]
fn a_client_that_stops_reading_holds_up_nobody() {
    const MANY: usize = 400;
    let origin = Origin::start(|_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\n\r\n", MANY * PIECE);
        stream.write_all(head.as_bytes()).unwrap();
        (0..MANY).all(|number| stream.write_all(&vec![number as u8; PIECE]).is_ok())
    });
    let proxy = Proxy::forward();
    let url = origin.url("/");
    let mut stalled = proxy.client();
    stalled.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
    let head = stalled.read_bytes(15);
    assert_eq!(head, b"HTTP/1.1 200 OK");
    let whole: Vec<u8> = (0..MANY).flat_map(|number| vec![number as u8; PIECE]).collect();
    assert!(proxy.get(&url).body == whole, "the one who reads along");
    eventually("it is stored", || proxy.store.stats().stored == 1);
    assert_eq!(origin.count(), 1);
    // Late, but whole.
    let mut late = Vec::new();
    while !late.ends_with(b"\r\n\r\n") {
        late.extend(stalled.read_bytes(1));
    }
    assert!(stalled.read_bytes(whole.len()) == whole);
}
