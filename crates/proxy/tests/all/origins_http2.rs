//! HTTP/2 to origins, frame by frame: what goes through, what is no answer, and what may be sent again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{Proxy, Response};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header block of literals that are never indexed.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [vec![0x10], text(name), text(value)].concat()).collect()
}

fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block(fields))
}

/// An answer that may not be stored.
fn answer(stream: u32, content: &[u8]) -> Vec<u8> {
    let fields = [(":status", "200"), ("cache-control", "no-store")];
    [head(stream, 0, &fields), frame(DATA, END_STREAM, stream, content)].concat()
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// An origin that speaks HTTP/2 in the clear, and nothing else.
#[derive(Clone)]
struct Origin {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    content: Arc<Mutex<Vec<u8>>>,
}

/// What it says to its nth request, which came on this stream. Behind nothing it closes the connection.
type Say = dyn Fn(usize, u32) -> Vec<u8> + Send + Sync;

impl Origin {
    fn start(say: impl Fn(usize, u32) -> Vec<u8> + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let origin = Origin { address, connections: Arc::default(), requests: Arc::default(), content: Arc::default() };
        let (made, say) = (origin.clone(), Arc::new(say));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (origin, say) = (origin.clone(), say.clone());
                // The proxy may leave at any moment, which ends the thread.
                std::thread::spawn(move || origin.serve(stream.unwrap(), &*say));
            }
        });
        made
    }

    fn serve(&self, mut stream: TcpStream, say: &Say) -> Option<()> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        stream.read_exact(&mut [0; 24]).ok()?;
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).ok()?;
        loop {
            let mut front = [0; 9];
            stream.read_exact(&mut front).ok()?;
            let length = u32::from_be_bytes([0, front[0], front[1], front[2]]) as usize;
            let id = u32::from_be_bytes([front[5], front[6], front[7], front[8]]);
            let mut payload = vec![0; length];
            stream.read_exact(&mut payload).ok()?;
            let (kind, flags) = (front[3], front[4]);
            match kind {
                SETTINGS | PING if flags & 1 == 0 => {
                    let payload: &[u8] = if kind == PING { &payload } else { &[] };
                    stream.write_all(&frame(kind, 1, 0, payload)).ok()?;
                }
                DATA => self.content.lock().unwrap().extend_from_slice(&payload),
                _ => {}
            }
            if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                let said = say(self.requests.fetch_add(1, Ordering::SeqCst), id);
                stream.write_all(&said).ok()?;
                if said.is_empty() {
                    return None;
                }
            }
        }
    }

    fn counts(&self) -> (usize, usize) {
        (self.requests.load(Ordering::SeqCst), self.connections.load(Ordering::SeqCst))
    }
}

fn before(origins: &[&Origin]) -> Proxy {
    let addresses: Vec<SocketAddr> = origins.iter().map(|origin| origin.address).collect();
    Proxy::before(&addresses, |upstream| upstream.http2 = true)
}

#[test]
fn requests_share_a_connection() {
    let origin = Origin::start(|_, id| answer(id, b"two"));
    let proxy = before(&[&origin]);
    for _ in 0..20 {
        let response = proxy.get("http://a/");
        assert_eq!((response.status, response.text().as_str(), response.whole), (200, "two", true));
        assert!(response.field("via").starts_with("2 "), "{}", response.head);
    }
    assert_eq!(origin.counts(), (20, 1));
    // A HEAD has no content, whatever it says of its length.
    let origin = Origin::start(|_, id| head(id, END_STREAM, &[(":status", "200"), ("content-length", "5")]));
    let response = before(&[&origin]).request("HEAD", "http://a/", "");
    assert_eq!((response.status, response.field("content-length").as_str()), (200, "5"));
}

#[test]
fn content_goes_up_and_trailers_end_here() {
    let origin = Origin::start(|_, id| {
        let data = frame(DATA, 0, id, b"content");
        [head(id, 0, &[(":status", "201")]), data, head(id, END_STREAM, &[("x-trailer", "secret")])].concat()
    });
    let proxy = before(&[&origin]);
    for framing in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"] {
        let mut client = proxy.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}"));
        let response = client.read("POST").unwrap();
        assert_eq!((response.status, response.text().as_str(), response.whole), (201, "content", true));
        assert!(!response.head.contains("trailer"));
    }
    assert_eq!(*origin.content.lock().unwrap(), b"hellohello");
}

#[test]
fn interim_answers_are_passed_on_and_are_not_without_end() {
    let hint = |id| head(id, 0, &[(":status", "103"), ("link", "</a>")]);
    let origin = Origin::start(move |_, id| [hint(id), answer(id, b"final")].concat());
    let proxy = before(&[&origin]);
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let first = client.read("GET").unwrap();
    assert!(matches!(first.status, 103 | 200), "{first:?}");
    let last = if first.status == 103 { client.read("GET").unwrap() } else { first };
    assert_eq!((last.status, last.text().as_str()), (200, "final"));
    // One that only seems to be final: that it was an interim one is known before that nothing follows it.
    let origin = Origin::start(|_, id| head(id, END_STREAM, &[(":status", "103")]));
    let proxy = before(&[&origin]);
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let first = client.read("GET").unwrap();
    let last = if first.status == 103 { client.read("GET").unwrap() } else { first };
    assert_eq!(last.status, 502);
}

/// Not among them: a request's pseudo-fields, such as `:path`, in an answer. The library that reads frames drops them, so they
/// are nowhere to be seen, and do no harm.
#[test]
fn what_is_no_answer_is_a_502_and_not_stored() {
    let ok = (":status", "200");
    for fields in [
        vec![ok, ("connection", "close")],
        vec![ok, ("transfer-encoding", "chunked")],
        vec![ok, ("keep-alive", "1")],
        vec![ok, ("upgrade", "h3")],
        vec![ok, ("X-Upper", "1")],
        vec![ok, ("x y", "1")],
        vec![ok, ("x", "a\r\nset-cookie: b")],
        vec![ok, ("x", "a\0b")],
        vec![("x", "1"), ok],
        vec![("x", "1")],
        vec![(":status", "2000")],
        vec![(":status", "101")],
        vec![ok, ("content-length", "x")],
        vec![ok, ("content-length", "5"), ("content-length", "6")],
        vec![ok, ("content-length", "-1")],
    ] {
        let sent = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>();
        let origin = Origin::start(move |_, id| {
            let fields: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let fields = [fields.as_slice(), &[("cache-control", "max-age=60")]].concat();
            [head(id, 0, &fields), frame(DATA, END_STREAM, id, b"hello")].concat()
        });
        let proxy = before(&[&origin]);
        for _ in 0..2 {
            let response = proxy.get("http://a/");
            assert_eq!(response.status, 502, "{fields:?}: {response:?}");
        }
    }
}

#[test]
fn content_of_another_length_than_it_was_said_is_not_passed_off_as_whole() {
    for (length, content, ends) in [("9", "short", true), ("3", "too long", true), ("9", "reset", false)] {
        let origin = Origin::start(move |_, id| {
            let fields = [(":status", "200"), ("content-length", length), ("cache-control", "max-age=60")];
            let data = frame(DATA, if ends { END_STREAM } else { 0 }, id, content.as_bytes());
            let behind = if ends { Vec::new() } else { reset(id, 2) };
            [head(id, 0, &fields), data, behind].concat()
        });
        let proxy = before(&[&origin]);
        for n in 1..=2 {
            let Response { status, whole, body, .. } = proxy.get("http://a/");
            assert!(status == 502 || !whole, "{length} {content}: {status} {body:?}");
            // Never from the store. What is cut may be asked for once more by the method's nature.
            assert!(origin.counts().0 >= n, "{length} {content}");
        }
    }
}

#[test]
fn what_was_not_looked_at_is_sent_again_whatever_it_is() {
    // Refused; or told that streams above 0 were not looked at.
    let ways: [fn(u32) -> Vec<u8>; 2] = [|id| reset(id, 7), |_| frame(GOAWAY, 0, 0, &[0; 8])];
    for method in ["GET", "POST"] {
        for first in ways {
            let origin = Origin::start(move |n, id| if n == 0 { first(id) } else { answer(id, b"again") });
            let proxy = before(&[&origin]);
            let response = proxy.request(method, "http://a/", "");
            assert_eq!((response.status, origin.counts().0), (200, 2), "{method}: {response:?}");
        }
    }
    // Always so: no further than once more at each origin, and never past what the client has sent of its content.
    let (one, two) = (Origin::start(|_, id| reset(id, 7)), Origin::start(|_, id| answer(id, b"two")));
    let proxy = before(&[&one, &two]);
    assert_eq!(proxy.request("POST", "http://a/", "").status, 200);
    assert_eq!((one.counts().0, two.counts().0), (2, 1));
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.read("POST").unwrap().status, 502);
    assert_eq!((one.counts().0, two.counts().0), (3, 1));
}

#[test]
fn what_may_have_been_carried_out_is_sent_on_only_if_it_may_be_repeated() {
    for (method, status) in [("GET", 200), ("POST", 502)] {
        for closes in [false, true] {
            let one = Origin::start(move |_, id| if closes { Vec::new() } else { reset(id, 2) });
            let two = Origin::start(|_, id| answer(id, b"two"));
            let response = before(&[&one, &two]).request(method, "http://a/", "");
            assert_eq!((response.status, one.counts().0), (status, 1), "{method}: {response:?}");
            assert!(status == 200 || response.text().contains("The origin failed"), "{}", response.text());
        }
    }
}

#[test]
fn a_kept_connection_that_has_ended_costs_nobody_an_answer() {
    // Each connection is good for one request, and says so behind it or not at all.
    for says in [true, false] {
        let origin = Origin::start(move |_, id| match (id, says) {
            (1, true) => [answer(id, b"one"), frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])].concat(),
            (1, false) => answer(id, b"one"),
            _ => Vec::new(),
        });
        let proxy = before(&[&origin]);
        for _ in 0..6 {
            assert_eq!(proxy.get("http://a/").status, 200);
        }
    }
}

#[test]
fn an_origin_that_speaks_no_http2() {
    let origin = crate::support::Origin::fixed("", "one");
    let proxy = Proxy::before(&[origin.address], |upstream| upstream.http2 = true);
    let response = proxy.get("http://a/");
    assert_eq!(response.status, 502);
    assert!(response.text().contains("The origin failed"), "{}", response.text());
}
