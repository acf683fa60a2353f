//! Attacks over HTTP/2, by their numbers in docs/http-attacks.md, frame by frame: each has a ceiling that can be counted,
//! ends with GOAWAY, and leaves other connections alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod frames;
mod support;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use frames::*;
use support::{Origin, Proxy, reply};

const WHOLE: u8 = END_STREAM | END_HEADERS;
/// The head of an answer with status 400 begins so (RFC 7541 A).
const STATUS_400: u8 = 0x80 | 12;

/// A proxy with short limits before an origin that is slow for `/slow` and knows one large object.
fn proxy() -> (Origin, Proxy) {
    let origin = Origin::start(|request, stream| {
        if request.path.starts_with("/slow") {
            std::thread::sleep(Duration::from_secs(2));
        }
        let large = vec![b'x'; if request.path == "/large" { 1 << 20 } else { 5 }];
        reply(stream, request, 200, "Cache-Control: max-age=60\r\n", &large)
    });
    let route = format!("http://{}", origin.address).parse().unwrap();
    let proxy = Proxy::with(|config| {
        config.listeners[0].mode = tinaja_proxy::Mode::Reverse(tinaja_proxy::Routes::to(route));
        config.limits.head = Duration::from_secs(1);
        config.limits.client_stall = Duration::from_secs(1);
    });
    (origin, proxy)
}

fn fields<'a>(path: &'a str, more: &[(&'a str, &'a [u8])]) -> Vec<(&'a str, &'a [u8])> {
    let pseudo: [(&str, &[u8]); 4] =
        [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", path.as_bytes())];
    pseudo.into_iter().chain(more.iter().copied()).collect()
}

/// Plays `attack` on one connection, up to the code of its GOAWAY, while another is served before, during and after.
fn calmed(proxy: &Proxy, settings: &[(u16, u32)], attack: impl FnOnce(&mut Frames)) -> Option<u32> {
    let mut other = Frames::connect(proxy.address, &[]);
    let mut served = |stream: u32| {
        other.get(stream, &fields("/other", &[]));
        let head = other.find(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
        assert_eq!((head.kind, head.payload[0]), (HEADERS, 0x88), "the other connection");
    };
    served(1);
    let mut frames = Frames::connect(proxy.address, settings);
    attack(&mut frames);
    served(3);
    let code = frames.goodbye();
    served(5);
    code
}

/// Whether a test measures the memory of the process, which is that of all tests: others wait meanwhile. Once they did not, and on a
/// busy machine what the others held was taken for what an attack had brought about.
static MEASURED: RwLock<()> = RwLock::new(());

/// Held by a test that measures nothing.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MEASURED.read().unwrap_or_else(PoisonError::into_inner)
}

/// Held by a test that measures the memory.
fn alone() -> RwLockWriteGuard<'static, ()> {
    let alone = MEASURED.write().unwrap_or_else(PoisonError::into_inner);
    // What was the most before is forgotten (proc(5)).
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    alone
}

/// The process's memory at its largest since [`alone`], in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn h14_nothing_turns_into_another_request() {
    let _beside = beside_others();
    let (origin, proxy) = proxy();
    let mut tried = 0;
    let pseudo: [(&str, &[u8]); 4] = [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/")];
    let bad: [&[u8]; 8] =
        [b"/\r\nx: y", b"/ HTTP/1.1\r\nHost: b\r\n\r\nGET /", b"a b", b"/\n", b"/\0", b"/\x7f", b"", b"\rGET"];
    let mut heads: Vec<Vec<(&str, &[u8])>> = Vec::new();
    for at in 0..4 {
        for value in bad {
            let mut head = pseudo;
            head[at].1 = value;
            heads.push(head.to_vec());
        }
    }
    for path in [&b"x"[..], b"@b/", b":80/", b"b/", b"*", b"?x", b"http://b/", b"/\\x"] {
        let mut head = pseudo;
        head[3].1 = path;
        heads.push(head.to_vec());
    }
    for authority in [&b"u@a"[..], b"a/b", b"a?b", b"a#b", b"a:0", b"a:99999", b"a\\b", b"[::1", b"a,b"] {
        let mut head = pseudo;
        head[2].1 = authority;
        heads.push(head.to_vec());
    }
    let more: [(&str, &[u8]); 24] = [
        ("host", b"b"),
        ("transfer-encoding", b"chunked"),
        ("transfer_encoding", b"chunked"),
        ("connection", b"x"),
        ("keep-alive", b"1"),
        ("proxy-connection", b"close"),
        ("upgrade", b"h2c"),
        ("te", b"gzip"),
        ("te", b"trailers, deflate"),
        ("content-length", b"5"),
        ("content-length", b"+0"),
        ("content-length", b"0, 0"),
        ("content-length", b""),
        ("X", b"y"),
        ("x y", b"z"),
        ("x:", b"z"),
        ("x\r\ny", b"z"),
        ("", b"z"),
        ("x", b"y\r\nz: 1"),
        ("x", b"y\0"),
        ("x", b" y"),
        ("x", b"y "),
        (":path", b"/x"),
        (":status", b"200"),
    ];
    for field in more {
        heads.push(fields("/", &[field]));
    }
    for head in &heads {
        let mut frames = Frames::connect(proxy.address, &[]);
        frames.get(1, head);
        let answer = frames.find(&[HEADERS, RST_STREAM, GOAWAY]).expect("an answer");
        let refused = answer.kind != HEADERS || answer.payload[0] == STATUS_400;
        assert!(refused, "{head:?}: {answer:?}");
        tried += 1;
    }
    assert_eq!((tried, origin.count()), (heads.len(), 0));
    println!("{tried} heads refused");
    // Each of them alone is to blame: what they were made of is served.
    let mut frames = Frames::connect(proxy.address, &[]);
    frames.get(1, &pseudo);
    assert_eq!(frames.find(&[HEADERS]).unwrap().payload[0], 0x88);
}

/// DATA past what Content-Length announced: the origin got a whole request before the stream was reset, and carried it out. The
/// bytes that complete a request wait for the stream's end, and one that announces none waits before it is sent at all.
#[test]
fn h14_content_past_its_length() {
    let _beside = beside_others();
    let (origin, proxy) = proxy();
    let mut frames = Frames::connect(proxy.address, &[]);
    let mut asked = Vec::new();
    // Method, Content-Length, and the frames of DATA.
    type Attack<'a> = (&'a str, &'a [u8], &'a [&'a [u8]]);
    let attacks: [Attack<'_>; 4] = [
        ("POST", b"0", &[b"", b"x"]),
        ("GET", b"0", &[b"x"]),
        ("POST", b"5", &[b"hello", b"x"]),
        ("POST", b"5", &[b"hell", b"o", b"", b"xxxx"]),
    ];
    for (number, (method, length, pieces)) in attacks.iter().enumerate() {
        let (stream, probe) = (number as u32 * 4 + 1, format!("/probe{number}"));
        let mut head = fields("/attack", &[("content-length", length)]);
        head[0].1 = method.as_bytes();
        frames.send(HEADERS, END_HEADERS, stream, &block(&head));
        let (last, before) = pieces.split_last().unwrap();
        for piece in before {
            frames.send(DATA, 0, stream, piece);
        }
        // Behind this the origin would have had the other.
        frames.get(stream + 2, &fields(&probe, &[]));
        let answer = frames.find(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
        assert_eq!((answer.kind, answer.stream, answer.payload[0]), (HEADERS, stream + 2, 0x88), "{number}");
        frames.send(DATA, END_STREAM, stream, last);
        let end = frames.find(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
        assert_eq!((end.kind, end.stream), (RST_STREAM, stream), "{number}: {end:?}");
        assert_eq!(end.code(), PROTOCOL_ERROR, "{number}");
        asked.push(probe);
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(origin.paths(), asked, "the origin heard a request that was malformed");

    // What is longer by nothing is in order, with trailers too.
    let mut whole = |stream: u32, length: &[u8], pieces: &[&[u8]], trailers: bool| {
        let mut head = fields("/whole", &[("content-length", length)]);
        head[0].1 = b"POST";
        frames.send(HEADERS, END_HEADERS, stream, &block(&head));
        let (last, before) = pieces.split_last().unwrap();
        for piece in before {
            frames.send(DATA, 0, stream, piece);
        }
        frames.send(DATA, if trailers { 0 } else { END_STREAM }, stream, last);
        if trailers {
            frames.send(HEADERS, WHOLE, stream, &block(&[("x-trailer", &b"y"[..])]));
        }
        let answer = frames.find(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
        assert_eq!((answer.kind, answer.stream, answer.payload[0]), (HEADERS, stream, 0x88), "{answer:?}");
    };
    whole(101, b"0", &[b""], false);
    whole(103, b"5", &[b"hel", b"lo"], false);
    whole(105, b"5", &[b"hello", b""], false);
    whole(107, b"5", &[b"hello"], true);
    let bodies: Vec<_> = origin.requests().split_off(asked.len()).into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [&b""[..], b"hello", b"hello", b"hello"]);
}

/// A client that announces nothing, and neither sends nor ends, is told so in its time.
#[test]
fn h14_a_stream_that_does_not_end() {
    let _beside = beside_others();
    let (origin, proxy) = proxy();
    let mut frames = Frames::connect(proxy.address, &[]);
    frames.send(HEADERS, END_HEADERS, 1, &block(&fields("/silent", &[("content-length", b"0")])));
    let answer = frames.find(&[HEADERS, RST_STREAM, GOAWAY]).unwrap();
    // 408 has no number in the static table: a literal whose name is `:status` (RFC 7541 A).
    assert_eq!((answer.kind, &answer.payload[..1]), (HEADERS, &[0x48][..]), "{answer:?}");
    assert_eq!(origin.count(), 0);
}

#[test]
fn t1_rapid_reset() {
    let _beside = beside_others();
    let (origin, proxy) = proxy();
    let code = calmed(&proxy, &[], |frames| {
        for number in 0..5000 {
            let stream = number * 2 + 1;
            frames.get(stream, &fields(&format!("/slow/{stream}"), &[]));
            if !frames.send(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()) {
                return;
            }
        }
    });
    assert_eq!(code, Some(CALM));
    // A hundred at once, and no more than the resets that were let pass.
    assert!(origin.count() <= 300, "{} requests got through", origin.count());
}

#[test]
fn t2_resets_that_the_client_forces() {
    let _beside = beside_others();
    let (origin, proxy) = proxy();
    let code = calmed(&proxy, &[], |frames| {
        for number in 0..5000 {
            let stream = number * 2 + 1;
            frames.get(stream, &fields(&format!("/slow/{stream}"), &[]));
            // More than a window can hold is the stream's error (RFC 9113 6.9.1).
            if !frames.send(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]) {
                return;
            }
        }
    });
    assert_eq!(code, Some(CALM));
    assert!(origin.count() <= 210, "{} requests got through", origin.count());
}

#[test]
fn t3_continuations_without_end() {
    let _alone = alone();
    let (origin, proxy) = proxy();
    let before = peak_kib();
    let code = calmed(&proxy, &[], |frames| {
        frames.send(HEADERS, END_STREAM, 1, &block(&fields("/", &[])));
        for _ in 0..100_000 {
            if !frames.send(CONTINUATION, 0, 1, &block(&[("x", &[b'y'; 1000])])) {
                return;
            }
        }
    });
    assert_eq!((code, origin.count()), (Some(CALM), 1), "the other connection's request alone");
    assert!(peak_kib().saturating_sub(before) < 16 * 1024, "{} KiB more", peak_kib().saturating_sub(before));
    // The same, one by one without filling a frame, or none at all: the head's time is limited.
    let code = calmed(&proxy, &[], |frames| {
        frames.send(HEADERS, END_STREAM, 1, &block(&fields("/", &[])));
        std::thread::sleep(Duration::from_millis(1500));
    });
    assert_eq!(code, Some(CALM));
}

#[test]
fn t4_a_block_that_unpacks_a_thousandfold() {
    let _alone = alone();
    let (origin, proxy) = proxy();
    let before = peak_kib();
    let code = calmed(&proxy, &[], |frames| {
        let mut head = block(&fields("/", &[]));
        // A literal that is indexed, and then ten thousand times its index (RFC 7541 6.2.1, 6.1): 40 MB.
        head.push(0x40);
        string(&mut head, b"x");
        string(&mut head, &[b'y'; 4000]);
        head.extend_from_slice(&[0x80 | 62; 10_000]);
        frames.send(HEADERS, WHOLE, 1, &head);
    });
    assert_eq!((code, origin.count()), (Some(CALM), 1));
    assert!(peak_kib().saturating_sub(before) < 16 * 1024, "{} KiB more", peak_kib().saturating_sub(before));
}

#[test]
fn t5_pings_settings_and_other_frames() {
    let _beside = beside_others();
    let (_origin, proxy) = proxy();
    let frames: [(u8, Vec<u8>, u32); 5] = [
        (PING, vec![0; 8], 0),
        (SETTINGS, vec![], 0),
        (WINDOW_UPDATE, vec![0, 0, 0, 1], 0),
        (PRIORITY, vec![0, 0, 0, 0, 1], 3),
        (0xfa, vec![], 1),
    ];
    for (kind, payload, stream) in frames {
        let code = calmed(&proxy, &[], |frames| {
            for _ in 0..200_000 {
                if !frames.send(kind, 0, stream, &payload) {
                    return;
                }
            }
        });
        assert_eq!(code, Some(CALM), "frames of kind {kind}");
    }
}

#[test]
fn t5_a_window_held_at_nothing() {
    let _beside = beside_others();
    let (origin, proxy) = proxy();
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    let mut frames = Frames::connect(proxy.address, &[(4, 0)]);
    for stream in [1, 3, 5] {
        frames.get(stream, &fields("/large", &[]));
    }
    let mut reset = 0;
    while reset < 3 {
        let frame = frames.read().expect("the connection goes on");
        assert_ne!(frame.kind, DATA);
        if frame.kind == RST_STREAM {
            assert_eq!(frame.code(), CANCEL);
            reset += 1;
        }
    }
    assert_eq!(origin.count(), 1);
    // A client that opens its window is served on the same connection.
    frames.get(7, &fields("/other", &[]));
    frames.send(WINDOW_UPDATE, 0, 7, &[0, 0, 1, 0]);
    let data = loop {
        let frame = frames.find(&[DATA, GOAWAY]).unwrap();
        if !frame.payload.is_empty() {
            break frame;
        }
    };
    assert_eq!((data.kind, data.stream, data.payload.len()), (DATA, 7, 5));
}

#[test]
fn t6_content_in_crumbs() {
    let _beside = beside_others();
    for (payload, name) in [(&b"x"[..], "one byte each"), (b"", "empty")] {
        let (_origin, proxy) = proxy();
        let mut sent = 0;
        let code = calmed(&proxy, &[], |frames| {
            let mut head = fields("/", &[]);
            head[0].1 = b"POST";
            frames.send(HEADERS, END_HEADERS, 1, &block(&head));
            while sent < 200_000 && frames.send(DATA, 0, 1, payload) {
                sent += 1;
            }
        });
        assert_eq!(code, Some(CALM), "{name}");
    }
}
