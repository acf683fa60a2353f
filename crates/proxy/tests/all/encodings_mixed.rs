//! Where forms, parts, tags, cookies and other rules meet. Each of these once went wrong: a form that could not be read was a miss, 304s named tags of other
//! bytes, a part could be put to the beginning of a form, pieces forgot whose cookie brought them, and key rules decided which forms clients get.

use std::sync::Arc;
use std::time::Duration;

use tinaja_clock::ManualClock;
use tinaja_proxy::key_rules::{KeyRule, KeyRules};

use crate::encodings::{ask, before, before_with, decoded, encoded, encoding, get, lasting, origin_of, text};
use crate::encodings_kept::over;
use crate::support::{Altered, Origin, Proxy, eventually, reply};

/// One that keeps parts as pieces, and fetches no whole behind them.
fn in_pieces(origin: &Origin) -> (Proxy, ManualClock) {
    before_with(origin, vec![encoding()], |config| config.limits.fill_range_below = 0)
}

const DATE: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

/// A form that is found and cannot be read once made its object a miss, though the text lay beside it: a client that asked for what is stored got 504.
#[test]
fn a_form_that_cannot_be_read_leaves_the_text() {
    let origin = lasting(6000, "");
    let proxy = over(Arc::new(Altered::losing_forms(0)), &origin);
    get(&proxy, "/", "gzip");
    eventually("the text and its form are stored", || proxy.store.stats().stored == 2);
    // One that is answered at once, and one with a condition.
    for condition in ["", "If-None-Match: \"other\"\r\n"] {
        let fields = format!("Accept-Encoding: gzip\r\nCache-Control: only-if-cached\r\n{condition}");
        let answer = ask(&proxy, "GET", "/", &fields);
        assert_eq!((answer.status, answer.field("content-encoding").as_str()), (200, ""), "{condition} {answer:?}");
        assert!(answer.is_hit() && answer.whole && answer.body == text(1), "{condition}");
    }
    assert_eq!(origin.count(), 1);
}

/// A client that has the beginning of a form, and only a date to say so, gets no part: whether all of the text is stored, some of it, or nothing.
#[test]
fn no_part_by_a_date_where_a_form_may_have_begun() {
    let origin = Origin::start(|request, stream| {
        let fields = format!(
            "Content-Type: text/plain\r\nCache-Control: max-age=60\r\nLast-Modified: {DATE}\r\nETag: \"one\"\r\n"
        );
        let body = text(1);
        match request.field("range").as_deref() {
            Some("bytes=10-19") => {
                let fields = format!("{fields}Content-Range: bytes 10-19/{}\r\n", body.len());
                reply(stream, request, 206, &fields, &body[10..20])
            }
            _ => reply(stream, request, 200, &fields, &body),
        }
    });
    let part = |proxy: &Proxy, path: &str, fields: &str| {
        ask(proxy, "GET", path, &format!("Range: bytes=10-19\r\nIf-Range: {fields}"))
    };
    for pieces in [false, true] {
        let (proxy, _) = in_pieces(&origin);
        if pieces {
            let piece = part(&proxy, "/", &format!("{DATE}\r\n"));
            assert_eq!((piece.status, &piece.body[..]), (206, &text(1)[10..20]));
        }
        for fields in [format!("{DATE}\r\nAccept-Encoding: gzip\r\n"), format!("{DATE}\r\nAccept-Encoding: *\r\n")] {
            let answer = part(&proxy, "/", &fields);
            assert_eq!(answer.status, 200, "{pieces} {fields}");
            assert!(decoded(&answer) == text(1), "{pieces} {fields}");
        }
        // Whoever takes no coding, or has the tag of the text, gets the part.
        for fields in [format!("{DATE}\r\n"), "\"one\"\r\nAccept-Encoding: gzip\r\n".to_owned()] {
            let answer = part(&proxy, "/", &fields);
            assert_eq!((answer.status, &answer.body[..]), (206, &text(1)[10..20]), "{pieces} {fields}");
        }
    }
}

/// A form's tag is for its client alone: an origin that is asked gets its own, and the 304 that it gives names the client's.
#[test]
fn the_origin_is_asked_with_its_own_tag() {
    let origin = Origin::start(|request, stream| match request.field("if-none-match").as_deref() {
        Some("W/\"one\"" | "\"two\", W/\"one\"") => reply(stream, request, 304, "ETag: \"one\"\r\n", b""),
        _ => {
            let fields = "Content-Type: text/plain\r\nCache-Control: no-store\r\nETag: \"one\"\r\n";
            reply(stream, request, 200, fields, &text(1))
        }
    });
    let (proxy, _) = before(&origin);
    for tag in ["W/\"one--gzip\"", "\"two\", W/\"one--br\""] {
        let answer = ask(&proxy, "GET", "/", &format!("Accept-Encoding: gzip, br\r\nIf-None-Match: {tag}\r\n"));
        let named = tag.split(", ").last().unwrap();
        assert_eq!((answer.status, answer.field("etag").as_str()), (304, named));
    }
    let other = ask(&proxy, "GET", "/", "Accept-Encoding: gzip\r\nIf-None-Match: W/\"two--gzip\"\r\n");
    assert_eq!((other.status, other.field("etag").as_str()), (200, "\"one\""));
    assert_eq!(origin.requests()[2].field("if-none-match").as_deref(), Some("W/\"two\""));
}

/// Pieces do not say with whose cookie they were fetched. What is completed from them was once encoded, if only the last request had none (BREACH).
#[test]
fn what_pieces_make_is_encoded_only_if_it_is_for_all() {
    let origin = Origin::start(|request, stream| {
        let public = if request.path == "/public" { "public, " } else { "" };
        let fields = format!("Content-Type: text/html\r\nETag: \"1\"\r\nCache-Control: {public}max-age=60\r\n");
        let body = text(1);
        match request.field("range").and_then(|range| range.strip_prefix("bytes=")?.split('-').next()?.parse().ok()) {
            Some(first) => {
                let last = if first == 0 { 9999 } else { body.len() - 1 };
                let fields = format!("{fields}Content-Range: bytes {first}-{last}/{}\r\n", body.len());
                reply(stream, request, 206, &fields, &body[first..=last])
            }
            None => reply(stream, request, 200, &fields, &body),
        }
    });
    let (proxy, _) = in_pieces(&origin);
    for path in ["/own", "/public"] {
        let part = ask(&proxy, "GET", path, "Cookie: session=1\r\nRange: bytes=0-9999\r\n");
        assert_eq!(part.status, 206);
        eventually("the piece is there", || {
            ask(&proxy, "GET", path, "Range: bytes=0-99\r\nCache-Control: only-if-cached\r\n").status == 206
        });
        let whole = get(&proxy, path, "gzip");
        assert!(whole.body == text(1), "{path}");
    }
    encoded(&proxy, "/public", "gzip", "gzip");
    for _ in 0..3 {
        let own = get(&proxy, "/own", "gzip");
        assert_eq!((own.field("content-encoding").as_str(), own.header("vary")), ("", None), "{own:?}");
    }
    // Nothing came twice.
    assert_eq!(origin.requests().iter().filter(|request| request.field("range").is_none()).count(), 0);
}

/// A 304 that says that the text varies by Accept-Encoding, as the 200 did not, once made it forgotten, though this does not count where it is stored.
#[test]
fn a_validation_may_add_accept_encoding_to_vary() {
    let origin = Origin::start(|request, stream| {
        let fields = "Content-Type: text/css\r\nCache-Control: max-age=60\r\nETag: \"one\"\r\n";
        match request.field("if-none-match") {
            Some(_) => reply(stream, request, 304, &format!("{fields}Vary: Accept-Encoding\r\n"), b""),
            None => reply(stream, request, 200, fields, &text(1)),
        }
    });
    let (proxy, hand) = before(&origin);
    get(&proxy, "/", "gzip");
    encoded(&proxy, "/", "gzip", "gzip");
    hand.advance(Duration::from_secs(61));
    assert_eq!(get(&proxy, "/", "gzip").field("content-encoding"), "gzip");
    let hit = get(&proxy, "/", "gzip");
    assert!(hit.is_hit() && hit.field("content-encoding") == "gzip" && decoded(&hit) == text(1), "{hit:?}");
    assert_eq!(origin.count(), 2);
}

/// A key rule that folds Accept-Encoding into what the origin has is not about forms: these are chosen by what the client said.
#[test]
fn key_rules_do_not_choose_forms() {
    for rule in [
        KeyRule { encodings: Some(vec!["deflate".into()]), ..KeyRule::default() },
        KeyRule { drop_fields: vec!["accept-encoding".parse().unwrap()], ..KeyRule::default() },
    ] {
        let origin = origin_of("");
        let (proxy, _) = before_with(&origin, vec![encoding()], |config| {
            config.listeners[0].key_rules = KeyRules::new(vec![rule]).unwrap();
        });
        get(&proxy, "/", "gzip");
        for coding in ["gzip", "br"] {
            assert!(decoded(&encoded(&proxy, "/", coding, coding)) == text(1), "{coding}");
        }
        assert_eq!(get(&proxy, "/", "").field("content-encoding"), "");
        assert_eq!(origin.requests()[0].field("accept-encoding").as_deref(), Some("identity"));
        assert_eq!(origin.count(), 1);
    }
}
