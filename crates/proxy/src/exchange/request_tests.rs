use tinaja_http::judge::judge;

use super::*;
use crate::rules::{Action, Rule};

fn ticket(listener: Listener, judged: &Judged) -> Ticket {
    let destination = Destination { tls: false, host: "a".into(), port: 80 };
    Ticket {
        id: RequestId::Made(1),
        began: Instant::now(),
        client: [192, 0, 2, 7].into(),
        peer: [192, 0, 2, 7].into(),
        name: name_of(&listener.mode, &destination, false, "a", "/x"),
        listener: Arc::new(listener),
        own: Arc::new(Own::of_interfaces(tinaja_clock::Clock::system())),
        destination,
        behind: None,
        mirror: None,
        chosen: None,
        tls: false,
        host: "a".into(),
        path: "/x".into(),
        https: false,
        framing: judged.framing,
        index: 0,
        neighbour: false,
        intercepted: false,
        keyed: None,
    }
}

fn read(ticket: Ticket, judged: &Judged, head: &Bytes) -> Request {
    Request::read(ticket.into(), judged, head, Version::HTTP_11, "me").unwrap()
}

/// By rules that allow some addresses everything and WebSockets from here, and deny what else is asked.
#[test]
fn what_leaves_http() {
    let about = |action, protocol: &str| Rule { upgrades: vec![protocol.into()], ..Rule::new(action) };
    for (line, fields, asked, open, public) in [
        ("GET /x", "Connection: upgrade\r\nUpgrade: WebSocket\r\n", "WebSocket", Some("WebSocket"), true),
        ("GET /x", "Connection: upgrade\r\nUpgrade: h2c, x, websocket\r\n", "x,websocket", Some("websocket"), false),
        ("GET /x", "Connection: upgrade\r\nUpgrade: h2c, h2c\r\n", "", None, true),
        ("GET /x", "Upgrade: websocket\r\n", "", None, true),
        ("OPTIONS /x", "Connection: upgrade\r\nUpgrade: websocket\r\n", "websocket", Some("websocket"), true),
        ("OPTIONS /x", "Max-Forwards: 1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n", "websocket", None, true),
    ] {
        let head = Bytes::from(format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let judged = judge(&head).unwrap();
        let mut listener = Listener::forward("127.0.0.1:80".parse().unwrap());
        listener.rules.push(about(Action::Allow, "websocket"));
        listener.rules.push(Rule::allow_destination("10.0.0.0/8".parse().unwrap()));
        listener.rules.push(about(Action::Deny, "x"));
        let request = read(ticket(listener, &judged), &judged, &head);
        assert_eq!(request.asked_protocols().collect::<Vec<_>>().join(","), asked, "{line} {fields}");
        assert_eq!(request.may_switch_to().unwrap().as_deref(), open, "{line} {fields}");
        let get = request.ticket.asked(request.method());
        let may = |address: [u8; 4]| request.check_switch(get, address.into()).is_ok();
        assert_eq!((may([1, 1, 1, 1]), may([10, 0, 0, 1])), (public, true), "{line} {fields}");
    }
}

#[test]
fn one_host() {
    for (head, wire) in [
        ("GET http://A:80/x HTTP/1.1\r\nHOST: A\r\nX: y\r\nHosted: z\r\n\r\n", "Host: a\r\nX: y\r\nHosted: z"),
        ("GET /x HTTP/1.1\r\nX: y\r\nhost: a\r\n\r\n", "host: a\r\nX: y"),
    ] {
        let head = Bytes::from_static(head.as_bytes());
        let judged = judge(&head).unwrap();
        let ticket = ticket(Listener::forward("127.0.0.1:80".parse().unwrap()), &judged);
        assert_eq!(ticket.url(), "http://a/x");
        assert_eq!(Ticket { intercepted: true, ..ticket.clone() }.url(), "a:80");
        for (host, name) in [("a", "a"), ("a:81", "a"), ("[::1]", "::1"), ("[::1]:81", "::1")] {
            assert_eq!(Ticket { host: host.into(), ..ticket.clone() }.host_name(), name);
        }
        let request = read(ticket, &judged, &head);
        let mut sent = Vec::new();
        request.head.write_to(&mut sent);
        assert_eq!(String::from_utf8(sent).unwrap(), format!("GET /x HTTP/1.1\r\n{wire}\r\n\r\n"));
    }
}

#[test]
fn what_is_for_the_cache() {
    let plain = RequestDirectives::default();
    let no_store = RequestDirectives { no_store: true, ..plain };
    let none = Framing::Length(0);
    for (method, framing, directives, why) in [
        (Method::GET, none, plain, None),
        (Method::HEAD, none, plain, None),
        (Method::GET, none, no_store, Some(Outcome::Request)),
        (Method::GET, Framing::Length(1), plain, Some(Outcome::Bypass)),
        (Method::GET, Framing::Chunked, plain, Some(Outcome::Bypass)),
        (Method::POST, none, plain, Some(Outcome::Method)),
        (Method::OPTIONS, none, no_store, Some(Outcome::Method)),
    ] {
        assert_eq!(not_for_cache(&method, framing, &directives), why, "{method} {framing:?} {directives:?}");
    }
}
