//! Text that is stored once and sent as each client wants it: by real decoders, over real sockets.

use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tinaja_clock::ManualClock;
use tinaja_proxy::cache_rules::{CacheRule, CacheRules, Coding, Codings, Orders};
use tinaja_proxy::{Action, Config, Mode, Routes, Rule};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

use crate::support::{Origin, Proxy, Response, eventually, reply};

/// A text that shrinks well, some 40 KB of it, and another for each version.
fn text(version: usize) -> Vec<u8> {
    (0..2000).map(|line| format!("line {line} of version {version}\n")).collect::<String>().into_bytes()
}

fn codings(all: &[Coding]) -> Codings {
    all.iter().copied().collect()
}

fn encoding() -> CacheRule {
    CacheRule::new(Orders { encode: codings(&[Coding::Zstd, Coding::Br, Coding::Gzip]), ..Orders::default() })
}

/// A reverse proxy before this origin that has these rules, and its clock.
fn before_with(origin: &Origin, rules: Vec<CacheRule>, change: impl FnOnce(&mut Config)) -> (Proxy, ManualClock) {
    let url = format!("http://{}", origin.address).parse().unwrap();
    Proxy::by_hand(|config| {
        config.listeners[0].mode = Mode::Reverse(Routes::to(url));
        config.listeners[0].cache_rules = CacheRules::new(rules).unwrap();
        change(config);
    })
}

/// Waits until so many objects have been stored, and no more.
fn has_stored(proxy: &Proxy, count: u64) {
    eventually("it is stored", || proxy.store.stats().stored == count);
}

fn before(origin: &Origin) -> (Proxy, ManualClock) {
    before_with(origin, vec![encoding()], |_| {})
}

fn ask(proxy: &Proxy, method: &str, path: &str, fields: &str) -> Response {
    let mut client = proxy.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: www.example\r\n{fields}\r\n"));
    client.read(method).unwrap()
}

fn get(proxy: &Proxy, path: &str, accepted: &str) -> Response {
    let accepted = if accepted.is_empty() { String::new() } else { format!("Accept-Encoding: {accepted}\r\n") };
    ask(proxy, "GET", path, &accepted)
}

/// Asks until the answer comes in this coding.
fn encoded(proxy: &Proxy, path: &str, accepted: &str, coding: &str) -> Response {
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
fn decoded(answer: &Response) -> Vec<u8> {
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
fn origin_of(fields: &'static str) -> Origin {
    lasting(60, fields)
}

/// The same for so many seconds.
fn lasting(seconds: u32, fields: &'static str) -> Origin {
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
        assert_eq!((answer.field("etag").as_str(), answer.field("vary").as_str()), ("W/\"one\"", "Accept-Encoding"));
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
    for (tag, status) in [("\"one\"", 304), ("W/\"one\"", 304), ("*", 304), ("\"two\"", 200)] {
        for (accepted, own) in [("", "\"one\""), ("Accept-Encoding: gzip\r\n", "W/\"one\"")] {
            let answer = ask(&proxy, "GET", "/", &format!("{accepted}If-None-Match: {tag}\r\n"));
            assert_eq!((answer.status, answer.field("etag").as_str()), (status, own), "{tag} {accepted}");
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

/// An object that was replaced, purged or changed leaves no form of it that anybody gets.
#[test]
fn no_form_outlives_its_object() {
    let version = Arc::new(AtomicUsize::new(1));
    let now = version.clone();
    let origin = Origin::start(move |request, stream| {
        let version = now.load(Ordering::SeqCst);
        let fields = format!("Content-Type: text/html\r\nCache-Control: max-age=600\r\nETag: \"{version}\"\r\n");
        reply(stream, request, 200, &fields, &text(version))
    });
    let rule = Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) };
    let (proxy, _) = before_with(&origin, vec![encoding()], |config| config.listeners[0].rules.push(rule));
    get(&proxy, "/", "br");
    encoded(&proxy, "/", "br", "br");
    let changes: [(&str, &str); 3] =
        [("GET", "Cache-Control: no-cache\r\n"), ("PURGE", ""), ("POST", "Content-Length: 0\r\n")];
    for (number, (method, fields)) in (2..).zip(changes) {
        version.store(number, Ordering::SeqCst);
        let changed = ask(&proxy, method, "/", fields);
        assert_eq!(changed.status, 200, "{changed:?}");
        let answer = get(&proxy, "/", "br");
        assert!(decoded(&answer) == text(number), "{method}: {:?}", answer.field("etag"));
        assert!(decoded(&encoded(&proxy, "/", "br", "br")) == text(number), "{method}");
    }
}

/// A purge leaves no bytes of a form in the store either.
#[test]
fn a_purge_removes_the_forms() {
    let origin = origin_of("");
    let rule = Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) };
    let (proxy, _) = before_with(&origin, vec![encoding()], |config| config.listeners[0].rules.push(rule));
    get(&proxy, "/", "gzip");
    encoded(&proxy, "/", "gzip", "gzip");
    encoded(&proxy, "/", "br", "br");
    assert_eq!(ask(&proxy, "PURGE", "/", "").status, 200);
    assert_eq!(proxy.store.stats().live_objects, 0);
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

/// Where no rule says so nothing is encoded, and what clients accept goes to the origin as it came.
#[test]
fn without_a_rule_nothing_changes() {
    let origin = origin_of("");
    let (proxy, _) =
        before_with(&origin, vec![CacheRule::new(Orders { ttl_seconds: Some(9), ..Orders::default() })], |_| {});
    for _ in 0..3 {
        let answer = get(&proxy, "/", "gzip, br");
        assert_eq!((answer.body.len(), answer.header("vary")), (text(1).len(), None));
    }
    assert_eq!(origin.requests()[0].field("accept-encoding").as_deref(), Some("gzip, br"));
    has_stored(&proxy, 1);
    assert_eq!(origin.count(), 1);
}

/// A rule above that fits whatever comes keeps its paths from the one that encodes, at the origin too. One that goes by the type does not, since that is known
/// only afterwards; and where a type is named, it need not be text.
#[test]
fn the_first_rule_that_fits_decides() {
    let origin = Origin::start(|request, stream| {
        let media_type = if request.path.ends_with(".own") { "application/x-own" } else { "text/html" };
        let fields = format!("Content-Type: {media_type}\r\nCache-Control: max-age=60\r\n");
        reply(stream, request, 200, &fields, &text(1))
    });
    let account = CacheRule { paths: vec!["/account/*".parse().unwrap()], ..CacheRule::new(Orders::default()) };
    let own = CacheRule { types: vec!["application/x-own".parse().unwrap()], ..encoding() };
    let images = CacheRule { types: vec!["image/*".parse().unwrap()], ..CacheRule::new(Orders::default()) };
    let (proxy, _) = before_with(&origin, vec![account, images, own, encoding()], |_| {});
    for (number, (path, asked, coding)) in [
        ("/account/x", "gzip", ""),
        ("/account/x.own", "gzip", ""),
        ("/x", "identity", "gzip"),
        ("/x.own", "identity", "gzip"),
    ]
    .into_iter()
    .enumerate()
    {
        get(&proxy, path, "gzip");
        assert_eq!(origin.requests()[number].field("accept-encoding").as_deref(), Some(asked), "{path}");
        assert!(decoded(&encoded(&proxy, path, "gzip", coding)) == text(1));
    }
    eventually("four answers and two forms are stored", || proxy.store.stats().live_objects == 6);
    assert_eq!(origin.count(), 4);
}

/// A long body in pieces whose length is not announced.
#[test]
fn what_comes_in_chunks() {
    let origin = Origin::start(|_, stream| {
        use std::io::Write as _;
        let body = text(1).repeat(40);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks =
            body.chunks(60_000).map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
        let all = [head.as_bytes(), &chunks.collect::<Vec<_>>().concat(), b"0\r\n\r\n"].concat();
        stream.write_all(&all).is_ok()
    });
    let (proxy, _) = before(&origin);
    let first = get(&proxy, "/", "");
    assert_eq!(first.body.len(), text(1).len() * 40);
    for coding in ["zstd", "br", "gzip"] {
        let answer = encoded(&proxy, "/", coding, coding);
        assert!(decoded(&answer) == text(1).repeat(40), "{coding}");
    }
    assert_eq!(origin.count(), 1);
}

/// A cache in a directory.
fn cache(dir: &Path) -> Arc<dyn Store> {
    let options = CacheOptions::new(dir.join("cache")).disk_bytes(64 << 20).memory_bytes(0);
    Arc::new(Cache::open(options).unwrap())
}

/// A reverse proxy before this origin over that cache, which encodes.
fn over(store: Arc<dyn Store>, origin: &Origin) -> Proxy {
    let url = format!("http://{}", origin.address).parse().unwrap();
    Proxy::over(store, |config| {
        config.listeners[0].mode = Mode::Reverse(Routes::to(url));
        config.listeners[0].cache_rules = CacheRules::new(vec![encoding()]).unwrap();
    })
}

/// Forms are there after a restart, and nothing is fetched or made for them.
#[test]
fn forms_survive_a_restart() {
    let (dir, mut origin) = (tempfile::tempdir().unwrap(), lasting(6000, ""));
    {
        let store = cache(dir.path());
        let proxy = over(store.clone(), &origin);
        get(&proxy, "/", "gzip");
        encoded(&proxy, "/", "gzip", "gzip");
        encoded(&proxy, "/", "br", "br");
        drop(proxy);
        block_on(store.close()).unwrap();
    }
    origin.stop();
    let store = cache(dir.path());
    let proxy = over(store.clone(), &origin);
    for coding in ["gzip", "br"] {
        let answer = get(&proxy, "/", coding);
        assert!(answer.is_hit() && answer.field("content-encoding") == coding, "{answer:?}");
        assert!(decoded(&answer) == text(1));
    }
    assert_eq!(store.stats().stored, 0);
}

/// Bits that flip on the disk cost a request at the origin at the most, and nobody gets them.
#[test]
fn what_is_damaged_is_never_sent() {
    let (dir, origin) = (tempfile::tempdir().unwrap(), lasting(6000, ""));
    let paths: Vec<String> = (0..60).map(|number| format!("/{number}")).collect();
    {
        let store = cache(dir.path());
        let proxy = over(store.clone(), &origin);
        for path in &paths {
            get(&proxy, path, "gzip");
            encoded(&proxy, path, "gzip", "gzip");
        }
        drop(proxy);
        block_on(store.close()).unwrap();
    }
    for file in std::fs::read_dir(dir.path().join("cache")).unwrap() {
        let file = std::fs::File::options().read(true).write(true).open(file.unwrap().path()).unwrap();
        let length = file.metadata().unwrap().len();
        // What must be whole for the cache to open lies in the first bytes.
        for at in ((64 << 10)..length).step_by(100_003) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        }
    }
    let before = origin.count();
    let proxy = over(cache(dir.path()), &origin);
    let mut hits = 0;
    for path in paths.iter().chain(&paths) {
        let answer = get(&proxy, path, "gzip");
        assert!(answer.status == 200 && decoded(&answer) == text(1), "{path}");
        hits += usize::from(answer.is_hit());
    }
    let fetched = origin.count() - before;
    assert!(
        fetched > 0 && fetched < paths.len() && hits + fetched == 2 * paths.len(),
        "{fetched} fetched, {hits} hits"
    );
}

/// Many clients want many forms at once: each is made once, and nobody waits or gets anything else than the text.
#[test]
fn a_crowd_has_each_form_made_once() {
    let origin = origin_of("");
    let (proxy, _) = before(&origin);
    get(&proxy, "/", "");
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (proxy, accepted) = (&proxy, ["gzip", "br", "zstd", ""][number % 4]);
            scope.spawn(move || {
                for _ in 0..20 {
                    let answer = get(proxy, "/", accepted);
                    assert!(answer.is_hit() && decoded(&answer) == text(1), "{accepted}");
                    assert!(["", accepted].contains(&answer.field("content-encoding").as_str()));
                }
            });
        }
    });
    for coding in ["gzip", "br", "zstd"] {
        encoded(&proxy, "/", coding, coding);
    }
    has_stored(&proxy, 4);
    assert_eq!(origin.count(), 1);
}
