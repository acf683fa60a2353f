//! Sentences of RFC 9111 and RFC 9110 that only a whole cache can show, each named in `docs/http`, in forward and in
//! reverse mode.

use std::io::Write;
use std::net::TcpStream;

use crate::support::both::in_both;
use crate::support::{Request, reply};

fn not_modified(stream: &mut TcpStream, fields: &str) -> bool {
    stream.write_all(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").as_bytes()).is_ok()
}

/// RFC 9111 4: no answer to an unsafe method before the origin's, however fresh an answer to GET is stored.
#[test]
fn unsafe_methods_are_written_through() {
    in_both(
        |number, request, stream| {
            let fields = format!("Cache-Control: max-age=60\r\nX-Number: {number}\r\n");
            reply(stream, request, 200, &fields, request.method.as_bytes())
        },
        |both| {
            for (number, method) in ["PUT", "POST", "DELETE", "PATCH", "BREW", "OPTIONS"].into_iter().enumerate() {
                both.get("/", "");
                both.settled(1);
                assert!(both.get("/", "").is_hit());
                let answer = both.ask(method, "/", "Content-Length: 0\r\n");
                assert_eq!((answer.is_hit(), answer.text().as_str()), (false, method));
                assert_eq!(both.origin.requests().last().unwrap().method, method);
                if method == "OPTIONS" {
                    assert!(both.get("/", "").is_hit(), "a safe method changes nothing");
                } else {
                    assert_eq!(both.origin.count(), 2 * (number + 1), "{method}");
                }
            }
        },
    );
}

/// RFC 9111 4 and 4.1: one URL, whose answers vary, then do not, then vary again. What came last decides.
#[test]
fn the_newest_answer_counts_whether_it_varies_or_not() {
    in_both(
        |number, request, stream| {
            let vary = if number == 3 { "" } else { "Vary: Accept-Language\r\n" };
            let fields = format!("Cache-Control: max-age=60\r\n{vary}");
            reply(stream, request, 200, &fields, format!("{number}").as_bytes())
        },
        |both| {
            let ask = |language: &str, more: &str| {
                let answer = both.get("/", &format!("Accept-Language: {language}\r\n{more}"));
                (answer.text(), answer.is_hit())
            };
            let reload = "Cache-Control: no-cache\r\n";
            assert_eq!(ask("en", ""), ("1".into(), false));
            assert_eq!(ask("de", ""), ("2".into(), false));
            assert_eq!(ask("en", ""), ("1".into(), true));
            assert_eq!(ask("en", reload), ("3".into(), false), "it does not vary any more");
            assert_eq!(ask("en", ""), ("3".into(), true));
            assert_eq!(ask("de", ""), ("3".into(), true), "so the older variant is none");
            assert_eq!(ask("de", reload), ("4".into(), false), "it varies again");
            assert_eq!(ask("de", ""), ("4".into(), true));
            assert_eq!(ask("en", ""), ("5".into(), false));
        },
    );
}

/// RFC 9111 5.2.2.4: `no-cache` is asked for each time; with fields, all but these is served.
#[test]
fn no_cache_is_validated_each_time() {
    in_both(
        |_, request, stream| match (request.path.as_str(), request.field("if-none-match")) {
            ("/all", None) => {
                reply(stream, request, 200, "Cache-Control: no-cache, max-age=60\r\nETag: \"a\"\r\n", b"x")
            }
            ("/all", Some(_)) => not_modified(stream, "Cache-Control: no-cache, max-age=60\r\nETag: \"a\"\r\n"),
            _ => {
                let fields = "Cache-Control: max-age=60, no-cache=\"X-Mine\"\r\nX-Mine: 1\r\nX-All: 1\r\n";
                reply(stream, request, 200, fields, b"x")
            }
        },
        |both| {
            both.get("/all", "");
            both.settled(1);
            for asked in 2..5 {
                let answer = both.get("/all", "Cache-Control: max-stale\r\n");
                assert_eq!((answer.text().as_str(), both.origin.count()), ("x", asked));
                assert_eq!(both.origin.requests()[asked - 1].field("if-none-match").unwrap(), "\"a\"");
            }
            assert_eq!(both.get("/fields", "").field("x-mine"), "1");
            both.settled(2);
            let hit = both.get("/fields", "");
            assert!(hit.is_hit());
            assert_eq!((hit.field("x-mine").as_str(), hit.field("x-all").as_str()), ("", "1"));
        },
    );
}

/// RFC 9111 4.3.2: the cache asked by its own tag, and the client has another: a 304 for the one is a 200 for the other.
#[test]
fn a_304_about_what_the_client_has_not() {
    in_both(
        |number, request, stream| {
            let fields = "Cache-Control: max-age=0\r\nETag: \"a\"\r\n";
            match request.field("if-none-match") {
                None if number == 1 => reply(stream, request, 200, fields, b"body"),
                Some(tag) if tag == "\"a\"" => not_modified(stream, fields),
                other => panic!("{other:?}"),
            }
        },
        |both| {
            both.get("/", "");
            both.settled(1);
            let answer = both.get("/", "If-None-Match: \"b\"\r\n");
            assert_eq!((answer.status, answer.text().as_str()), (200, "body"));
            assert_eq!(both.get("/", "If-None-Match: \"b\", \"a\"\r\n").status, 304);
            assert_eq!(both.origin.count(), 3);
        },
    );
}

/// RFC 9111 4.3.2, RFC 9110 13.2.1 and 15.4.5: where nothing is stored, a client's conditions go to the origin, its 304
/// to the client, and a 200 into the cache. They were once taken out, so that every reload of a page that may not be
/// stored brought all of it again.
#[test]
fn conditions_on_what_is_not_stored_are_the_origins() {
    let answer = |request: &Request, stream: &mut TcpStream| {
        let fields = match request.path.as_str() {
            "/private" => "Cache-Control: private\r\nETag: \"a\"\r\n",
            _ => "Cache-Control: max-age=60\r\nETag: \"a\"\r\n",
        };
        match request.field("if-none-match").or(request.field("if-modified-since")) {
            Some(asked) if asked == "\"a\"" || asked.ends_with("GMT") => not_modified(stream, fields),
            _ => reply(stream, request, 200, fields, b"body"),
        }
    };
    in_both(
        move |_, request, stream| answer(request, stream),
        |both| {
            let (same, other) = ("If-None-Match: \"a\"\r\n", "If-None-Match: \"b\"\r\n");
            for path in ["/private", "/shared"] {
                for fields in [same, "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"] {
                    let answer = both.get(path, fields);
                    assert_eq!((answer.status, answer.is_hit()), (304, false), "{path} {fields}");
                    assert_eq!(answer.field("etag"), "\"a\"");
                }
            }
            assert_eq!(both.proxy.store.stats().live_objects, 0, "a 304 alone is nothing to store");
            let changed = both.get("/shared", other);
            assert_eq!((changed.status, changed.text().as_str()), (200, "body"));
            both.settled(1);
            assert!(both.get("/shared", same).is_hit(), "now it is the cache's to judge");
            assert_eq!(both.origin.count(), 5);
        },
    );
}

/// RFC 9111 4.3.3: an error in answer to a validation goes to the client, unless the stored answer may stand in for it.
/// It takes the place of nothing.
#[test]
fn a_validation_that_fails() {
    for (more, status) in [("", 503), (", stale-if-error=600", 200)] {
        in_both(
            move |number, request, stream| {
                let fields = format!("Cache-Control: max-age=0{more}\r\nAge: 90\r\nETag: \"a\"\r\n");
                match (number, request.field("if-none-match")) {
                    (1, _) => reply(stream, request, 200, &fields, b"body"),
                    (2, Some(_)) => reply(stream, request, 503, "", b"broken"),
                    (_, Some(_)) => not_modified(stream, &fields),
                    (_, None) => panic!("what was stored is gone"),
                }
            },
            |both| {
                both.get("/", "");
                both.settled(1);
                let answer = both.get("/", "");
                assert_eq!((answer.status, answer.text() == "body"), (status, status == 200), "{more}");
                // What is stale says so (RFC 5861 4).
                let stale = answer.field("cache-status").contains("fwd=stale; fwd-status=503; ttl=-")
                    && answer.field("age").starts_with('9');
                assert_eq!(stale, status == 200, "{}", answer.head);
                assert_eq!(both.get("/", "").text(), "body", "{more}");
                assert_eq!(both.origin.count(), 3);
            },
        );
    }
}

/// RFC 9110 15.4.5 and 15.3.7: a 304 or a 206 from the cache has these fields, where the 200 would have them.
#[test]
fn a_304_and_a_206_say_what_the_200_would() {
    const KEPT: [(&str, &str); 6] = [
        ("cache-control", "max-age=60"),
        ("content-location", "/en"),
        ("date", "Tue, 15 Nov 2072 08:12:31 GMT"),
        ("etag", "\"a\""),
        ("expires", "Tue, 15 Nov 2072 09:12:31 GMT"),
        ("vary", "Accept"),
    ];
    in_both(
        |_, request, stream| {
            let fields: String = KEPT.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            reply(
                stream,
                request,
                200,
                &format!("{fields}Content-Type: text/x\r\nContent-Encoding: x\r\n"),
                b"0123456789",
            )
        },
        |both| {
            both.get("/", "");
            both.settled(2);
            for (asked, status, length, content_type) in [
                ("If-None-Match: \"a\"\r\n", 304, "", ""),
                ("Range: bytes=2-4\r\n", 206, "3", "text/x"),
                ("Range: bytes=2-4\r\nIf-Range: \"a\"\r\n", 206, "3", "text/x"),
                ("Range: bytes=20-\r\n", 416, "0", ""),
            ] {
                let answer = both.get("/", asked);
                assert_eq!((answer.status, answer.is_hit()), (status, true), "{asked}");
                for (name, value) in KEPT {
                    assert_eq!(answer.field(name), value, "{asked}");
                }
                assert_eq!(
                    (answer.field("content-length").as_str(), answer.field("content-type").as_str()),
                    (length, content_type)
                );
                let coding = if content_type.is_empty() { "" } else { "x" };
                assert_eq!(answer.field("content-encoding"), coding, "{asked}");
                let range = match status {
                    206 => "bytes 2-4/10",
                    416 => "bytes */10",
                    _ => "",
                };
                assert_eq!(answer.field("content-range"), range);
            }
            // A Content-Range means nothing in a GET (RFC 9110 14.4).
            let whole = both.get("/", "Content-Range: bytes 2-4/10\r\n");
            assert_eq!((whole.status, whole.body.len(), whole.is_hit()), (200, 10, true));
            assert_eq!(both.origin.count(), 1);
        },
    );
}
