//! HTTP's rules for caches as clients and origins see them, in forward and in reverse mode. `docs/http.md` names each.

use std::time::{Duration, SystemTime};

use crate::support::both::in_both;
use crate::support::{eventually, reply};

fn date(seconds_ago: u64) -> String {
    httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(seconds_ago))
}

#[test]
fn max_stale_and_min_fresh() {
    in_both(
        |_, request, stream| {
            reply(stream, request, 200, "Cache-Control: max-age=60\r\nAge: 90\r\nETag: \"a\"\r\n", b"old")
        },
        |both| {
            both.get("/", "");
            both.settled(1);
            assert!(both.get("/", "Cache-Control: max-stale\r\n").is_hit(), "any staleness");
            assert!(both.get("/", "Cache-Control: max-stale=60\r\n").is_hit());
            assert!(!both.get("/", "Cache-Control: max-stale=10\r\n").is_hit());
            assert!(!both.get("/", "").is_hit());
        },
    );
    in_both(
        |_, request, stream| reply(stream, request, 200, "Cache-Control: max-age=60\r\n", b"new"),
        |both| {
            both.get("/", "");
            both.settled(1);
            assert!(both.get("/", "Cache-Control: min-fresh=30\r\n").is_hit());
            assert!(!both.get("/", "Cache-Control: min-fresh=100\r\n").is_hit());
        },
    );
}

#[test]
fn must_revalidate_forbids_what_is_stale() {
    in_both(
        |_, request, stream| {
            let fields = "Cache-Control: max-age=60, must-revalidate\r\nAge: 90\r\nETag: \"a\"\r\n";
            reply(stream, request, 200, fields, b"old")
        },
        |both| {
            both.get("/", "");
            both.settled(1);
            assert!(!both.get("/", "Cache-Control: max-stale\r\n").is_hit());
        },
    );
}

#[test]
fn stale_while_revalidate() {
    in_both(
        |number, request, stream| {
            let age = if number == 1 { 90 } else { 0 };
            let fields = format!("Cache-Control: max-age=60, stale-while-revalidate=1000\r\nAge: {age}\r\n");
            reply(stream, request, 200, &fields, if number == 1 { b"first" } else { b"later" })
        },
        |both| {
            both.get("/", "");
            both.settled(1);
            let stale = both.get("/", "");
            assert!(stale.is_hit() && stale.text() == "first", "{}", stale.head);
            eventually("it is validated behind that", || both.get("/", "").text() == "later");
            assert_eq!(both.origin.count(), 2);
        },
    );
}

#[test]
fn what_is_said_to_content_networks() {
    in_both(
        |_, request, stream| {
            reply(stream, request, 200, "CDN-Cache-Control: max-age=60\r\nCache-Control: no-store\r\n", b"x")
        },
        |both| {
            both.get("/", "");
            std::thread::sleep(Duration::from_millis(50));
            // A reverse proxy is one; a forward proxy is none.
            assert_eq!(both.get("/", "").is_hit(), both.reverse);
        },
    );
}

#[test]
fn fields_that_are_for_one_client() {
    in_both(
        |_, request, stream| {
            let fields = "Cache-Control: max-age=60, private=\"Set-Cookie\"\r\nSet-Cookie: me=1\r\nX-For: all\r\n";
            reply(stream, request, 200, fields, b"x")
        },
        |both| {
            let first = both.get("/", "");
            assert_eq!((first.field("set-cookie").as_str(), first.field("x-for").as_str()), ("me=1", "all"));
            both.settled(1);
            let second = both.get("/", "");
            assert!(second.is_hit());
            assert_eq!((second.field("set-cookie").as_str(), second.field("x-for").as_str()), ("", "all"));
        },
    );
}

#[test]
fn a_304_updates_what_is_stored() {
    in_both(
        |number, request, stream| match number {
            1 => reply(
                stream,
                request,
                200,
                "Cache-Control: max-age=0\r\nETag: \"a\"\r\nX-Old: 1\r\nX-New: 1\r\n",
                b"body",
            ),
            _ => {
                assert_eq!(request.field("if-none-match").unwrap(), "\"a\"");
                let head = "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nX-New: 2\r\n\
                            Content-Length: 999\r\nContent-Type: text/lies\r\n\r\n";
                std::io::Write::write_all(stream, head.as_bytes()).is_ok()
            }
        },
        |both| {
            both.get("/", "");
            both.settled(1);
            for hit in [false, true] {
                let answer = both.get("/", "");
                assert_eq!((answer.status, answer.text().as_str(), answer.is_hit()), (200, "body", hit));
                assert_eq!((answer.field("x-old").as_str(), answer.field("x-new").as_str()), ("1", "2"));
                assert_eq!(answer.field("content-length"), "4", "no 304 changes bytes");
            }
        },
    );
}

#[test]
fn a_304_that_turns_private_is_for_its_client_alone() {
    in_both(
        |number, request, stream| match number {
            2 => std::io::Write::write_all(
                stream,
                b"HTTP/1.1 304 Not Modified\r\nCache-Control: private, max-age=60\r\nETag: \"a\"\r\n\r\n",
            )
            .is_ok(),
            _ => reply(stream, request, 200, "Cache-Control: max-age=0\r\nETag: \"a\"\r\n", b"body"),
        },
        |both| {
            both.get("/", "");
            both.settled(1);
            assert_eq!(both.get("/", "").text(), "body");
            assert!(!both.get("/", "").is_hit());
            assert_eq!(both.origin.count(), 3);
            assert_eq!(both.origin.requests()[2].field("if-none-match"), None, "it was forgotten");
        },
    );
}

#[test]
fn conditions_of_clients() {
    let modified = date(100_000);
    let (before, given) = (date(200_000), modified.clone());
    in_both(
        move |_, request, stream| {
            let fields = format!("Cache-Control: max-age=60\r\nETag: W/\"a\"\r\nLast-Modified: {given}\r\n");
            reply(stream, request, 200, &fields, b"body")
        },
        |both| {
            both.get("/", "");
            both.settled(1);
            for (fields, status) in [
                ("If-None-Match: \"a\"\r\n".to_owned(), 304),
                ("If-None-Match: \"b\", W/\"a\"\r\n".to_owned(), 304),
                ("If-None-Match: *\r\n".to_owned(), 304),
                ("If-None-Match: \"b\"\r\n".to_owned(), 200),
                (format!("If-None-Match: \"b\"\r\nIf-Modified-Since: {modified}\r\n"), 200),
                (format!("If-Modified-Since: {modified}\r\n"), 304),
                (format!("If-Modified-Since: {before}\r\n"), 200),
                ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
            ] {
                let answer = both.get("/", &fields);
                assert_eq!((answer.status, answer.is_hit()), (status, true), "{fields}");
            }
            assert_eq!(both.origin.count(), 1);
            assert!(!both.get("/", "If-Match: \"a\"\r\n").is_hit(), "the origin's to judge");
            assert_eq!(both.origin.requests()[1].field("if-match").unwrap(), "\"a\"");
        },
    );
}

#[test]
fn an_unsafe_method_forgets_what_it_changed() {
    in_both(
        |_, request, stream| {
            let host = request.field("host").unwrap();
            let fields = match request.method.as_str() {
                "POST" => {
                    format!("Location: http://{host}/list?x=1\r\nContent-Location: http://other.example/kept\r\n")
                }
                _ => "Cache-Control: max-age=60\r\n".to_owned(),
            };
            reply(stream, request, 200, &fields, b"x")
        },
        |both| {
            for path in ["/form", "/list?x=1", "/kept"] {
                both.get(path, "");
            }
            both.settled(3);
            both.ask("POST", "/form", "Content-Length: 0\r\n");
            for (path, hit) in [("/form", false), ("/list?x=1", false), ("/kept", true)] {
                assert_eq!(both.get(path, "").is_hit(), hit, "{path}");
            }
        },
    );
}

#[test]
fn a_head_that_differs_makes_stale() {
    in_both(
        |_, request, stream| {
            let tag = if request.method == "HEAD" { "b" } else { "a" };
            let fields = format!("Cache-Control: max-age=60\r\nETag: \"{tag}\"\r\n");
            reply(stream, request, 200, &fields, b"x")
        },
        |both| {
            both.get("/", "");
            both.settled(1);
            assert!(both.ask("HEAD", "/", "").is_hit());
            assert!(!both.ask("HEAD", "/", "Cache-Control: no-cache\r\n").is_hit());
            let again = both.get("/", "");
            assert!(!again.is_hit(), "{}", again.head);
            assert_eq!(both.origin.requests()[2].field("if-none-match").unwrap(), "\"a\"", "validated, not forgotten");
        },
    );
}

#[test]
fn variants_leave_one_by_one() {
    in_both(
        |_, request, stream| {
            let language = request.field("accept-language").unwrap_or_default();
            reply(stream, request, 200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", language.as_bytes())
        },
        |both| {
            let in_language = |language: &str| both.get("/", &format!("Accept-Language: {language}\r\n"));
            for language in ["en", "sw", "de"] {
                assert_eq!(in_language(language).text(), language);
            }
            // The family, and three variants.
            both.settled(4);
            assert!(["en", "sw", "de"].iter().all(|language| in_language(language).is_hit()));
            // Two ways to write one wish are one variant.
            assert!(in_language("de ; q=1.0").is_hit());
        },
    );
}

/// The rest of an answer that the origin broke off is taken up where a strong tag says that it is the same.
#[test]
fn an_answer_that_breaks_off_is_taken_up() {
    const BODY: &[u8] = b"0123456789";
    for (tag, whole) in [("\"a\"", true), ("W/\"a\"", false)] {
        in_both(
            move |number, request, stream| {
                let fields = format!("Cache-Control: max-age=60\r\nETag: {tag}\r\n");
                if number == 1 {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n{fields}\r\n01234");
                    std::io::Write::write_all(stream, head.as_bytes()).unwrap();
                    return false;
                }
                assert_eq!(request.field("if-range").as_deref(), Some(tag));
                // From where the client is: it may have got the first half, or the cut may have come before it looked.
                let from = match request.field("range").as_deref() {
                    Some("bytes=5-9") => 5,
                    Some("bytes=0-9") => 0,
                    other => panic!("{other:?}"),
                };
                let part = format!("{fields}Content-Range: bytes {from}-9/10\r\n");
                reply(stream, request, 206, &part, &BODY[from..])
            },
            |both| {
                let answer = both.get("/", "");
                assert_eq!((answer.whole, answer.body == BODY), (whole, whole), "{tag}: {}", answer.text());
                assert_eq!(both.origin.count(), 1 + usize::from(whole));
                assert_eq!(both.proxy.store.stats().live_objects, 0, "nothing half is stored");
            },
        );
    }
}
