//! X-Forwarded-For and Forwarded are believed from the proxies that a listener names, as far back as they reach, and from nobody else.
//! Behind a load balancer that speaks HTTP every client had the balancer's address.

use tinaja_proxy::{Action, ChainField, Config, Forwarding, Mode, Routes, Rule};

use crate::support::{Origin, Proxy, eventually, reply};

/// An origin that says what its proxy says of the client: X-Forwarded-For, then Forwarded.
fn telling() -> Origin {
    Origin::start(|request, stream| {
        let said = ["x-forwarded-for", "forwarded"].map(|name| request.field(name).unwrap_or_else(|| "-".into()));
        reply(stream, request, 200, "Cache-Control: no-store\r\n", said.join(" | ").as_bytes())
    })
}

/// A reverse proxy that believes these networks, and denies 203.0.113.0/24.
fn believing(origin: &Origin, networks: &[&str], change: impl FnOnce(&mut Config)) -> Proxy {
    let url = origin.url("").parse().unwrap();
    Proxy::with(|config| {
        let listener = &mut config.listeners[0];
        listener.mode = Mode::Reverse(Routes::to(url));
        listener.trusted_proxies = networks.iter().map(|network| network.parse().unwrap()).collect();
        let denied = vec!["203.0.113.0/24".parse().unwrap()];
        listener.rules = vec![Rule { clients: denied, ..Rule::new(Action::Deny) }].into();
        change(config);
    })
}

fn asked(proxy: &Proxy, method: &str, fields: &str) -> (u16, String) {
    let mut client = proxy.client();
    client.send(format!("{method} / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"));
    let answer = client.read(method).unwrap();
    (answer.status, answer.text())
}

/// The same over HTTP/2.
fn asked_h2(proxy: &Proxy, fields: &str) -> u16 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::get("http://a.example/");
        for line in fields.split_terminator("\r\n") {
            let (name, value) = line.split_once(':').unwrap();
            request = request.header(name.to_ascii_lowercase(), value.trim());
        }
        let (answer, _) = send.ready().await.unwrap().send_request(request.body(()).unwrap(), true).unwrap();
        answer.await.unwrap().status().as_u16()
    })
}

const PROXIES: [&str; 2] = ["127.0.0.0/8", "10.0.0.0/8"];

/// Each as the proxy in front would pass it on, which has added the last address.
#[test]
fn rules_go_by_the_last_address_that_is_no_proxys() {
    let origin = telling();
    let proxy = believing(&origin, &PROXIES, |_| {});
    for (fields, status) in [
        ("", 200),
        ("X-Forwarded-For: 198.51.100.7\r\n", 200),
        ("X-Forwarded-For: 203.0.113.7\r\n", 403),
        ("X-Forwarded-For: 203.0.113.7, 10.0.0.1\r\n", 403),
        ("X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-For: 10.0.0.1\r\n", 403),
        // A denied client that says that it is another, or that what it says makes no sense.
        ("X-Forwarded-For: 198.51.100.7, 203.0.113.7\r\n", 403),
        ("X-Forwarded-For: 10.0.0.9, 203.0.113.7, 10.0.0.1\r\n", 403),
        ("X-Forwarded-For: \", unknown,,203.0.113.7\r\n", 403),
        ("X-Forwarded-For: 198.51.100.7\r\nX-Forwarded-For: 203.0.113.7\r\n", 403),
        ("X_Forwarded_For: 198.51.100.7\r\nX-Forwarded-For: 203.0.113.7\r\n", 403),
        ("X-Real-IP: 198.51.100.7\r\nForwarded: for=198.51.100.7\r\nX-Forwarded-For: 203.0.113.7\r\n", 403),
        // An allowed one that is said to be another by what it has written itself.
        ("X-Forwarded-For: 203.0.113.7, 198.51.100.7\r\n", 200),
        ("Forwarded: for=203.0.113.7\r\n", 200),
        // What cannot be read is the proxy's own request.
        ("X-Forwarded-For: 203.0.113.7, unknown\r\n", 200),
        ("X-Forwarded-For: 203.0.113.7 \t x, 10.0.0.1\r\n", 200),
        ("X-Forwarded-For: 203.0.113.7,\r\n", 200),
    ] {
        assert_eq!(asked(&proxy, "GET", fields).0, status, "{fields}");
        assert_eq!(asked_h2(&proxy, fields), status, "over HTTP/2: {fields}");
    }
    // Connection cannot take it away, and HTTP/2 has none.
    let fields = "Connection: X-Forwarded-For\r\nX-Forwarded-For: 203.0.113.7\r\n";
    assert_eq!(asked(&proxy, "GET", fields).0, 403);
}

#[test]
fn whoever_is_not_named_speaks_for_itself() {
    let origin = telling();
    let proxy = believing(&origin, &["192.0.2.0/24", "198.51.100.7"], |_| {});
    for fields in ["X-Forwarded-For: 203.0.113.7\r\n", "X-Forwarded-For: 203.0.113.7, 192.0.2.1\r\n"] {
        assert_eq!(asked(&proxy, "GET", fields).0, 200);
        assert_eq!(asked_h2(&proxy, fields), 200);
    }
}

#[test]
fn forwarded_is_believed_where_the_operator_says_so() {
    let origin = telling();
    let proxy = believing(&origin, &PROXIES, |config| config.listeners[0].client_field = ChainField::Forwarded);
    for (fields, status) in [
        ("Forwarded: for=203.0.113.7;proto=https\r\n", 403),
        ("Forwarded: for=198.51.100.7, for=\"203.0.113.7:4711\", for=10.0.0.1\r\n", 403),
        ("Forwarded: for=\"\r\nForwarded: for=203.0.113.7\r\n", 403),
        ("X-Forwarded-For: 198.51.100.7\r\nForwarded: for=203.0.113.7\r\n", 403),
        ("X-Forwarded-For: 203.0.113.7\r\n", 200),
        ("Forwarded: for=203.0.113.7, for=198.51.100.7\r\n", 200),
        ("Forwarded: for=\", for=203.0.113.7\r\n", 403),
        ("Forwarded: x, for=203.0.113.7\r\n", 403),
        ("Forwarded: for=203.0.113.7, for=_hidden\r\n", 200),
    ] {
        assert_eq!(asked(&proxy, "GET", fields).0, status, "{fields}");
        assert_eq!(asked_h2(&proxy, fields), status, "over HTTP/2: {fields}");
    }
}

/// One connection of the proxy before carries many clients, and each request is its own client's.
#[test]
fn each_request_of_a_connection_has_a_client_of_its_own() {
    let origin = telling();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let proxy = believing(&origin, &PROXIES, |config| {
        config.access_log = Some(log.clone());
        // Those before this proxy count for none of its clients.
        config.limits.client_connections = 1;
    });
    let clients = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned)).collect::<Vec<_>>()
    };
    let _other = (asked_keeping(&proxy), asked_keeping(&proxy));
    eventually("the first two are logged", || clients().len() == 2);
    let mut client = proxy.client();
    for named in ["198.51.100.1", "2001:db8::1", "198.51.100.2"] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: {named}\r\n\r\n"));
        let answer = client.read("GET").unwrap();
        assert_eq!(answer.text(), format!("{named}, 127.0.0.1 | -"), "added, and nothing taken away");
    }
    // The client of the request before is not that of one that cannot be read.
    client.send("GET / HTTP/9.9\r\n\r\n");
    assert_eq!(client.read("GET").unwrap().status, 505);
    eventually("all is logged", || clients().len() == 6);
    assert_eq!(clients()[2..], ["198.51.100.1", "2001:db8::1", "198.51.100.2", "127.0.0.1"]);
}

fn asked_keeping(proxy: &Proxy) -> crate::support::Client {
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(client.read("GET").unwrap().status, 200);
    client
}

#[test]
fn origins_hear_of_the_chain_in_either_field() {
    let origin = telling();
    let both = |field| {
        believing(&origin, &PROXIES, |config| {
            config.listeners[0].forwarding = Forwarding::Both;
            config.listeners[0].client_field = field;
        })
    };
    let (by_x, by_forwarded) = (both(ChainField::XForwardedFor), both(ChainField::Forwarded));
    let (of_x, of_forwarded) =
        ("X-Forwarded-For: 6.6.6.6, 198.51.100.7\r\n", "Forwarded: for=6.6.6.6, for=\"[2001:db8::7]\"\r\n");
    let lies = "Forwarded: for=\"6.6.6.6\r\n";
    for method in ["GET", "DELETE"] {
        for (proxy, fields, expected) in [
            // What the proxies do not write is their clients' word, and is not passed on.
            (
                &by_x,
                format!("{lies}{of_x}"),
                "6.6.6.6, 198.51.100.7, 127.0.0.1 | for=198.51.100.7, for=127.0.0.1;proto=http",
            ),
            (
                &by_forwarded,
                format!("X-Forwarded-For: 6.6.6.6\r\n{of_forwarded}"),
                "2001:db8::7, 127.0.0.1 | for=6.6.6.6, for=\"[2001:db8::7]\", for=127.0.0.1;proto=http",
            ),
            // Behind an open quote nothing would be read.
            (
                &by_forwarded,
                format!("{lies}Forwarded: for=198.51.100.7\r\n"),
                "198.51.100.7, 127.0.0.1 | for=198.51.100.7, for=127.0.0.1;proto=http",
            ),
            (&by_forwarded, lies.to_owned(), "127.0.0.1 | for=127.0.0.1;proto=http"),
            (&by_forwarded, format!("{lies}X-Forwarded-For: 6.6.6.6\r\n"), "127.0.0.1 | for=127.0.0.1;proto=http"),
            (&by_forwarded, "X-Forwarded-For: 6.6.6.6\r\n".to_owned(), "127.0.0.1 | for=127.0.0.1;proto=http"),
        ] {
            assert_eq!(asked(proxy, method, &fields), (200, expected.to_owned()), "{method} {fields}");
        }
    }
}

/// Who says who the client is at the connection's beginning may be a proxy that asks for others in turn.
#[test]
fn behind_the_proxy_protocol_the_client_that_it_names_may_be_believed() {
    let origin = telling();
    let proxy = believing(&origin, &["10.0.0.0/8"], |config| {
        config.listeners[0].proxy_protocol = vec!["127.0.0.0/8".parse().unwrap()];
    });
    for (peer, status) in [("10.0.0.1", 403), ("198.51.100.1", 200)] {
        let mut client = proxy.client();
        client.send(format!("PROXY TCP4 {peer} 127.0.0.1 9 80\r\n"));
        client.send("GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n");
        assert_eq!(client.read("GET").unwrap().status, status, "{peer}");
    }
}

/// The id is the word of who has sent the request, whoever asks for it.
#[test]
fn ids_of_requests_are_the_proxys_before() {
    let origin = telling();
    let proxy = believing(&origin, &PROXIES, |config| {
        config.request_ids.header = Some(http::HeaderName::from_static("x-request-id"));
        config.request_ids.trust = vec!["127.0.0.1".parse().unwrap()];
    });
    let mut client = proxy.client();
    client.send(
        "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 198.51.100.7\r\nX-Request-Id: the-balancers\r\n\r\n",
    );
    assert_eq!(client.read("GET").unwrap().field("x-request-id"), "the-balancers");
}

#[test]
fn a_transparent_proxy_believes_nobody() {
    let mut config = Config::default();
    config.listeners[0].mode = Mode::Transparent(tinaja_proxy::Diversion::Redirect);
    config.listeners[0].trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    assert!(config.check().unwrap_err().to_string().contains("remove trusted_proxies"));
}
