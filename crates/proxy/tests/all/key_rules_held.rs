//! What a review found that got past key rules: what the name of an object lacked reached its origin in another way, or what was stored under one
//! name stayed when it was taken back by another. In each test one client tries to choose what others get, or an operator to be rid of it.

use std::sync::Arc;

use tempfile::TempDir;
use tinaja_proxy::key_rules::{KeyRule, Query};
use tinaja_proxy::{Listener, Mode, Route, Routes};
use tinaja_store::Reference;

use crate::key_rules::{at_host, echo, forward, hosts, rules, varying, without};
use crate::support::{Client, Origin, Proxy, reply};

fn store_id(of: &[&str]) -> KeyRule {
    hosts(KeyRule { store_id: Some("cdn".parse().unwrap()), ..KeyRule::default() }, of)
}

/// The port that a client asks for reaches the origin in Host, and comes back in a redirect. It was no part of a store id's names behind a reverse
/// proxy: one request for `a.example:1` sent all clients there.
#[test]
fn a_port_is_part_of_a_store_id() {
    let origin = Origin::start(|request, stream| {
        let there = format!("http://{}/dir/", request.field("host").unwrap());
        let fields = format!("Cache-Control: max-age=600\r\nLocation: {there}\r\n");
        reply(stream, request, 301, &fields, b"")
    });
    // Prefixes are written down.
    let dir = TempDir::new().unwrap();
    let proxy = Proxy::with(|config| {
        config.control = Some(dir.path().to_owned());
        config.listeners[0] = Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap());
        rules(config, vec![store_id(&["a.example", "b.example"])]);
    });
    let led = |host: &str| at_host(&proxy, "GET", host, "/dir", "").field("location").to_owned();
    assert_eq!(led("a.example:1"), "http://a.example:1/dir/");
    assert_eq!(led("b.example"), "http://b.example/dir/");
    assert_eq!(led("a.example:80"), "http://b.example/dir/", "the scheme's own port is none");
    assert_eq!(led("b.example:1"), "http://a.example:1/dir/");
    // One port is taken back without the other.
    assert_eq!(at_host(&proxy, "PURGE", "b.example:1", "/dir", "").status, 200);
    assert_eq!(
        (led("b.example:1"), led("a.example")),
        ("http://b.example:1/dir/".into(), "http://b.example/dir/".into())
    );
    let soft = "Tinaja-Purge: prefix\r\n";
    assert_eq!(at_host(&proxy, "PURGE", "a.example:1", "/d", soft).status, 200);
    assert_eq!(
        (led("a.example:1"), led("a.example")),
        ("http://a.example:1/dir/".into(), "http://b.example/dir/".into())
    );
}

/// A staging site has the hosts of the site itself, at another listener: its pages were the site's.
#[test]
fn listeners_with_other_routes_share_no_store_ids() {
    let telling = |name: &'static str| {
        Origin::start(move |request, stream| {
            reply(stream, request, 200, "Cache-Control: max-age=600\r\n", name.as_bytes())
        })
    };
    let (site, staging) = (telling("site"), telling("staging"));
    let proxy = Proxy::with(|config| {
        let listener =
            |origin: &Origin| Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap());
        config.listeners = vec![listener(&site), listener(&staging), listener(&site)];
        rules(config, vec![store_id(&["a.example", "b.example"])]);
    });
    let get = |listener: usize, method: &str, host: &str| {
        let mut client = Client::connect(proxy.addresses[listener]);
        client.send(format!("{method} /x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read(method).unwrap()
    };
    for (listener, host, told, hit) in [
        (1, "a.example", "staging", false),
        (0, "a.example", "site", false),
        (1, "b.example", "staging", true),
        (2, "b.example", "site", true),
    ] {
        let answer = get(listener, "GET", host);
        assert_eq!((answer.text().as_str(), answer.is_hit()), (told, hit), "{listener} {host}");
    }
    assert_eq!(get(1, "PURGE", "b.example").status, 200);
    assert!(!get(1, "GET", "a.example").is_hit() && get(0, "GET", "a.example").is_hit());
}

/// CGI and its like have one variable for `X-Device`, `X_Device` and `x.device`. So an origin saw what a rule had dropped, or another word than the
/// one that counts.
#[test]
fn other_spellings_of_a_field_do_not_pass() {
    let origin = echo("");
    let words = vec![("^$".to_owned(), "none".to_owned()), ("n".to_owned(), "none".to_owned())];
    let proxy = forward(vec![KeyRule {
        drop_fields: vec!["x-gone".parse().unwrap()],
        normalize: vec![("user-agent".parse().unwrap(), words)],
        add: vec!["header:X-Device".parse().unwrap(), "header:Plain_Name".parse().unwrap()],
        encodings: Some(vec!["br".into()]),
        ..KeyRule::default()
    }]);
    let fields = "X_Gone: 1\r\nX.Gone: 1\r\nUser_Agent: evil\r\nX_Device: evil\r\nx-device: a\r\nPlain-Name: evil\r\nPlain_Name: b\r\n\
                  Accept_Encoding: x\r\nX_Other: stays\r\n";
    proxy.get_with(&origin.url("/"), fields);
    let asked = &origin.requests()[0];
    for gone in ["x_gone", "x.gone", "user_agent", "x_device", "plain-name", "accept_encoding"] {
        assert_eq!(asked.field(gone), None, "{gone}");
    }
    for (name, value) in [("x-device", "a"), ("plain_name", "b"), ("x_other", "stays"), ("user-agent", "none")] {
        assert_eq!(asked.field(name).as_deref(), Some(value), "{name}");
    }
    assert!(proxy.get_with(&origin.url("/"), "x-device: a\r\nPlain_Name: b\r\nX_Device: c\r\n").is_hit());
    assert!(!proxy.get_with(&origin.url("/"), "Plain_Name: b\r\n").is_hit());
    // Other methods reach the origin as they came.
    proxy.request("POST", &origin.url("/"), "X_Gone: 1\r\nContent-Length: 0\r\n");
    assert_eq!(origin.requests()[2].field("x_gone").as_deref(), Some("1"));
}

/// Where one cookie ends, each server decides by itself: one takes all between quotes for one value, and finds no `currency` where Tinaja finds one.
/// So all cookies count that the origin gets.
#[test]
fn a_cookie_counts_as_its_origin_reads_it() {
    let origin = echo("");
    let both = || vec!["currency".to_owned(), "lang".to_owned()];
    let add = vec!["cookie:currency".parse().unwrap()];
    let proxy = forward(vec![KeyRule { add, cookies: Some(both()), ..KeyRule::default() }]);
    let hit = |cookie: &str| proxy.get_with(&origin.url("/"), &format!("Cookie: {cookie}\r\n")).is_hit();
    assert!(!hit("currency=EUR; lang=de") && hit("lang=de; currency=EUR; session=1"));
    for other in ["currency=\"x; lang=de; currency=EUR\"", "currency=EUR; lang=\"de", "currency=EUR, lang=de"] {
        assert!(!hit(other), "{other}");
    }
    assert!(hit("currency=EUR; lang=de"));
}

/// What fits none of the expressions is as what is not there: a node that is asked by another takes what that has left away for nothing, and must
/// come to the same word.
#[test]
fn a_value_that_fits_nothing_counts_as_none() {
    let origin = varying("user-agent");
    let words =
        [("^(none)?$", "none"), ("mobile", "mobile")].map(|(one, word)| (one.to_owned(), word.to_owned())).into();
    let proxy =
        forward(vec![KeyRule { normalize: vec![("user-agent".parse().unwrap(), words)], ..KeyRule::default() }]);
    for (agent, told, hit) in
        [("curl", "none", false), ("", "none", true), ("none", "none", true), ("a mobile", "mobile", false)]
    {
        let answer = proxy.get_with(&origin.url("/"), &format!("User-Agent: {agent}\r\n"));
        assert_eq!((answer.text().as_str(), answer.is_hit()), (told, hit), "{agent}");
    }
}

/// What was stored before there was a rule has the URL's own name. A purge and a change by the new name left it, and it was back with the old rules.
#[test]
fn what_has_its_own_name_is_taken_back_too() {
    let origin = echo("");
    let store: Arc<dyn tinaja_store::Store> = Arc::new(Reference::new());
    let url = origin.url("/x?utm_a=1");
    let with = |all: Vec<KeyRule>| Proxy::over(store.clone(), |config| rules(config, all));
    for (method, status) in [("PURGE", 200), ("POST", 200)] {
        let mut before = with(Vec::new());
        assert!(!before.get(&url).is_hit() && before.get(&url).is_hit());
        before.stop();
        let mut ruled = with(vec![without(&["utm_*"])]);
        assert_eq!(ruled.request(method, &url, "Content-Length: 0\r\n").status, status, "{method}");
        ruled.stop();
        let mut after = with(Vec::new());
        assert!(!after.get(&url).is_hit(), "{method}");
        assert_eq!(after.request("PURGE", &url, "").status, 200);
        after.stop();
    }
}

/// A rule whose result has no route is wrong for GET and HEAD, which get a 404. POST, OPTIONS and PURGE got it too, though they do not go there.
#[test]
fn a_rule_that_leads_nowhere_stops_no_other_method() {
    let origin = echo("");
    let proxy = Proxy::with(|config| {
        let route = Route { host: Some("example".into()), path: "/".into(), origin: origin.url("").parse().unwrap() };
        config.listeners[0].mode = Mode::Reverse(Routes::new(vec![route], None).unwrap());
        let rule = KeyRule { fold_host: Some("www.example".parse().unwrap()), ..KeyRule::default() };
        rules(config, vec![hosts(rule, &["example"])]);
        let told = config.listeners[0].lost_folds();
        assert!(told.len() == 1 && told[0].contains("Add a route for www.example"), "{told:?}");
    });
    for (method, status) in [("GET", 404), ("HEAD", 404), ("POST", 200), ("OPTIONS", 200), ("PURGE", 404)] {
        let answer = at_host(&proxy, method, "example", "/", "Content-Length: 0\r\n");
        assert_eq!(answer.status, status, "{method}: {answer:?}");
        if method == "PURGE" {
            assert_eq!(answer.text(), "It was not in the cache.\n");
        }
    }
    assert_eq!(origin.requests().iter().map(|one| one.method.clone()).collect::<Vec<_>>(), ["POST", "OPTIONS"]);
}

/// A prefix with a query that a rule drops was one without it, and took all that begins like the path.
#[test]
fn a_prefix_is_what_was_asked_for() {
    let origin = echo("");
    let dir = TempDir::new().unwrap();
    let proxy = Proxy::with(|config| {
        config.control = Some(dir.path().to_owned());
        rules(config, vec![KeyRule { query: Query::Nothing, ..KeyRule::default() }]);
    });
    let hit = |path: &str| proxy.get(&origin.url(path)).is_hit();
    assert!(!hit("/p?utm") && !hit("/page"));
    let purge = |path: &str| proxy.request("PURGE", &origin.url(path), "Tinaja-Purge: prefix\r\n").status;
    assert_eq!(purge("/p?x"), 200);
    assert!(hit("/p") && hit("/page"));
    assert_eq!(purge("/p"), 200);
    assert!(!hit("/p") && !hit("/page"));
}
