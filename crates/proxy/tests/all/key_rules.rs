//! What rules about names make of requests, over real sockets: which URLs are one object, what origins are asked, and what is taken
//! back. What a rule takes out of a name, its origin does not get either.

use std::net::TcpListener;
use std::sync::Arc;

use tinaja_proxy::cache_rules::{CacheRule, CacheRules, Orders, Storing};
use tinaja_proxy::key_rules::{KeyRule, KeyRules, Query, TRACKING};
use tinaja_proxy::{Action, Config, Listener, Route, Routes, Rule, Rules, Upstream};
use tinaja_store::Reference;

use crate::streams::Streams;
use crate::support::{Origin, Proxy, Request, Response, reply};

pub(crate) fn rules(config: &mut Config, rules: Vec<KeyRule>) {
    let rules = KeyRules::new(rules.into_iter().map(KeyRule::completed).collect()).unwrap();
    for listener in &mut config.listeners {
        listener.key_rules = rules.clone();
        listener.rules.push(Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) });
    }
}

/// A forward proxy with these rules.
pub(crate) fn forward(all: Vec<KeyRule>) -> Proxy {
    Proxy::with(|config| rules(config, all))
}

/// A reverse proxy with these rules.
fn reverse(origin: &Origin, all: Vec<KeyRule>) -> Proxy {
    Proxy::with(|config| {
        config.listeners[0] = Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap());
        rules(config, all);
    })
}

pub(crate) fn without(names: &[&str]) -> KeyRule {
    let gone = names.iter().map(|name| name.parse().unwrap()).collect();
    KeyRule { query: Query::Without(gone), ..KeyRule::default() }
}

pub(crate) fn hosts(rule: KeyRule, hosts: &[&str]) -> KeyRule {
    KeyRule { hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(), ..rule }
}

/// Cacheable answers that say what was asked for.
pub(crate) fn echo(fields: &'static str) -> Origin {
    Origin::start(move |request, stream| answer(fields, request, stream))
}

fn answer(fields: &str, request: &Request, stream: &mut std::net::TcpStream) -> bool {
    let fields = format!("Cache-Control: max-age=600\r\n{fields}");
    reply(stream, request, 200, &fields, request.path.as_bytes())
}

/// The same at all addresses of this machine: hosts without a name server.
fn echo_at_all(fields: &'static str) -> (Origin, u16) {
    let origin =
        Origin::on(TcpListener::bind("0.0.0.0:0").unwrap(), move |request, stream| answer(fields, request, stream));
    let port = origin.address.port();
    (origin, port)
}

pub(crate) fn at_host(proxy: &Proxy, method: &str, host: &str, path: &str, fields: &str) -> Response {
    let mut client = proxy.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    client.read(method).unwrap()
}

#[test]
fn what_leads_to_a_page_is_no_part_of_it() {
    let origin = echo("");
    let proxy = forward(vec![without(&TRACKING)]);
    for (path, asked, hit) in [
        ("/a?utm_source=x&a=1&gclid=2&a=2", "/a?a=1&a=2", false),
        ("/a?a=1&a=2", "/a?a=1&a=2", true),
        ("/a?a=1&fbclid&a=2&utm_=", "/a?a=1&a=2", true),
        ("/a?a=2&a=1", "/a?a=2&a=1", false),
        ("/a?utm_source=x", "/a", false),
        ("/a", "/a", true),
        // An empty query is one, and bytes count.
        ("/a?", "/a?", false),
        ("/a?%75tm_source=x", "/a?%75tm_source=x", false),
        ("/b?utm_source=x", "/b", false),
    ] {
        let answer = proxy.get(&origin.url(path));
        assert_eq!((answer.text().as_str(), answer.is_hit()), (asked, hit), "{path}: {answer:?}");
    }
    assert_eq!(origin.paths(), ["/a?a=1&a=2", "/a?a=2&a=1", "/a", "/a?", "/a?%75tm_source=x", "/b"]);
    // A part and a head are of the same object.
    let part = proxy.get_with(&origin.url("/b?gclid=1"), "Range: bytes=1-1\r\n");
    assert_eq!((part.status, part.text().as_str(), part.is_hit()), (206, "b", true), "{part:?}");
    assert!(proxy.request("HEAD", &origin.url("/b?gclid=1"), "").is_hit());
    let long = format!("/b?{}", "gclid=1&".repeat(1900));
    assert!(proxy.get(&origin.url(&long)).is_hit());
    assert!(!proxy.get(&origin.url(&format!("{long}x"))).is_hit());
}

/// What is asked for a part alone goes out as it is named too.
#[test]
fn what_is_not_stored_is_asked_for_as_it_is_named() {
    let origin = echo("");
    let proxy = forward(vec![without(&["utm_*"])]);
    for fields in ["Range: bytes=0-0\r\n", "Cache-Control: no-store\r\n", "If-Match: \"x\"\r\n"] {
        proxy.get_with(&origin.url("/x?utm_a=1&b"), fields);
    }
    proxy.request("HEAD", &origin.url("/x?utm_a=1&b"), "");
    assert!(origin.paths().iter().all(|path| path == "/x?b"), "{:?}", origin.paths());
    // Other methods reach the origin as they came.
    proxy.request("POST", &origin.url("/x?utm_a=1&b"), "Content-Length: 0\r\n");
    assert_eq!(origin.paths().last().unwrap(), "/x?utm_a=1&b");
}

#[test]
fn the_first_rule_that_fits_decides() {
    let origin = echo("");
    let kept = KeyRule { paths: vec!["/keep/*".parse().unwrap()], says_keep: true, ..KeyRule::default() };
    let dropped = KeyRule { query: Query::Nothing, ..KeyRule::default() };
    let proxy = forward(vec![kept, dropped]);
    for path in ["/keep/x?a", "/x?a"] {
        proxy.get(&origin.url(path));
    }
    assert!(!proxy.get(&origin.url("/keep/x?b")).is_hit() && proxy.get(&origin.url("/x?b")).is_hit());
}

#[test]
fn purges_and_changes_of_one_spelling_are_of_all() {
    let origin = Origin::start(|request, stream| match request.method.as_str() {
        "POST" => reply(stream, request, 200, "Location: /made?utm_x=1&b\r\n", b""),
        _ => answer("", request, stream),
    });
    let proxy = forward(vec![without(&["utm_*"])]);
    proxy.get(&origin.url("/a?b"));
    assert!(proxy.get(&origin.url("/a?b&utm_x=1")).is_hit());
    let purged = proxy.request("PURGE", &origin.url("/a?utm_y=2&b"), "");
    assert_eq!(purged.status, 200, "{purged:?}");
    assert!(!proxy.get(&origin.url("/a?b&utm_x=1")).is_hit());
    // A change at one URL, and at that which the answer names.
    proxy.get(&origin.url("/made?b"));
    assert!(proxy.get(&origin.url("/made?b")).is_hit() && proxy.get(&origin.url("/a?b")).is_hit());
    proxy.request("POST", &origin.url("/a?utm_z=3&b"), "Content-Length: 0\r\n");
    assert!(!proxy.get(&origin.url("/made?b")).is_hit() && !proxy.get(&origin.url("/a?b")).is_hit());
}

#[tokio::test]
async fn the_same_over_http2() {
    let origin = echo("");
    let add = vec!["cookie:lang".parse().unwrap()];
    let rule = KeyRule { add, cookies: Some(vec!["lang".into()]), ..without(&["utm_*"]) };
    let proxy = reverse(&origin, vec![rule]);
    let streams = Streams::connect(proxy.address).await;
    let url = |path: &str| format!("http://{}{path}", proxy.address);
    assert!(
        !streams
            .ask("GET", &url("/a?utm_x&b"), &[("cookie", "lang=de"), ("cookie", "x=1")], &[])
            .await
            .unwrap()
            .is_hit()
    );
    assert!(streams.ask("GET", &url("/a?b"), &[("cookie", "lang=de")], &[]).await.unwrap().is_hit());
    assert!(!streams.get(&url("/a?b")).await.is_hit());
    let host = proxy.address.to_string();
    assert!(at_host(&proxy, "GET", &host, "/a?utm_y=2&b", "Cookie: lang=de\r\n").is_hit());
    assert_eq!(streams.ask("PURGE", &url("/a?b&utm_c"), &[], &[]).await.unwrap().status, 200);
    assert!(!at_host(&proxy, "GET", &host, "/a?b", "Cookie: lang=de\r\n").is_hit());
    assert!(origin.paths().iter().all(|path| path == "/a?b"), "{:?}", origin.paths());
}

/// Several hosts of one site: the origin is asked at the one host, or whoever controls another would choose what its clients get.
#[test]
fn hosts_are_folded_where_they_are_asked_too() {
    let (origin, port) = echo_at_all("");
    let folded = || {
        let rule = KeyRule { fold_host: Some("127.0.0.2".parse().unwrap()), ..KeyRule::default() };
        hosts(rule, &["127.0.0.3", "127.0.0.4"])
    };
    let proxy = forward(vec![folded()]);
    let url = |host: u8| format!("http://127.0.0.{host}:{port}/x");
    for (host, hit) in [(3, false), (4, true), (2, true), (5, false)] {
        assert_eq!(proxy.get(&url(host)).is_hit(), hit, "{host}");
    }
    let asked: Vec<_> = origin.requests().iter().map(|request| request.field("host").unwrap()).collect();
    assert_eq!(asked, [format!("127.0.0.2:{port}"), format!("127.0.0.5:{port}")]);
    // Others than GET and HEAD go where they were meant to go, and change what all hosts share.
    proxy.request("POST", &url(4), "Content-Length: 0\r\n");
    assert_eq!(origin.requests().last().unwrap().field("host"), Some(format!("127.0.0.4:{port}")));
    assert!(!proxy.get(&url(3)).is_hit() && proxy.get(&url(2)).is_hit());
    assert_eq!(proxy.request("PURGE", &url(4), "").status, 200);
    assert!(!proxy.get(&url(2)).is_hit());
    // What a rule sends elsewhere is judged there: this proxy opens one address, and not that of the one host.
    let narrow = Proxy::with(|config| {
        config.listeners[0].rules = Rules::from(vec![Rule::allow_destination("127.0.0.3/32".parse().unwrap())]);
        rules(config, vec![folded()]);
    });
    assert_eq!(narrow.get(&url(3)).status, 403);
}

#[test]
fn hosts_are_folded_before_origins() {
    let (one, other) = (echo(""), echo(""));
    let upstream = |origin: &Origin| Upstream::from(origin.url("").parse::<tinaja_proxy::OriginUrl>().unwrap());
    let route = Route { host: Some("www.example".into()), path: "/".into(), origin: upstream(&one) };
    let proxy = Proxy::with(|config| {
        let routes = Routes::new(vec![route], Some(upstream(&other))).unwrap();
        config.listeners[0].mode = tinaja_proxy::Mode::Reverse(routes);
        let rule = KeyRule { fold_host: Some("www.example".parse().unwrap()), ..KeyRule::default() };
        rules(config, vec![hosts(rule, &["example"])]);
    });
    for (host, hit) in [("example:8080", false), ("www.example:8080", true), ("other.example", false)] {
        assert_eq!(at_host(&proxy, "GET", host, "/", "").is_hit(), hit, "{host}");
    }
    let asked = |origin: &Origin| origin.requests().iter().map(|one| one.field("host").unwrap()).collect::<Vec<_>>();
    assert_eq!((asked(&one), asked(&other)), (vec!["www.example:8080".into()], vec!["other.example".into()]));
}

#[test]
fn hosts_of_one_owner_share_what_they_have() {
    let (origin, port) = echo_at_all("");
    let rule = || {
        let rule = KeyRule { store_id: Some("cdn".parse().unwrap()), query: Query::Nothing, ..KeyRule::default() };
        hosts(rule, &["127.0.0.3", "127.0.0.4"])
    };
    let proxy = forward(vec![rule()]);
    let url = |host: u8, path: &str| format!("http://127.0.0.{host}:{port}{path}");
    assert!(!proxy.get(&url(3, "/x?1")).is_hit());
    assert!(proxy.get(&url(4, "/x?2")).is_hit() && !proxy.get(&url(4, "/y")).is_hit());
    let asked: Vec<_> = origin.requests().iter().map(|request| request.field("host").unwrap()).collect();
    assert_eq!(asked, [format!("127.0.0.3:{port}"), format!("127.0.0.4:{port}")], "where their clients asked");
    // No URL leads there but those of its hosts.
    let made_up = proxy.get(&format!("http://cdn.store-id.invalid:{port}/x"));
    assert!(made_up.status >= 500 && !made_up.is_hit(), "{made_up:?}");
    assert_eq!(proxy.request("PURGE", &url(4, "/x?3"), "").status, 200);
    assert!(!proxy.get(&url(3, "/x")).is_hit());
    proxy.request("POST", &url(4, "/x"), "Content-Length: 0\r\n");
    assert!(!proxy.get(&url(3, "/x")).is_hit());
    // Behind a reverse proxy, too.
    let proxy = reverse(&origin, vec![hosts(rule(), &["a.example", "*.b.example"])]);
    assert!(!at_host(&proxy, "GET", "a.example", "/x?1", "").is_hit());
    assert!(at_host(&proxy, "GET", "c.b.example", "/x", "").is_hit());
    assert!(!at_host(&proxy, "GET", "cdn.store-id.invalid", "/x", "").is_hit());
}

#[test]
fn sessions_are_stripped() {
    let origin = echo("");
    let proxy = forward(vec![KeyRule { sessions: vec!["jsessionid".into()], ..KeyRule::default() }]);
    let hits = ["/a;jsessionid=1/b", "/a/b;jsessionid=2", "/a/b?jsessionid=3", "/a/b"]
        .map(|path| proxy.get(&origin.url(path)).is_hit());
    assert_eq!((hits, origin.paths()), ([false, true, true, true], vec!["/a/b".to_owned()]));
}

/// Fields and cookies that a rule adds tell variants apart though the origin does not say that it varies. One purge takes all of them.
#[test]
fn what_is_added_tells_variants_apart() {
    let origin = echo("Vary: Accept-Language\r\n");
    let add = || vec!["header:X-Device".parse().unwrap(), "cookie:lang".parse().unwrap()];
    let proxy = forward(vec![KeyRule { add: add(), cookies: Some(vec!["lang".into()]), ..KeyRule::default() }]);
    let url = origin.url("/x");
    let get = |fields: &str| proxy.get_with(&url, fields).is_hit();
    let all = [
        "",
        "X-Device: \r\n",
        "X-Device: a\r\n",
        "X-Device: a, b\r\n",
        "Cookie: lang\r\n",
        "Cookie: lang=\r\n",
        "Cookie: lang=a\r\n",
        "Cookie: lang=ab\r\n",
        "X-Device: a\r\nCookie: lang=b\r\n",
        "Accept-Language: de\r\n",
        "Accept-Language: de\r\nX-Device: a\r\n",
    ];
    assert!(all.iter().all(|fields| !get(fields)));
    assert!(all.iter().all(|fields| get(fields)));
    for same in [
        "X-Device: a\r\nX-Device: b\r\n",
        "Cookie: x=1; lang=a; y=2\r\n",
        "X-Device: c\r\nConnection: x-device\r\n",
        "Tinaja-Added: x\r\n",
    ] {
        assert!(get(same), "{same}");
    }
    for again in 0..2 {
        match again {
            0 => assert_eq!(proxy.request("PURGE", &url, "").status, 200),
            _ => assert_eq!(proxy.request("POST", &url, "Content-Length: 0\r\n").status, 200),
        }
        assert!(all.iter().all(|fields| !get(fields)), "{again}");
    }
}

/// A rule that is new finds objects that were stored without it, and one that is gone leaves some: neither is taken for the other.
#[test]
fn what_was_stored_by_other_rules_is_not_used() {
    let origin = echo("");
    let store: Arc<dyn tinaja_store::Store> = Arc::new(Reference::new());
    let proxy = |all: Vec<KeyRule>| Proxy::over(store.clone(), |config| rules(config, all));
    let adding = |what: &str| {
        let cookies = what.strip_prefix("cookie:").map(|name| vec![name.to_owned()]);
        vec![KeyRule { add: vec![what.parse().unwrap()], cookies, ..KeyRule::default() }]
    };
    let url = origin.url("/x");
    for all in [vec![], adding("header:A"), adding("header:B"), vec![], adding("cookie:A")] {
        let mut proxy = proxy(all);
        assert!(!proxy.get_with(&url, "A: 1\r\nB: 1\r\nCookie: A=1\r\n").is_hit());
        assert!(proxy.get_with(&url, "A: 1\r\nB: 1\r\nCookie: A=1\r\n").is_hit());
        proxy.stop();
    }
}

/// What an origin is told of cookies is what it may vary by.
#[test]
fn cookies_that_count() {
    let origin = Origin::start(|request, stream| {
        let cookie = request.field("cookie").unwrap_or("none".into());
        reply(stream, request, 200, "Cache-Control: max-age=600\r\nVary: Cookie\r\n", cookie.as_bytes())
    });
    let proxy = forward(vec![KeyRule { cookies: Some(vec!["lang".into(), "b".into()]), ..KeyRule::default() }]);
    for (cookie, told, hit) in [
        ("Cookie: s=1; lang=de; b=2\r\n", "lang=de; b=2", false),
        ("Cookie: b=2\r\nCookie: s=2;lang=de\r\n", "lang=de; b=2", true),
        ("Cookie: s=3\r\n", "none", false),
        ("", "none", true),
        ("Cookie: lang=fr\r\n", "lang=fr", false),
    ] {
        let answer = proxy.get_with(&origin.url("/"), cookie);
        assert_eq!((answer.text().as_str(), answer.is_hit()), (told, hit), "{cookie}");
    }
    let posted = proxy.request("POST", &origin.url("/"), "Cookie: s=1\r\nContent-Length: 0\r\n");
    assert_eq!(posted.text(), "s=1", "as it came");
}

/// Without a rule each whole Cookie was a variant of its own, and a hundred clients pushed out all that anybody asked for again.
#[test]
fn without_a_rule_no_cookie_makes_a_variant() {
    let origin = varying("cookie");
    let proxy = Proxy::forward();
    let get = |fields: &str| proxy.get_with(&origin.url("/"), fields);
    assert!(!get("").is_hit() && get("").is_hit(), "nobody's cookie makes one");
    for client in 0..100 {
        let answer = get(&format!("Cookie: session={client}\r\n"));
        assert_eq!(answer.text(), format!("session={client}"));
        assert_eq!(answer.cache_status(), "Tinaja; fwd=vary-miss; fwd-status=200; detail=VARY_COOKIE");
    }
    assert!(!get("Cookie: session=1\r\n").is_hit() && get("").is_hit());
    assert_eq!((origin.count(), proxy.store.stats().stored), (102, 2), "one answer, and which variants there are");
}

/// An operator who has all stored that RFC 9111 lets a shared cache store gets a variant of each Cookie.
#[test]
fn what_is_stored_as_rfc_9111_has_it_varies_by_the_whole_cookie() {
    let origin = varying("cookie");
    let shared = CacheRule::new(Orders { store: Storing::Shared, ..Orders::default() });
    let proxy = Proxy::with(|config| config.listeners[0].cache_rules = CacheRules::new(vec![shared]).unwrap());
    for (cookie, hit) in [("a=1; b=2", false), ("a=1; b=2", true), ("b=2; a=1", false), ("a=1; b=2", true)] {
        let answer = proxy.get_with(&origin.url("/"), &format!("Cookie: {cookie}\r\n"));
        assert_eq!((answer.text().as_str(), answer.is_hit()), (cookie, hit));
    }
}

/// An origin that answers as a field says, and says so.
pub(crate) fn varying(field: &'static str) -> Origin {
    Origin::start(move |request, stream| {
        let told = request.field(field).unwrap_or("none".into());
        let fields = format!("Cache-Control: max-age=600\r\nVary: {field}\r\n");
        reply(stream, request, 200, &fields, told.as_bytes())
    })
}

#[test]
fn encodings_that_the_origin_has() {
    let origin = varying("accept-encoding");
    let proxy = forward(vec![KeyRule { encodings: Some(vec!["br".into(), "gzip".into()]), ..KeyRule::default() }]);
    for (accept, told, hit) in [
        ("gzip, deflate, br, zstd", "br, gzip", false),
        ("gzip,br", "br, gzip", true),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", "br, gzip", true),
        ("deflate", "identity", false),
        ("identity", "identity", true),
        ("gzip br", "gzip br", false),
    ] {
        let answer = proxy.get_with(&origin.url("/"), &format!("Accept-Encoding: {accept}\r\n"));
        assert_eq!((answer.text().as_str(), answer.is_hit()), (told, hit), "{accept}");
    }
    assert_eq!(proxy.get(&origin.url("/")).text(), "identity");
    // The order is the rule's.
    let other = forward(vec![KeyRule { encodings: Some(vec!["gzip".into(), "br".into()]), ..KeyRule::default() }]);
    assert_eq!(other.get_with(&origin.url("/"), "Accept-Encoding: br, gzip\r\n").text(), "gzip, br");
}

/// Without any rule: spellings of one wish were six variants once, or what went out was the first client's.
#[test]
fn spellings_of_accept_encoding_are_one_variant() {
    let origin = varying("accept-encoding");
    let proxy = Proxy::forward();
    let spellings =
        ["gzip, br", "gzip,br", "br, gzip", "gzip;q=1.0, br", "x-gzip, BR;q=1", "gzip\r\nAccept-Encoding: br"];
    for (index, accept) in spellings.into_iter().enumerate() {
        let answer = proxy.get_with(&origin.url("/"), &format!("Accept-Encoding: {accept}\r\n"));
        assert_eq!((answer.text().as_str(), answer.is_hit()), ("br, gzip", index > 0), "{accept}");
    }
    for (accept, told) in [
        ("gzip, deflate, br", "br, gzip, deflate"),
        ("gzip, deflate", "gzip, deflate"),
        ("gzip, br;q=0.9", "gzip, br;q=0.9"),
        ("gzip br", "gzip br"),
    ] {
        let answer = proxy.get_with(&origin.url("/"), &format!("Accept-Encoding: {accept}\r\n"));
        assert_eq!((answer.text().as_str(), answer.is_hit()), (told, false), "another wish: {accept}");
    }
    // What is never stored goes as it came.
    let post = proxy.request("POST", &origin.url("/"), "Accept-Encoding: gzip,br\r\nContent-Length: 0\r\n");
    assert_eq!(post.text(), "gzip,br");
}

#[test]
fn values_become_words() {
    let origin = varying("user-agent");
    let words = [("(?i)mobile|android", "mobile"), ("Chrome|^desktop$", "desktop")];
    let words = words.map(|(expression, word)| (expression.to_owned(), word.to_owned())).into();
    let proxy =
        forward(vec![KeyRule { normalize: vec![("user-agent".parse().unwrap(), words)], ..KeyRule::default() }]);
    for (agent, told, hit) in [
        ("User-Agent: Mozilla/5.0 (Linux; Android 10) Chrome/100 Mobile\r\n", "mobile", false),
        ("User-Agent: x MOBILE\r\n", "mobile", true),
        ("User-Agent: Chrome/1\r\n", "desktop", false),
        ("User-Agent: desktop\r\n", "desktop", true),
        ("User-Agent: curl\r\n", "none", false),
        ("", "none", true),
    ] {
        let answer = proxy.get_with(&origin.url("/"), agent);
        assert_eq!((answer.text().as_str(), answer.is_hit()), (told, hit), "{agent}");
    }
}

#[test]
fn fields_that_the_origin_does_not_get() {
    let origin = varying("user-agent");
    let proxy = forward(vec![KeyRule { drop_fields: vec!["user-agent".parse().unwrap()], ..KeyRule::default() }]);
    for (agent, hit) in [("a", false), ("b", true)] {
        let answer = proxy.get_with(&origin.url("/"), &format!("User-Agent: {agent}\r\n"));
        assert_eq!((answer.text().as_str(), answer.is_hit()), ("none", hit), "{agent}");
    }
}
