//! The PROXY protocol: from the networks that a listener names, a connection says who its client is, or is closed; from others it is a
//! request that cannot be read. Behind a load balancer every client had the balancer's address.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use tinaja_proxy::{Action, Config, Mode, Routes, Rule};
use tinaja_testkit::client::get;
use tinaja_testkit::port::free_port;

use crate::support::{Client, Origin, Proxy, eventually, reply};

const PATIENCE: Duration = Duration::from_secs(10);

/// An origin that says who its proxy says the client is.
fn telling() -> Origin {
    Origin::start(|request, stream| {
        let told = request.field("x-forwarded-for").unwrap_or_default();
        reply(stream, request, 200, "Cache-Control: no-store\r\n", told.as_bytes())
    })
}

fn told_by(origin: &Origin, network: &str, change: impl FnOnce(&mut Config)) -> Proxy {
    let url = origin.url("").parse().unwrap();
    Proxy::with(|config| {
        config.listeners[0].mode = Mode::Reverse(Routes::to(url));
        config.listeners[0].proxy_protocol = vec![network.parse().unwrap()];
        change(config);
    })
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// A header of version 2 for a client, with so many bytes of what is to be skipped.
fn version_2(client: [u8; 4], skipped: usize) -> Vec<u8> {
    let length = u16::try_from(12 + skipped).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11", &length[..], &client, &[127, 0, 0, 1, 0, 9, 0, 80], &vec![0; skipped]].concat()
}

#[test]
fn the_client_is_whom_the_header_names() {
    let origin = telling();
    let proxy = told_by(&origin, "127.0.0.0/8", |_| {});
    for (header, client) in [
        (b"PROXY TCP4 203.0.113.7 127.0.0.1 9 80\r\n".to_vec(), "203.0.113.7"),
        (b"PROXY TCP6 2001:db8::7 ::1 9 80\r\n".to_vec(), "2001:db8::7"),
        (b"PROXY TCP6 ::ffff:203.0.113.7 ::1 9 80\r\n".to_vec(), "203.0.113.7"),
        (version_2([203, 0, 113, 9], 0), "203.0.113.9"),
        (version_2([203, 0, 113, 9], 20_000), "203.0.113.9"),
        // The proxy itself, and clients without an address.
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "127.0.0.1"),
        ([b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8", &[b'/'; 216][..]].concat(), "127.0.0.1"),
    ] {
        for in_pieces in [false, true] {
            let mut client_of = proxy.client();
            if in_pieces && header.len() < 1000 {
                for byte in &header {
                    client_of.send([*byte]);
                }
                client_of.send(REQUEST);
            } else {
                client_of.send([&header, REQUEST.as_bytes()].concat());
            }
            // Once for all requests of the connection.
            for _ in 0..2 {
                let answer = client_of.read("GET").unwrap();
                assert_eq!((answer.status, answer.text().as_str()), (200, client), "{}", header.escape_ascii());
                client_of.send(REQUEST);
            }
        }
    }
}

#[test]
fn what_does_not_begin_with_a_header_is_closed_and_counted() {
    let (origin, metrics) = (telling(), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let proxy = told_by(&origin, "127.0.0.0/8", |config| config.metrics = Some(metrics));
    let bad: [&[u8]; 6] = [
        REQUEST.as_bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PROXY TCP4 203.0.113.7 127.0.0.1 9\r\nGET / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c",
        &[b'P'; 300],
        b"\x16\x03\x01\x02\0\x01\0",
    ];
    for bytes in bad {
        let mut client = proxy.client();
        client.send(bytes);
        assert!(client.is_closed(), "{}", bytes.escape_ascii());
    }
    // One that ends amid its header, and one that only looks whether somebody is there.
    let client = proxy.client();
    client.stream().write_all(b"PROXY TCP4").unwrap();
    drop(client);
    drop(proxy.client());
    let counted = |count: usize| {
        let line = format!("\ntinaja_proxy_protocol_failures_total {count}\n");
        get(metrics, "/metrics").unwrap().text().contains(&line)
    };
    eventually("all but the last are counted", || counted(bad.len() + 1));
    assert_eq!(origin.count(), 0);
}

#[test]
fn whoever_is_not_named_is_not_believed() {
    let origin = telling();
    let proxy = told_by(&origin, "192.0.2.0/24", |_| {});
    let mut client = proxy.client();
    client.send(REQUEST);
    let answer = client.read("GET").unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "127.0.0.1"));
    let mut client = proxy.client();
    client.send(format!("PROXY TCP4 203.0.113.7 127.0.0.1 9 80\r\n{REQUEST}"));
    let answer = client.read("GET").unwrap();
    assert_eq!(answer.status, 400, "{}", answer.head);
    assert_eq!(origin.count(), 1);
}

#[test]
fn rules_and_limits_go_by_the_client_that_is_named() {
    let origin = telling();
    let proxy = told_by(&origin, "127.0.0.0/8", |config| {
        let denied = vec!["203.0.113.0/24".parse().unwrap()];
        config.listeners[0].rules = vec![Rule { clients: denied, ..Rule::new(Action::Deny) }].into();
        config.limits.client_connections = 1;
    });
    let connect = |client: u8, network: u8| {
        let mut connected = proxy.client();
        connected.send([&version_2([network, 0, 113, client], 0), REQUEST.as_bytes()].concat());
        connected
    };
    assert_eq!(connect(7, 203).read("GET").unwrap().status, 403);
    // Each client has one connection, and the proxy before them any number.
    let mut all: Vec<_> = (1..5).map(|client| connect(client, 198)).collect();
    assert!(all.iter_mut().all(|client| client.read("GET").unwrap().status == 200));
    assert_eq!(connect(2, 198).read("GET").unwrap().status, 429);
    drop(all.remove(1));
    eventually("there is room for it again", || connect(2, 198).read("GET").is_some_and(|answer| answer.status == 200));
}

#[test]
fn a_header_that_does_not_come_is_not_waited_for() {
    let origin = telling();
    let url = origin.url("").parse().unwrap();
    let (proxy, hand) = Proxy::by_hand(|config| {
        config.listeners[0].mode = Mode::Reverse(Routes::to(url));
        config.listeners[0].proxy_protocol = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let mut client = Client::connect(proxy.address);
    client.send("PROXY TCP4 203.0.113.7");
    client.stream().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut byte = [0];
    assert!(client.stream().read(&mut byte).is_err(), "it is waited for");
    client.stream().set_read_timeout(Some(PATIENCE)).unwrap();
    eventually("it is closed", || {
        hand.advance(PATIENCE);
        client.stream().set_nonblocking(true).unwrap();
        let closed = matches!(client.stream().read(&mut byte), Ok(0));
        client.stream().set_nonblocking(false).unwrap();
        closed
    });
}

#[tokio::test]
async fn http2_begins_behind_it() {
    let origin = telling();
    let proxy = told_by(&origin, "127.0.0.0/8", |_| {});
    let mut stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &version_2([203, 0, 113, 7], 3)).await.unwrap();
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("http://a.example/").body(()).unwrap();
    let (answer, _) = send.ready().await.unwrap().send_request(request, true).unwrap();
    let mut content = answer.await.unwrap().into_body();
    assert_eq!(content.data().await.unwrap().unwrap(), "203.0.113.7");
}

#[test]
fn a_transparent_proxy_is_told_nothing() {
    let mut config = Config::default();
    config.listeners[0].mode = Mode::Transparent(tinaja_proxy::Diversion::Redirect);
    config.listeners[0].proxy_protocol = vec!["127.0.0.0/8".parse().unwrap()];
    assert!(config.check().unwrap_err().to_string().contains("remove proxy_protocol"));
}
