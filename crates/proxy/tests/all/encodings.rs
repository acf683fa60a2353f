//! Text that is stored once and sent as each client wants it: by real decoders, over real sockets.

use std::io::Read as _;
use std::time::Duration;

use tinaja_clock::ManualClock;
use tinaja_proxy::cache_rules::{CacheRule, CacheRules, Coding, Codings, Orders};
use tinaja_proxy::{Config, Mode, Routes};

use crate::support::{Origin, Proxy, Response, eventually, reply};

/// A text that shrinks well, some 40 KB of it, and another for each version.
pub fn text(version: usize) -> Vec<u8> {
    (0..2000).map(|line| format!("line {line} of version {version}\n")).collect::<String>().into_bytes()
}

fn codings(all: &[Coding]) -> Codings {
    all.iter().copied().collect()
}

pub fn encoding() -> CacheRule {
    CacheRule::new(Orders { encode: codings(&[Coding::Zstd, Coding::Br, Coding::Gzip]), ..Orders::default() })
}

/// A reverse proxy before this origin that has these rules, and its clock.
pub fn before_with(origin: &Origin, rules: Vec<CacheRule>, change: impl FnOnce(&mut Config)) -> (Proxy, ManualClock) {
    let url = format!("http://{}", origin.address).parse().unwrap();
    Proxy::by_hand(|config| {
        config.listeners[0].mode = Mode::Reverse(Routes::to(url));
        config.listeners[0].cache_rules = CacheRules::new(rules).unwrap();
        change(config);
    })
}

/// Waits until so many objects have been stored, and no more.
pub fn has_stored(proxy: &Proxy, count: u64) {
    eventually("it is stored", || proxy.store.stats().stored == count);
}

pub fn before(origin: &Origin) -> (Proxy, ManualClock) {
    before_with(origin, vec![encoding()], |_| {})
}

pub fn ask(proxy: &Proxy, method: &str, path: &str, fields: &str) -> Response {
    let mut client = proxy.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: www.example\r\n{fields}\r\n"));
    client.read(method).unwrap()
}

pub fn get(proxy: &Proxy, path: &str, accepted: &str) -> Response {
    let accepted = if accepted.is_empty() { String::new() } else { format!("Accept-Encoding: {accepted}\r\n") };
    ask(proxy, "GET", path, &accepted)
}

/// Asks until the answer comes in this coding.
pub fn encoded(proxy: &Proxy, path: &str, accepted: &str, coding: &str) -> Response {
    let mut last = None;
    eventually("it comes encoded", || {
        let answer = get(proxy, path, accepted);
        assert_eq!(answer.status, 200, "{answer:?}");
        let is_encoded = answer.field("content-encoding") == coding;
        last = Some(answer);
        is_encoded
    });
    last.unwrap()
}

/// The body, by the decoder that its head names.
pub fn decoded(answer: &Response) -> Vec<u8> {
    let (bytes, mut all) = (&answer.body[..], Vec::new());
    match answer.field("content-encoding").as_str() {
        "" => all = bytes.to_vec(),
        "gzip" => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut all).unwrap()),
        "br" => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut all).unwrap()),
        "zstd" => drop(zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut all).unwrap()),
        other => panic!("{other}"),
    }
    all
}

/// Text with a lifetime, an entity tag and these fields.
pub fn origin_of(fields: &'static str) -> Origin {
    lasting(60, fields)
}

/// The same for so many seconds.
pub fn lasting(seconds: u32, fields: &'static str) -> Origin {
    Origin::start(move |request, stream| {
        let fields =
            format!("Content-Type: text/plain\r\nCache-Control: max-age={seconds}\r\nETag: \"one\"\r\n{fields}");
        reply(stream, request, 200, &fields, &text(1))
    })
}

/// Ten clients of four kinds, and one request at the origin, for what is in no coding.
#[test]
fn stored_once_and_sent_as_each_client_wants() {
    let origin = origin_of("Vary: Accept-Encoding\r\n");
    let (proxy, _) = before(&origin);
    let first = get(&proxy, "/", "gzip, deflate, br, zstd");
    assert_eq!((first.field("content-encoding").as_str(), first.body.len()), ("", text(1).len()), "nobody waits");
    assert_eq!(first.field("vary"), "Accept-Encoding");
    for (accepted, coding) in [
        ("gzip, deflate, br, zstd", "zstd"),
        ("br, gzip", "br"),
        ("gzip", "gzip"),
        ("x-gzip;q=0.5", "gzip"),
        ("*", "zstd"),
    ] {
        let answer = encoded(&proxy, "/", accepted, coding);
        assert!(answer.is_hit(), "{answer:?}");
        assert!(decoded(&answer) == text(1), "{coding}");
        assert!(answer.body.len() < text(1).len() / 3, "{coding}: {}", answer.body.len());
        assert_eq!(answer.field("content-length"), answer.body.len().to_string());
        assert_eq!(
            (answer.field("etag").as_str(), answer.field("vary").as_str()),
            (format!("W/\"one--{coding}\"").as_str(), "Accept-Encoding")
        );
        assert_eq!(answer.field("content-type"), "text/plain");
    }
    for accepted in ["", "identity", "gzip;q=0", "deflate", "gzip;q=0.2, identity", "*;q=0", "nonsense;;"] {
        let answer = get(&proxy, "/", accepted);
        assert!(answer.is_hit() && answer.body == text(1), "{accepted}: {:?}", answer.field("content-encoding"));
        assert_eq!((answer.field("etag").as_str(), answer.field("vary").as_str()), ("\"one\"", "Accept-Encoding"));
        assert_eq!(answer.field("content-length"), text(1).len().to_string());
    }
    let refusing = encoded(&proxy, "/", "identity;q=0, br", "br");
    assert!(decoded(&refusing) == text(1));
    let asked = origin.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].field("accept-encoding").as_deref(), Some("identity"));
}

/// The one that fetches wants it encoded, so the next one like it gets it so: it is made behind the fetch.
#[test]
fn made_behind_the_fetch() {
    let origin = origin_of("");
    let (proxy, _) = before(&origin);
    get(&proxy, "/", "br");
    // Nobody else has asked.
    has_stored(&proxy, 2);
    let second = encoded(&proxy, "/", "br", "br");
    assert!(second.is_hit(), "{second:?}");
    has_stored(&proxy, 2);
}

/// A HEAD says what a GET would; conditions hold for every form; what a client says of the tag is weakly compared.
#[test]
fn heads_and_conditions() {
    let origin = origin_of("");
    let (proxy, hand) = before(&origin);
    get(&proxy, "/", "gzip");
    let whole = encoded(&proxy, "/", "gzip", "gzip");
    let head = ask(&proxy, "HEAD", "/", "Accept-Encoding: gzip\r\n");
    for field in ["content-encoding", "content-length", "etag", "vary", "content-type"] {
        assert_eq!(head.field(field), whole.field(field), "{field}");
    }
    assert!(head.is_hit() && head.body.is_empty());
    // A 304 names the tag that the client has, which says of which bytes it is.
    let all = ["\"one\"", "W/\"one\"", "W/\"one--gzip\"", "W/\"one--br\"", "*", "\"two\"", "\"one--gzip\""];
    for (tag, status) in all.into_iter().zip([304, 304, 304, 304, 304, 200, 200]) {
        for (accepted, own) in [("", "\"one\""), ("Accept-Encoding: gzip\r\n", "W/\"one--gzip\"")] {
            let answer = ask(&proxy, "GET", "/", &format!("{accepted}If-None-Match: {tag}\r\n"));
            let named = if status == 304 && tag != "*" { tag } else { own };
            assert_eq!((answer.status, answer.field("etag").as_str()), (status, named), "{tag} {accepted}");
            assert_eq!(answer.field("vary"), "Accept-Encoding");
            assert_eq!(answer.field("content-encoding").is_empty(), status == 304 || accepted.is_empty());
        }
    }
    // At the origin its own tag is validated.
    hand.advance(Duration::from_secs(61));
    let before = origin.count();
    get(&proxy, "/", "gzip");
    let asked = origin.requests();
    assert_eq!(asked.len(), before + 1);
    assert_eq!(asked[before].field("if-none-match").as_deref(), Some("\"one\""));
}

/// A 304 keeps all forms, with new fields; nothing is made a second time.
#[test]
fn a_validation_keeps_every_form() {
    let origin = Origin::start(|request, stream| match request.field("if-none-match") {
        Some(tag) => {
            assert_eq!(tag, "\"one\"");
            reply(stream, request, 304, "ETag: \"one\"\r\nCache-Control: max-age=30\r\nX-Turn: two\r\n", b"")
        }
        None => {
            let fields = "Content-Type: text/css\r\nCache-Control: max-age=60\r\nETag: \"one\"\r\nX-Turn: one\r\n";
            reply(stream, request, 200, fields, &text(1))
        }
    });
    let (proxy, hand) = before(&origin);
    get(&proxy, "/", "gzip");
    assert_eq!(encoded(&proxy, "/", "gzip", "gzip").field("x-turn"), "one");
    let stored = proxy.store.stats().stored;
    hand.advance(Duration::from_secs(61));
    let validated = get(&proxy, "/", "gzip");
    assert!(!validated.is_hit() && decoded(&validated) == text(1), "{validated:?}");
    assert_eq!((validated.field("content-encoding").as_str(), validated.field("x-turn").as_str()), ("gzip", "two"));
    let hit = get(&proxy, "/", "gzip");
    assert!(hit.is_hit() && hit.cache_status().contains("ttl=30"), "{hit:?}");
    assert_eq!((hit.field("content-encoding").as_str(), hit.field("x-turn").as_str()), ("gzip", "two"));
    has_stored(&proxy, stored);
    assert_eq!(origin.count(), 2);
}

/// Parts are parts of what is in no coding, and no client can put them to the beginning of a form.
#[test]
fn parts_are_of_what_is_not_encoded() {
    let modified = "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\nAccept-Ranges: bytes\r\n";
    let origin = origin_of(modified);
    let (proxy, _) = before(&origin);
    get(&proxy, "/", "gzip");
    let whole = encoded(&proxy, "/", "gzip", "gzip");
    assert!(whole.header("accept-ranges").is_none());
    let part = |fields: &str| ask(&proxy, "GET", "/", &format!("Range: bytes=10-19\r\n{fields}"));
    for accepted in ["", "Accept-Encoding: gzip\r\n"] {
        for condition in ["", "If-Range: \"one\"\r\n"] {
            let answer = part(&format!("{accepted}{condition}"));
            assert_eq!((answer.status, &answer.body[..]), (206, &text(1)[10..20]), "{accepted}{condition}");
            assert_eq!((answer.field("content-encoding").as_str(), answer.field("etag").as_str()), ("", "\"one\""));
        }
    }
    // The form's own tag is weak, so it fits no part.
    let by_weak = part("Accept-Encoding: gzip\r\nIf-Range: W/\"one\"\r\n");
    assert_eq!((by_weak.status, by_weak.body.len()), (200, text(1).len()));
    // A date is the same for all forms.
    let by_date = "If-Range: Tue, 14 Nov 2023 22:13:20 GMT\r\n";
    let (plain, other) = (part(by_date), part(&format!("Accept-Encoding: gzip\r\n{by_date}")));
    assert_eq!((plain.status, other.status), (206, 200));
    assert!(decoded(&other) == text(1));
    assert_eq!(origin.count(), 1);
}

/// What is for one client, is small, shrinks not, or is not to be changed stays as it is, and says nothing of Accept-Encoding.
#[test]
fn what_is_left_as_it_is() {
    const KINDS: [(&str, &str); 11] = [
        ("/plain", "Content-Type: text/html\r\nCache-Control: max-age=60\r\n"),
        ("/no-transform", "Content-Type: text/html\r\nCache-Control: max-age=60, no-transform\r\n"),
        ("/cookie", "Content-Type: text/html\r\nCache-Control: public, max-age=60\r\nSet-Cookie: a=b\r\n"),
        ("/private", "Content-Type: text/html\r\nCache-Control: private, max-age=60\r\n"),
        ("/image", "Content-Type: image/png\r\nCache-Control: max-age=60\r\n"),
        ("/untyped", "Cache-Control: max-age=60\r\n"),
        ("/encoded", "Content-Type: text/html\r\nCache-Control: max-age=60\r\nContent-Encoding: gzip\r\n"),
        ("/digest", "Content-Type: text/html\r\nCache-Control: max-age=60\r\nRepr-Digest: sha-256=:x:\r\n"),
        ("/small", "Content-Type: text/html\r\nCache-Control: max-age=60\r\n"),
        ("/events", "Content-Type: text/event-stream\r\nCache-Control: max-age=60\r\n"),
        ("/lost", "Content-Type: text/html\r\nCache-Control: no-store\r\n"),
    ];
    let origin = Origin::start(|request, stream| {
        let (path, fields) = KINDS.into_iter().find(|(path, _)| *path == request.path).unwrap();
        let body = if path == "/small" { vec![b'x'; 511] } else { text(1) };
        reply(stream, request, 200, fields, &body)
    });
    let (proxy, _) = before(&origin);
    for (path, _) in KINDS {
        for _ in 0..3 {
            get(&proxy, path, "gzip");
        }
    }
    // By now the one that is encoded is, and none of those before and behind it.
    encoded(&proxy, "/plain", "gzip", "gzip");
    for (path, fields) in KINDS.into_iter().filter(|(path, _)| *path != "/plain") {
        let answer = get(&proxy, path, "gzip");
        let own = if path == "/encoded" { "gzip" } else { "" };
        assert_eq!(answer.field("content-encoding"), own, "{path}");
        assert_eq!(answer.body.len(), if path == "/small" { 511 } else { text(1).len() }, "{path} {fields}");
    }
    let stored = KINDS.len() - 2 + 1;
    eventually("all is stored", || proxy.store.stats().live_objects == stored as u64);
}

/// Bytes that were fetched for one who said who they are may hold their secret beside what somebody else chose (BREACH).
#[test]
fn what_was_fetched_with_a_cookie_is_encoded_only_if_it_is_for_all() {
    let origin = Origin::start(|request, stream| {
        let public = if request.path == "/public" { "public, " } else { "" };
        let fields = format!("Content-Type: text/html\r\nETag: \"1\"\r\nCache-Control: {public}max-age=60\r\n");
        match request.field("if-none-match") {
            Some(_) => reply(stream, request, 304, &fields, b""),
            None => reply(stream, request, 200, &fields, &text(1)),
        }
    });
    let (proxy, hand) = before(&origin);
    for path in ["/own", "/public"] {
        ask(&proxy, "GET", path, "Accept-Encoding: gzip\r\nCookie: session=1\r\n");
    }
    encoded(&proxy, "/public", "gzip", "gzip");
    assert_eq!(get(&proxy, "/own", "gzip").field("content-encoding"), "");
    // A validation by another client brings no other bytes.
    hand.advance(Duration::from_secs(61));
    get(&proxy, "/own", "gzip");
    get(&proxy, "/own", "gzip");
    eventually("two answers and one form are stored", || proxy.store.stats().live_objects == 3);
}

/// What does not shrink is tried once.
#[test]
fn what_does_not_shrink_is_remembered() {
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(100_000)
    .collect();
    let body = noise.clone();
    let origin = Origin::start(move |request, stream| {
        reply(stream, request, 200, "Content-Type: text/plain\r\nCache-Control: max-age=6000\r\n", &body)
    });
    let (proxy, hand) = before(&origin);
    get(&proxy, "/", "gzip");
    eventually("it was tried", || proxy.store.stats().live_objects == 2);
    for _ in 0..3 {
        hand.advance(Duration::from_secs(100));
        let answer = get(&proxy, "/", "gzip");
        assert!(answer.is_hit() && answer.body == noise);
        assert_eq!((answer.field("content-encoding").as_str(), answer.field("vary").as_str()), ("", "Accept-Encoding"));
    }
    has_stored(&proxy, 2);
}

/// In front of clients that chose their origin themselves, a rule must say for which hosts it encodes.
#[test]
fn a_forward_proxy_encodes_for_hosts_that_are_named() {
    for named in [false, true] {
        let origin = origin_of("");
        let hosts = if named { vec!["127.0.0.1".parse().unwrap()] } else { Vec::new() };
        let rules = CacheRules::new(vec![CacheRule { hosts, ..encoding() }]).unwrap();
        let (proxy, _) = Proxy::by_hand(|config| config.listeners[0].cache_rules = rules);
        let fields = "Accept-Encoding: gzip\r\n";
        let ask = || proxy.get_with(&origin.url("/"), fields);
        assert_eq!(ask().header("vary"), named.then_some("Accept-Encoding"));
        assert_eq!(origin.requests()[0].field("accept-encoding").unwrap(), if named { "identity" } else { "gzip" });
        if named {
            eventually("it comes encoded", || ask().field("content-encoding") == "gzip");
        } else {
            assert!(ask().is_hit() && ask().header("content-encoding").is_none());
            has_stored(&proxy, 1);
        }
    }
}

/// Each variant has forms of its own; what varies by Accept-Encoding besides is one.
#[test]
fn variants_have_forms_of_their_own() {
    let origin = Origin::start(|request, stream| {
        let version = usize::from(request.field("accept-language").as_deref() == Some("sw"));
        let fields =
            "Content-Type: text/html\r\nCache-Control: max-age=60\r\nVary: Accept-Language, Accept-Encoding\r\n";
        reply(stream, request, 200, fields, &text(version))
    });
    let (proxy, _) = before(&origin);
    let ask = |language: &str, accepted: &str| {
        ask(&proxy, "GET", "/", &format!("Accept-Language: {language}\r\nAccept-Encoding: {accepted}\r\n"))
    };
    for (language, version) in [("en", 0), ("sw", 1)] {
        eventually("it comes encoded", || ask(language, "gzip").field("content-encoding") == "gzip");
        eventually("it comes encoded", || ask(language, "br, gzip").field("content-encoding") == "br");
        assert!(decoded(&ask(language, "gzip")) == text(version));
        assert!(decoded(&ask(language, "br")) == text(version));
    }
    assert!(decoded(&ask("en", "gzip")) == text(0));
    assert_eq!(origin.count(), 2);
}

/// Where no rule says so nothing is encoded, and what clients accept goes to the origin, in its one spelling.
#[test]
fn without_a_rule_nothing_changes() {
    let origin = origin_of("");
    let (proxy, _) =
        before_with(&origin, vec![CacheRule::new(Orders { ttl_seconds: Some(9), ..Orders::default() })], |_| {});
    for _ in 0..3 {
        let answer = get(&proxy, "/", "gzip, br");
        assert_eq!((answer.body.len(), answer.header("vary")), (text(1).len(), None));
    }
    assert_eq!(origin.requests()[0].field("accept-encoding").as_deref(), Some("br, gzip"));
    has_stored(&proxy, 1);
    assert_eq!(origin.count(), 1);
}
