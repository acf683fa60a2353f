//! Origins that refuse, die or lie: the client learns it, nothing wrong is stored, the service goes on.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::body::{body, write_body};
use tinaja_testkit::origin::Origin;

const LEN: u64 = 300_000;
const HEAD: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nConnection: close\r\n";

/// The proxy answers a good origin as if nothing had been.
fn assert_goes_on(proxy: &Tinaja) {
    let good = Origin::of_patterns();
    for hit in [false, true] {
        let response = proxy.get(&good.url("/1000/good")).unwrap();
        assert_eq!((response.status, response.is_hit()), (200, hit));
        assert_eq!(response.body, body("/1000/good", 1000));
    }
}

/// An origin that answers the first two requests with `bad`, and then with the whole body.
fn bad_twice(bad: impl Fn(&mut dyn Write) -> std::io::Result<()> + Send + Sync + 'static) -> Origin {
    let asked = AtomicUsize::new(0);
    Origin::closing(move |request, stream| {
        if asked.fetch_add(1, Ordering::SeqCst) < 2 {
            return bad(stream);
        }
        write!(stream, "{HEAD}Content-Length: {LEN}\r\n\r\n")?;
        write_body(stream, &request.path, LEN)
    })
}

/// Ask twice: no answer may pass for a whole one, and neither may be stored. The third is right.
fn assert_never_stored(origin: &Origin) {
    let setup = Setup::forward();
    let proxy = setup.start();
    let url = origin.url("/x");
    for _ in 0..2 {
        if let Ok(response) = proxy.get(&url) {
            assert!((500..600).contains(&response.status), "{} {:?}", response.status, response.head);
            assert!(!response.is_hit());
        }
    }
    let third = proxy.get(&url).unwrap();
    assert_eq!((third.status, third.is_hit()), (200, false));
    assert!(third.body == body("/x", LEN as usize));
    assert_eq!(origin.paths().len(), 3);
    assert!(proxy.get(&url).unwrap().is_hit());
    assert_goes_on(&proxy);
}

#[test]
fn one_that_refuses() {
    let mut origin = Origin::of_patterns();
    let url = origin.url("/1000/x");
    origin.stop();
    let setup = Setup::forward();
    let proxy = setup.start();
    for _ in 0..2 {
        let response = proxy.get(&url).unwrap();
        assert!((502..=504).contains(&response.status), "{}", response.status);
        assert!(!response.is_hit());
    }
    assert_goes_on(&proxy);
}

#[test]
fn one_that_hangs_up_at_once() {
    assert_never_stored(&bad_twice(|_| Ok(())));
}

#[test]
fn one_that_dies_in_its_head() {
    assert_never_stored(&bad_twice(|out| out.write_all(b"HTTP/1.1 200 OK\r\nCache-Con")));
}

#[test]
fn one_that_talks_nonsense() {
    assert_never_stored(&bad_twice(|out| out.write_all(b"\x16\x03\x01 nonsense\r\n\r\n")));
}

#[test]
fn one_that_dies_in_a_body_of_known_length() {
    assert_never_stored(&bad_twice(|out| {
        write!(out, "{HEAD}Content-Length: {LEN}\r\n\r\n")?;
        write_body(out, "/x", LEN / 2)
    }));
}

#[test]
fn one_that_dies_in_a_chunked_body() {
    assert_never_stored(&bad_twice(|out| {
        write!(out, "{HEAD}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", LEN / 2)?;
        write_body(out, "/x", LEN / 2)?;
        out.write_all(b"\r\n")
    }));
}

#[test]
fn one_that_says_two_lengths() {
    assert_never_stored(&bad_twice(|out| {
        write!(out, "{HEAD}Content-Length: {LEN}\r\nContent-Length: 10\r\n\r\n")?;
        write_body(out, "/x", LEN)
    }));
}

#[test]
fn one_that_sends_more_than_it_says() {
    // The length is what counts: what follows it belongs to nobody, and must not be taken for the next response.
    let origin = Origin::closing(|request, stream| {
        // In one piece: what comes once the connection is in use again cannot be told from an answer, by anybody.
        let mut all = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 100\r\n\r\n".to_vec();
        write_body(&mut all, &request.path, 100)?;
        all.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong");
        stream.write_all(&all)
    });
    let setup = Setup::forward();
    let proxy = setup.start();
    for path in ["/x", "/y", "/x", "/y"] {
        let response = proxy.get(&origin.url(path)).unwrap();
        assert_eq!(response.status, 200);
        assert!(response.body == body(path, 100), "{path}: {:?}", String::from_utf8_lossy(&response.body));
    }
    assert_goes_on(&proxy);
}
