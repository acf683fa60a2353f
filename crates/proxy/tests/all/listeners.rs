//! Several listeners in one process: each with its own mode, routes and rules, all over one cache.

use std::sync::Arc;

use crate::support::{Client, Log, Origin, Proxy, Response, reply};
use tinaja_proxy::{Action, Config, Listener, Mode, Route, Routes, Rule, Rules};
use tinaja_store::{Reference, Store};

/// Says what it was asked for, and may be cached.
fn telling(name: &'static str) -> Origin {
    Origin::start(move |request, stream| {
        let body = format!("{name} {}{}", request.field("host").unwrap(), request.path);
        reply(stream, request, 200, "Cache-Control: max-age=60\r\n", body.as_bytes())
    })
}

fn forward(rules: Vec<Rule>) -> Listener {
    Listener { rules: rules.into(), ..Listener::forward("127.0.0.1:0".parse().unwrap()) }
}

fn reverse(routes: Vec<Route>, default: Option<&Origin>) -> Listener {
    let default = default.map(|origin| origin.url("").parse().unwrap());
    let mode = Mode::Reverse(Routes::new(routes, default).unwrap());
    Listener { mode, ..Listener::forward("127.0.0.1:0".parse().unwrap()) }
}

fn route(host: &str, path: &str, origin: &Origin) -> Route {
    let host = (!host.is_empty()).then(|| host.to_owned());
    Route { host, path: path.into(), origin: origin.url("").parse().unwrap() }
}

fn loopback() -> Rule {
    Rule::allow_destination("127.0.0.0/8".parse().unwrap())
}

fn logged(log: &Log, listeners: Vec<Listener>) -> Proxy {
    Proxy::with(|config| {
        config.listeners = listeners;
        log.of(config);
    })
}

fn over(store: &Arc<dyn Store>, listeners: Vec<Listener>) -> Proxy {
    Proxy::over(store.clone(), |config| config.listeners = listeners)
}

fn start(listeners: Vec<Listener>) -> Proxy {
    over(&(Arc::new(Reference::new()) as _), listeners)
}

fn client(proxy: &Proxy, listener: usize) -> Client {
    Client::connect(proxy.addresses[listener])
}

fn ask(proxy: &Proxy, listener: usize, method: &str, host: &str, path: &str) -> Response {
    let mut client = client(proxy, listener);
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.read(method).unwrap()
}

#[test]
fn forward_and_reverse_side_by_side() {
    let (one, two) = (telling("one"), telling("two"));
    let log = Log::new();
    let listeners = vec![
        forward(vec![loopback()]),
        reverse(vec![route("", "/img", &two)], Some(&one)),
        reverse(vec![route("b.example", "/", &two), route("", "/img/big", &one)], None),
    ];
    let proxy = logged(&log, listeners);
    let (one_host, two_host) = (one.address.to_string(), two.address.to_string());
    for (listener, host, path, status, text) in [
        (1, "a.example", "/x", 200, "one a.example/x"),
        (1, "a.example", "/img/x", 200, "two a.example/img/x"),
        (1, "a.example", "/images", 200, "one a.example/images"),
        (1, "a.example", "/img/../x", 400, ""),
        (2, "b.example", "/x?y", 200, "two b.example/x?y"),
        (2, "B.example:8080", "/x", 200, "two b.example:8080/x"),
        (2, "c.example", "/img/big", 200, "one c.example/img/big"),
        (2, "c.example", "/x", 404, ""),
        (2, "127.0.0.1", "/", 404, ""),
        (0, "a.example", "/x", 400, ""),
    ] {
        let response = ask(&proxy, listener, "GET", host, path);
        assert_eq!(response.status, status, "{listener} {host}{path} {response:?}");
        if status == 200 {
            assert_eq!(response.text(), text);
        }
    }
    let none = ask(&proxy, 2, "GET", "c.example", "/x");
    assert!(log.why(&none).contains("no route for c.example"), "{}", log.why(&none));
    for (origin, host) in [(&one, one_host), (&two, two_host)] {
        let response = proxy.get(&origin.url("/f"));
        assert!(response.text().ends_with(&format!("{host}/f")), "{}", response.text());
    }
}

#[test]
fn listeners_share_what_is_the_same_request_and_nothing_else() {
    let origin = telling("one");
    let proxy = start(vec![
        forward(vec![loopback()]),
        forward(vec![loopback()]),
        reverse(vec![], Some(&origin)),
        reverse(vec![route("", "/", &origin)], None),
    ]);
    let host = origin.address.to_string();
    let url = origin.url("/x");
    for (listener, target, hit) in
        [(0, url.as_str(), false), (1, url.as_str(), true), (2, "/x", false), (3, "/x", true), (0, url.as_str(), true)]
    {
        let response = ask(&proxy, listener, "GET", &host, target);
        assert_eq!((response.status, response.is_hit()), (200, hit), "{listener} {response:?}");
    }
    assert_eq!(origin.count(), 2);
    // Another site of the same origin is another object.
    assert!(!ask(&proxy, 2, "GET", "other.example", "/x").is_hit());
    // What changes an object by one listener is seen by the other of its kind.
    assert_eq!(ask(&proxy, 3, "DELETE", &host, "/x").status, 200);
    assert!(!ask(&proxy, 2, "GET", &host, "/x").is_hit());
    assert!(ask(&proxy, 1, "GET", &host, &url).is_hit());
}

#[test]
fn what_one_listener_may_reach_is_not_served_by_another_that_may_not() {
    let origin = telling("secret");
    let port = origin.address.port();
    let store: Arc<dyn Store> = Arc::new(Reference::new());
    let proxy = over(&store, vec![forward(vec![loopback()]), forward(vec![])]);
    // A name as well: that it leads inside is known only where it was resolved.
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{port}/x");
        let host = format!("{host}:{port}");
        assert_eq!(ask(&proxy, 0, "GET", &host, &url).status, 200);
        assert!(ask(&proxy, 0, "GET", &host, &url).is_hit());
        for method in ["GET", "HEAD"] {
            let refused = ask(&proxy, 1, method, &host, &url);
            assert_eq!((refused.status, refused.is_hit()), (403, false), "{refused:?}");
        }
        assert!(ask(&proxy, 0, "GET", &host, &url).is_hit(), "the refusal took it away");
    }
    let asked = origin.count();
    drop(proxy);
    // Nor after a restart with other rules.
    let stricter = over(&store, vec![forward(vec![])]);
    let url = origin.url("/x");
    assert_eq!(stricter.get(&url).status, 403);
    assert_eq!(origin.count(), asked);
}

#[test]
fn each_listener_has_its_own_rules() {
    let origin = telling("one");
    let deny = |rule: Rule| Rule { action: Action::Deny, ..rule };
    let any = || Rule::new(Action::Allow);
    let local = Rule { clients: vec!["127.0.0.0/8".parse().unwrap()], ..any() };
    let nobody = Rule { clients: vec!["192.0.2.0/24".parse().unwrap()], ..any() };
    let reading = Rule { methods: vec!["GET".into(), "HEAD".into()], ..any() };
    let with = |listener: Listener, rules: Vec<Rule>| Listener { rules: Rules::from(rules), ..listener };
    let plain = || reverse(vec![], Some(&origin));
    let log = Log::new();
    let listeners = vec![
        with(plain(), vec![reading.clone(), deny(any())]),
        with(plain(), vec![nobody, deny(any())]),
        with(plain(), vec![local.clone(), deny(any())]),
        with(plain(), vec![deny(loopback())]),
        forward(vec![deny(local), loopback()]),
        forward(vec![loopback(), deny(Rule { ports: vec![origin.address.port().into()], ..any() })]),
        forward(vec![deny(Rule { ports: vec![origin.address.port().into()], ..any() }), loopback()]),
    ];
    let proxy = logged(&log, listeners);
    let host = origin.address.to_string();
    let url = origin.url("/x");
    for (listener, method, target, status) in [
        (2, "GET", "/x", 200),
        (0, "GET", "/x", 200),
        (0, "POST", "/x", 403),
        (1, "GET", "/x", 403),
        (2, "POST", "/x", 200),
        // Although it is in the cache.
        (3, "GET", "/x", 403),
        (4, "GET", url.as_str(), 403),
        (5, "GET", url.as_str(), 200),
        (6, "GET", url.as_str(), 403),
    ] {
        let response = ask(&proxy, listener, method, &host, target);
        assert_eq!(response.status, status, "{listener} {method} {response:?}");
        if status == 403 {
            let why = log.why(&response);
            assert!(["rule 1", "rule 2"].iter().any(|rule| why.contains(rule)), "{why}");
        }
    }
}

#[test]
fn a_rule_for_tunnels_sees_client_method_port_and_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let deny = |rule: Rule| Rule { action: Action::Deny, ..rule };
    let open = || vec![loopback(), Rule::allow_connect_port(port)];
    let no_tunnels = Rule { methods: vec!["CONNECT".into()], ..Rule::new(Action::Deny) };
    let proxy = start(vec![
        forward(open()),
        forward([vec![no_tunnels], open()].concat()),
        forward([vec![deny(loopback())], open()].concat()),
        forward(vec![Rule::allow_connect_port(port)]),
    ]);
    for (listener, status) in [(0, 200), (1, 403), (2, 403), (3, 403)] {
        let target = format!("localhost:{port}");
        assert_eq!(ask(&proxy, listener, "CONNECT", &target, &target).status, status, "{listener}");
    }
}

#[test]
fn listeners_that_overlap_are_refused_by_name() {
    let address = || "127.0.0.1:31280".parse().unwrap();
    let twice =
        Config { listeners: vec![Listener::forward(address()), Listener::forward(address())], ..Config::default() };
    let storage = Arc::new(Reference::new());
    let error = tinaja_proxy::Server::bind(twice, storage).err().unwrap().to_string();
    assert!(error.contains("127.0.0.1:31280 and 127.0.0.1:31280 overlap"), "{error}");
}

#[test]
fn stopping_ends_every_listener_and_waits_for_their_requests() {
    let slow = Origin::start(|request, stream| {
        std::thread::sleep(std::time::Duration::from_millis(800));
        reply(stream, request, 200, "", b"late")
    });
    let mut proxy = start(vec![forward(vec![loopback()]), reverse(vec![], Some(&slow)), reverse(vec![], Some(&slow))]);
    let url = slow.url("/");
    let waiting: Vec<_> = [(0, url), (1, "/".into()), (2, "/".into())]
        .map(|(listener, target): (usize, String)| {
            let (mut client, host) = (client(&proxy, listener), slow.address.to_string());
            std::thread::spawn(move || {
                client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                let answer = client.read("GET").map(|response| response.text());
                (answer, client.is_closed())
            })
        })
        .into();
    crate::support::eventually("all three are at the origin", || slow.count() == 3);
    proxy.stop();
    for thread in waiting {
        assert_eq!(thread.join().unwrap(), (Some("late".to_owned()), true));
    }
    for address in &proxy.addresses {
        assert!(std::net::TcpStream::connect(address).is_err(), "{address} still listens");
    }
}
