//! Sentences of RFC 9110, RFC 9111 and RFC 9112 on what a proxy passes on, and on what it says itself; each is named in
//! `docs/http`.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;

use crate::support::both::in_both;
use crate::support::{Client, Origin, Proxy, reply};
use tinaja_testkit::port::free_port;

/// All lines of a field in a head, in their order.
fn lines<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

/// The names of all fields in a head.
fn names(head: &str) -> BTreeSet<String> {
    head.lines().skip(1).filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_ascii_lowercase()).collect()
}

/// RFC 9111 5.2, RFC 9110 5.3, 11.6.1, 11.6.2 and 7.7, RFC 9213 2.2: fields that mean something to this cache, or nothing,
/// or something to others, come through untouched and in their order, both ways, from the origin and from the cache.
#[test]
fn what_a_message_says_passes_as_it_came() {
    const ANSWER: [(&str, &[&str]); 10] = [
        ("cache-control", &["max-age=60, odd=\"a, b\", no-transform", "immutable"]),
        ("cdn-cache-control", &["max-age=90;x"]),
        ("other-cache-control", &["no-store"]),
        ("www-authenticate", &["Basic realm=\"a, b\"", "Odd x=y,z"]),
        ("warning", &["199 - \"x\""]),
        ("x-order", &["2", "1", "3, 0"]),
        ("x-empty", &[""]),
        ("content-encoding", &["gzip"]),
        ("link", &["</a>; rel=x", "</b>; rel=y"]),
        ("cache-status", &["Farther; hit"]),
    ];
    // Max-Forwards means nothing to GET (RFC 9110 7.6.2).
    const REQUEST: [(&str, &[&str]); 6] = [
        ("max-forwards", &["0"]),
        ("cache-control", &["max-age=9999, odd=1", "no-transform"]),
        ("authorization", &["Odd a=\"b, c\""]),
        ("x-order", &["2", "1", "3, 0"]),
        ("accept", &["a/b;q=0.1", "c/d"]),
        ("range-odd", &["items=1-2"]),
    ];
    let text = |fields: &[(&str, &[&str])]| -> String {
        fields
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |value| format!("{name}: {value}\r\n")))
            .collect()
    };
    let answer = text(&ANSWER);
    in_both(
        move |_, request, stream| {
            reply(stream, request, 200, &format!("{answer}ETag: \"a\"\r\n"), b"\x1f\x8b not gzip")
        },
        |both| {
            // With its Authorization it is for one client; without, for all.
            for (fields, hit) in [(text(&REQUEST), false), (String::new(), false), (String::new(), true)] {
                let answer = both.get("/", &fields);
                assert_eq!((answer.is_hit(), answer.body.as_slice()), (hit, &b"\x1f\x8b not gzip"[..]));
                for (name, values) in ANSWER {
                    let found = lines(&answer.head, name);
                    assert_eq!(found.get(..values.len()), Some(values), "{name}: {}", answer.head);
                    // The chain of caches that an answer came through gets longer, and loses nobody (RFC 9211 2).
                    assert_eq!(found.len() - values.len(), usize::from(name == "cache-status"), "{name}");
                }
                both.settled(u64::from(!hit && fields.is_empty()));
            }
            let asked = &both.origin.requests()[0];
            for (name, values) in REQUEST {
                assert_eq!(lines(&asked.head, name), values, "{}", asked.head);
            }
            // Nothing is added that nobody speaks of, to no message (RFC 9110 9.3.7, 12.5.5).
            let own: &[&str] = if both.reverse { &["x-forwarded-for", "x-forwarded-proto"] } else { &[] };
            let known = REQUEST.iter().map(|(name, _)| *name).chain(["host", "via"]).chain(own.iter().copied());
            assert_eq!(names(&asked.head), known.map(str::to_owned).collect());
            let hit = both.get("/", "");
            let added = ["etag", "content-length", "date", "age", "via", "connection"];
            let known = ANSWER.iter().map(|(name, _)| *name).chain(added);
            assert_eq!(names(&hit.head), known.map(str::to_owned).collect());
        },
    );
}

/// RFC 9110 6.6.1: whoever gets an answer without a Date notes when it came, for the client and for the store.
#[test]
fn answers_without_a_date_get_one() {
    in_both(
        |_, request, stream| reply(stream, request, 200, "Cache-Control: max-age=60\r\n", b"x"),
        |both| {
            let first = both.get("/", "");
            both.settled(1);
            let hit = both.get("/", "");
            assert!(hit.is_hit());
            assert_eq!(hit.field("date"), first.field("date"));
            assert!(httpdate::parse_http_date(&hit.field("date")).is_ok(), "{}", hit.head);
        },
    );
}

/// RFC 9111 3.1 and RFC 9112 7.1.2: what stands behind a body is no field of its head, in no answer and at no origin.
#[test]
fn trailers_are_no_fields() {
    in_both(
        |_, request, stream| {
            assert_eq!(lines(&request.head, "x-end"), [""; 0]);
            let head =
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\nCache-Control: max-age=60\r\n\r\n";
            let body = "3\r\nabc\r\n0\r\nX-End: 1\r\nCache-Control: no-store\r\nETag: \"z\"\r\n\r\n";
            stream.write_all([head, body].concat().as_bytes()).is_ok()
        },
        |both| {
            for hit in [false, true] {
                let answer = both.get("/", "");
                assert_eq!((answer.is_hit(), answer.text().as_str()), (hit, "abc"));
                assert_eq!(lines(&answer.head, "cache-control"), ["max-age=60"]);
                assert_eq!(lines(&answer.head, "etag").len() + lines(&answer.head, "x-end").len(), 0);
                both.settled(1);
            }
        },
    );
}

/// RFC 9112 9.3 and appendix C.2.2: a proxy keeps no connection with a client of HTTP/1.0, for one behind it may have
/// passed Keep-Alive on without knowing it, and would wait for its end. Only a server may.
#[test]
fn old_clients_of_a_proxy_have_one_request_a_connection() {
    in_both(
        |_, request, stream| reply(stream, request, 200, "Cache-Control: max-age=60\r\n", b"x"),
        |both| {
            let (target, host) = if both.reverse {
                ("/".to_owned(), "www.example".to_owned())
            } else {
                (both.origin.url("/"), both.origin.address.to_string())
            };
            for (hit, keep) in [(false, "keep-alive"), (true, "keep-alive"), (true, "")] {
                let mut client = Client::connect(both.proxy.address);
                client.send(format!("GET {target} HTTP/1.0\r\nHost: {host}\r\nConnection: {keep}\r\n\r\n"));
                let answer = client.read("GET").unwrap();
                assert_eq!((answer.is_hit(), answer.text().as_str()), (hit, "x"));
                let kept = both.reverse && keep == "keep-alive";
                assert_eq!(answer.field("connection"), if kept { "keep-alive" } else { "close" });
                assert!(kept || client.is_closed());
                both.settled(1);
            }
        },
    );
}

/// RFC 9110 15.5.6 and 9.3.7, RFC 9211 2: what the proxy says itself has the fields that its status asks for, is not stored by
/// others, and claims nothing about a cache.
#[test]
fn what_the_proxy_says_itself() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "x");
    let (forward, reverse) = (Proxy::forward(), Proxy::reverse(&origin));
    let url = origin.url("/");
    for (proxy, head, status) in [
        (&forward, "GET / HTTP/1.1\r\nHost: a\r\n".to_owned(), 400),
        (&forward, format!("GET {url} HTTP/1.1\r\nHost: {}\r\nCache-Control: only-if-cached\r\n", origin.address), 504),
        (&forward, "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n".to_owned(), 403),
        (&forward, "GET http://127.0.0.3:8/ HTTP/1.1\r\nHost: 127.0.0.3:8\r\n".to_owned(), 403),
        (&reverse, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n".to_owned(), 405),
        (&reverse, "TRACE / HTTP/1.1\r\nHost: a\r\n".to_owned(), 501),
    ] {
        let mut client = proxy.client();
        client.send(format!("{head}\r\n"));
        let answer = client.read("GET").unwrap();
        assert_eq!(answer.status, status, "{head}");
        assert_eq!(answer.field("cache-control"), "no-store", "{head}");
        assert_eq!(answer.field("cache-status"), "", "{head}");
        assert_eq!(answer.field("allow").is_empty(), status != 405, "{head}");
        assert!(answer.text().contains(&status.to_string()), "it says why: {head}");
        assert!(client.is_closed(), "{head}");
    }
    // Nobody listens there; the port is allowed.
    let gone = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let failed = forward.get(&format!("http://{gone}/"));
    assert_eq!((failed.status, failed.field("cache-status").as_str()), (502, ""));
    let options = forward.request("OPTIONS", &url, "Max-Forwards: 0\r\n");
    assert_eq!((options.status, options.field("cache-status").as_str()), (200, ""));
    assert!(options.field("allow").contains("GET"), "{}", options.head);
    assert_eq!(origin.count(), 0);
}
