use super::*;

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    map
}

fn all() -> Codings {
    [Coding::Zstd, Coding::Br, Coding::Gzip].into_iter().collect()
}

fn names(codings: &Codings) -> Vec<&'static str> {
    codings.iter().map(Coding::name).collect()
}

#[test]
fn what_clients_want() {
    for (accepted, expected) in [
        ("gzip", vec!["gzip"]),
        ("gzip, deflate, br, zstd", vec!["zstd", "br", "gzip"]),
        ("GZIP ,Br", vec!["br", "gzip"]),
        ("x-gzip", vec!["gzip"]),
        ("gzip;q=1.0, br;q=0.5", vec!["gzip", "br"]),
        ("gzip;q=0, br", vec!["br"]),
        ("gzip;q=0", vec![]),
        ("*", vec!["zstd", "br", "gzip"]),
        ("*;q=0", vec![]),
        ("*, zstd;q=0", vec!["br", "gzip"]),
        ("gzip, *;q=0.1", vec!["gzip", "zstd", "br"]),
        ("identity", vec![]),
        ("identity;q=0, gzip", vec!["gzip"]),
        ("identity;q=0.5, gzip", vec!["gzip"]),
        ("identity, gzip;q=0.5", vec![]),
        ("identity, gzip", vec!["gzip"]),
        ("deflate", vec![]),
        ("", vec![]),
        ("gzip br", vec![]),
        ("gzip;q=2", vec![]),
        ("gzip;q=0.5, gzip;q=0.6", vec![]),
    ] {
        assert_eq!(names(&wanted(&headers(&[("accept-encoding", accepted)]), &all())), expected, "{accepted}");
    }
    assert!(wanted(&headers(&[]), &all()).is_empty());
    let two = headers(&[("accept-encoding", "br;q=0"), ("accept-encoding", "gzip, br;q=0")]);
    assert_eq!(names(&wanted(&two, &all())), ["gzip"]);
    let stays = headers(&[("accept-encoding", "gzip"), ("cache-control", "no-transform")]);
    assert!(wanted(&stays, &all()).is_empty());
    let one = [Coding::Gzip, Coding::Gzip].into_iter().collect();
    assert_eq!(names(&wanted(&headers(&[("accept-encoding", "br, gzip")]), &one)), ["gzip"]);
}

#[test]
fn numbers_and_lists() {
    for coding in Coding::ALL {
        assert_eq!(Coding::of(coding as u8), Some(coding));
    }
    assert_eq!((Coding::of(0), Coding::of(4)), (None, None));
    assert!(Codings::NONE.is_empty() && !all().is_empty());
}

#[test]
fn what_may_be_encoded() {
    let text = ("content-type", "text/html; charset=utf-8");
    for (fields, typed, expected) in [
        (vec![text], false, true),
        (vec![("content-type", "application/ld+json")], false, true),
        (vec![("content-type", "Image/SVG+XML")], false, true),
        (vec![("content-type", "image/png")], false, false),
        (vec![("content-type", "application/x-own")], false, false),
        (vec![("content-type", "application/x-own")], true, true),
        (vec![("content-type", "multipart/form-data")], true, false),
        (vec![("content-type", "text/event-stream")], false, false),
        (vec![], true, false),
        (vec![text, text], true, false),
        (vec![text, ("content-encoding", "gzip")], false, false),
        (vec![text, ("content-encoding", "identity")], false, false),
        (vec![text, ("cache-control", "max-age=9, no-transform")], false, false),
        (vec![text, ("cache-control", "private")], false, false),
        (vec![text, ("set-cookie", "a=b")], false, false),
        (vec![text, ("repr-digest", "sha-256=:x:")], false, false),
        (vec![text, ("content-md5", "x")], false, false),
    ] {
        assert_eq!(may_encode(StatusCode::OK, &headers(&fields), typed), expected, "{fields:?} {typed}");
    }
    for status in [203, 204, 206, 404] {
        assert!(!may_encode(StatusCode::from_u16(status).unwrap(), &headers(&[text]), true), "{status}");
    }
}

#[test]
fn heads_as_they_are_sent() {
    let wire =
        b"HTTP/1.1 200 OK: x\r\nContent-Type: text/css\r\nETag: \"a\"\r\nContent-Length: 9\r\nAccept-Ranges: bytes\r\n";
    let as_text = |wire: &[u8], coding| String::from_utf8(sent_as(wire, coding)).unwrap();
    assert_eq!(
        as_text(wire, Some(Coding::Br)),
        "HTTP/1.1 200 OK: x\r\nContent-Type: text/css\r\nETag: W/\"a--br\"\r\nContent-Encoding: br\r\nVary: Accept-Encoding\r\n"
    );
    let plain = [&wire[..], b"Vary: Accept-Encoding\r\n"].concat();
    assert_eq!(as_text(wire, None).as_bytes(), plain);
    for vary in ["accept-encoding", "Accept, Accept-Encoding", "*"] {
        let head = format!("HTTP/1.1 200 OK\r\nvary: {vary}\r\n");
        assert_eq!(as_text(head.as_bytes(), None), head);
    }
    let other = "HTTP/1.1 200 OK\r\nvary: Accept\r\n";
    assert_eq!(as_text(other.as_bytes(), None), format!("{other}Vary: Accept-Encoding\r\n"));
    for (tag, sent) in [("W/\"a\"", "ETag: W/\"a--gzip\"\r\n"), ("a", "")] {
        let head = format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\n");
        let expected = format!("HTTP/1.1 200 OK\r\n{sent}Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n");
        assert_eq!(as_text(head.as_bytes(), Some(Coding::Gzip)), expected);
    }
}

#[test]
fn parts_by_a_date_alone() {
    let range = ("range", "bytes=5-");
    for (fields, mixes) in [
        (vec![range], false),
        (vec![range, ("if-range", "\"a\"")], false),
        (vec![range, ("if-range", "W/\"a\"")], false),
        (vec![range, ("if-range", "Tue, 14 Nov 2023 22:13:20 GMT")], true),
        (vec![("if-range", "Tue, 14 Nov 2023 22:13:20 GMT")], false),
    ] {
        assert_eq!(may_mix(&headers(&fields)), mixes, "{fields:?}");
    }
}
