//! Answers whose length nobody said, as those that come in chunks, break off: at their origin, or where the store loses them.
//!
//! The rest of them was not asked for, since nobody knew how much it was, and every such client's connection was cut. The simulation found
//! that, on a disk that fails. All from a byte on is asked for now.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tinaja_testkit::origin::Request;

use crate::support::{Altered, Origin, Proxy};

const LENGTH: usize = 5000;
const KEPT: usize = 1000;
const FIELDS: &str = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";

fn bytes(part: std::ops::Range<usize>) -> Vec<u8> {
    part.map(|at| (at % 251) as u8).collect()
}

/// In two chunks, and perhaps with their end.
fn in_chunks(stream: &mut TcpStream, status: &str, fields: &str, body: &[u8], ends: bool) -> bool {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Transfer-Encoding: chunked\r\n\r\n");
    let (first, second) = body.split_at(body.len() / 2);
    let mut sent = head.into_bytes();
    for chunk in [first, second].iter().filter(|chunk| !chunk.is_empty()) {
        sent.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        sent.extend_from_slice(chunk);
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(if ends { b"0\r\n\r\n" } else { b"" });
    stream.write_all(&sent).is_ok() && ends
}

/// The byte from which on the rest is asked for.
fn from(request: &Request) -> Option<usize> {
    let from = request.field("range")?.strip_prefix("bytes=")?.split('-').next()?.parse().ok()?;
    assert_eq!(request.field("if-range").as_deref(), Some("\"1\""));
    Some(from)
}

/// An origin whose first answer breaks off, and that says this to whoever asks for the rest.
fn breaking_off(says: impl Fn(usize, &mut TcpStream) -> bool + Send + Sync + 'static) -> Origin {
    Origin::start(move |request, stream| match from(request) {
        None => in_chunks(stream, "200 OK", FIELDS, &bytes(0..KEPT), false),
        Some(from) => says(from, stream),
    })
}

/// A part in chunks, of which Content-Range alone says how long it is.
fn part(stream: &mut TcpStream, from: usize, to: usize, whole: &str, ends: bool) -> bool {
    let fields = format!("{FIELDS}Content-Range: bytes {from}-{}/{whole}\r\n", LENGTH - 1);
    in_chunks(stream, "206 Partial Content", &fields, &bytes(from..to), ends)
}

/// How many bytes a client gets, if they come whole and are right. Then they are stored so, and otherwise not at all.
fn get(origin: &Origin) -> Option<usize> {
    get_with(origin, "")
}

fn get_with(origin: &Origin, fields: &str) -> Option<usize> {
    let proxy = Proxy::reverse(origin);
    let answer = get_of(&proxy, fields);
    match &answer {
        Some(_) => {
            proxy.has_stored(1);
            let asked = origin.count();
            assert_eq!(get_of(&proxy, fields), answer);
            assert_eq!(origin.count(), asked, "it is stored");
        }
        None => assert_eq!(proxy.store.stats().stored, 0),
    }
    answer
}

fn get_of(proxy: &Proxy, fields: &str) -> Option<usize> {
    let answer = proxy.get_with(&format!("http://{}/x", proxy.address), fields);
    assert_eq!(answer.status, 200, "{}", answer.head);
    assert!(answer.body == bytes(0..answer.body.len()), "the bytes are others");
    answer.whole.then_some(answer.body.len())
}

#[test]
fn the_rest_comes_as_a_part() {
    let origin = breaking_off(|from, stream| part(stream, from, LENGTH, &LENGTH.to_string(), true));
    assert_eq!(get(&origin), Some(LENGTH));
    assert_eq!(from(&origin.requests()[1]), Some(KEPT));
}

#[test]
fn a_part_may_break_off_too() {
    let origin = breaking_off(|from, stream| {
        let to = (from + 1500).min(LENGTH);
        part(stream, from, to, &LENGTH.to_string(), to == LENGTH)
    });
    assert_eq!(get(&origin), Some(LENGTH));
    assert_eq!(
        origin.requests()[1..].iter().map(|request| request.field("range").unwrap()).collect::<Vec<_>>(),
        ["bytes=1000-", "bytes=2500-4999", "bytes=4000-4999"]
    );
}

/// An origin that knows of no parts.
#[test]
fn the_rest_comes_behind_what_was_sent() {
    let origin = breaking_off(|_, stream| in_chunks(stream, "200 OK", FIELDS, &bytes(0..LENGTH), true));
    assert_eq!(get(&origin), Some(LENGTH));
    let said = breaking_off(|_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FIELDS}Content-Length: {LENGTH}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), &bytes(0..LENGTH)].concat()).is_ok()
    });
    assert_eq!(get(&said), Some(LENGTH));
}

/// Only the end was missing.
#[test]
fn there_may_be_no_rest() {
    for says in [format!("{FIELDS}Content-Range: bytes */{KEPT}\r\n"), FIELDS.to_owned()] {
        let has_end = says != FIELDS;
        let origin = breaking_off(move |from, stream| match has_end {
            true => in_chunks(stream, "416 Range Not Satisfiable", &says, b"no", true),
            false => in_chunks(stream, "200 OK", &says, &bytes(0..from), true),
        });
        assert_eq!(get(&origin), Some(KEPT));
    }
}

/// Nothing is put together of two versions, and nothing is taken for the end that is none.
#[test]
fn what_may_be_another_is_not_taken() {
    let other = FIELDS.replace("\"1\"", "\"2\"");
    for (case, says) in [
        // Another version, and none that is said: as a whole, and as a part.
        ("200 OK", other.clone()),
        ("200 OK", "Cache-Control: max-age=60\r\n".to_owned()),
        ("206 Partial Content", format!("{other}Content-Range: bytes {KEPT}-{}/{LENGTH}\r\n", LENGTH - 1)),
        // The end of the part may not be the end.
        ("206 Partial Content", format!("{FIELDS}Content-Range: bytes {KEPT}-{}/*\r\n", LENGTH - 1)),
        ("206 Partial Content", format!("{FIELDS}Content-Range: bytes {KEPT}-{}/{}\r\n", LENGTH - 1, LENGTH + 1)),
        // Another part.
        ("206 Partial Content", format!("{FIELDS}Content-Range: bytes {}-{}/{LENGTH}\r\n", KEPT + 1, LENGTH - 1)),
        // It ends elsewhere, or another does.
        ("416 Range Not Satisfiable", format!("{FIELDS}Content-Range: bytes */{}\r\n", KEPT - 1)),
        ("416 Range Not Satisfiable", format!("{other}Content-Range: bytes */{KEPT}\r\n")),
        ("404 Not Found", FIELDS.to_owned()),
    ] {
        let fields = says.clone();
        let origin = breaking_off(move |_, stream| in_chunks(stream, case, &fields, &bytes(0..LENGTH), true));
        assert_eq!(get(&origin), None, "{case} {says}");
        // The fetch asks once, and so does the client that it left.
        assert!((2..=3).contains(&origin.count()), "{case} {says}");
    }
    // The same version, and yet it is shorter than what was sent of it.
    let shorter = breaking_off(|_, stream| in_chunks(stream, "200 OK", FIELDS, &bytes(0..KEPT - 1), true));
    assert_eq!(get(&shorter), None);
    assert!((2..=3).contains(&shorter.count()));
}

/// A date will not do beside a weak tag (RFC 9110 13.1.5): an answer that was compressed on its way has both, and no length, and the origin has
/// parts of what it was before.
#[test]
fn where_nothing_tells_the_version_it_is_not_asked_for() {
    for tag in ["W/\"1\"\r\n", "W/\"1\"\r\nLast-Modified: Sat, 01 Jan 2000 00:00:00 GMT\r\n"] {
        let fields = format!("Cache-Control: max-age=60\r\nETag: {tag}");
        let origin = Origin::start(move |_, stream| in_chunks(stream, "200 OK", &fields, &bytes(0..KEPT), false));
        assert_eq!(get(&origin), None);
        assert_eq!(origin.count(), 1, "{tag}");
    }
}

/// Something between compresses answers and leaves them their tags, but lets parts pass as they are.
#[test]
fn what_is_coded_otherwise_is_another() {
    let coded = format!("{FIELDS}Content-Encoding: gzip\r\n");
    for (first, then) in [(coded.clone(), FIELDS.to_owned()), (FIELDS.to_owned(), coded.clone())] {
        for part in [true, false] {
            let (first, then) = (first.clone(), then.clone());
            let origin = Origin::start(move |request, stream| match from(request) {
                None => in_chunks(stream, "200 OK", &first, &bytes(0..KEPT), false),
                Some(from) if part => {
                    let fields = format!("{then}Content-Range: bytes {from}-{}/{LENGTH}\r\n", LENGTH - 1);
                    in_chunks(stream, "206 Partial Content", &fields, &bytes(from..LENGTH), true)
                }
                Some(_) => in_chunks(stream, "200 OK", &then, &bytes(0..LENGTH), true),
            });
            assert_eq!(get_with(&origin, "Accept-Encoding: gzip\r\n"), None, "{part}");
            assert!((2..=3).contains(&origin.count()));
        }
    }
    let same = coded.clone();
    let origin = Origin::start(move |request, stream| match from(request) {
        None => in_chunks(stream, "200 OK", &coded, &bytes(0..KEPT), false),
        Some(_) => in_chunks(stream, "200 OK", &same, &bytes(0..LENGTH), true),
    });
    assert_eq!(get_with(&origin, "Accept-Encoding: gzip\r\n"), Some(LENGTH));
}

/// An origin that never sends its last chunk was asked for all of it seventeen times for one request.
#[test]
fn what_brings_no_more_is_not_asked_for_again() {
    let origin = breaking_off(|_, stream| in_chunks(stream, "200 OK", FIELDS, &bytes(0..KEPT), false));
    assert_eq!(get(&origin), None);
    assert!((2..=3).contains(&origin.count()), "{}", origin.count());
}

/// Then a connection that breaks looks like the end.
#[test]
fn a_rest_that_ends_with_its_connection_is_not_taken() {
    let origin = breaking_off(|_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FIELDS}Connection: close\r\n\r\n");
        let _ = stream.write_all(&[head.as_bytes(), &bytes(0..LENGTH - 1)].concat());
        false
    });
    assert_eq!(get(&origin), None);
}

/// The store has no more of it, and nobody knows how long it was.
#[test]
fn what_the_store_loses_comes_from_the_origin() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let origin = Origin::start(move |request, stream| match from(request) {
        None => in_chunks(stream, "200 OK", FIELDS, &bytes(0..LENGTH), true),
        Some(from) => {
            counted.fetch_add(1, SeqCst);
            part(stream, from, LENGTH, &LENGTH.to_string(), true)
        }
    });
    let route = format!("http://{}", origin.address).parse().unwrap();
    let proxy = Proxy::over(Arc::new(Altered::losing_unknown(KEPT)), |config| {
        config.listeners[0].mode = tinaja_proxy::Mode::Reverse(tinaja_proxy::Routes::to(route));
    });
    assert_eq!(get_of(&proxy, ""), Some(LENGTH));
    proxy.has_stored(1);
    assert_eq!(get_of(&proxy, ""), Some(LENGTH));
    assert_eq!((asked.load(SeqCst), origin.count()), (1, 2));
}
