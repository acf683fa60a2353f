//! Tunnels whose clients say nothing, too little, or something else than TLS: with a clock that is moved by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use tinaja_clock::ManualClock;
use tinaja_proxy::intercept::{
    CERTIFICATE, InterceptAction, InterceptRule, InterceptRules, Interception, NewAuthority, OnReject, create,
};
use tinaja_proxy::{Action, Config, Rule};

use crate::support::{Client, Proxy};

/// A proxy that opens tunnels to this host, for which it has a CA.
struct Opening {
    proxy: Proxy,
    hand: ManualClock,
    dir: TempDir,
}

impl Opening {
    fn new(host: &str) -> Opening {
        Opening::with(host, |_| {})
    }

    fn with(host: &str, change: impl FnOnce(&mut Config)) -> Opening {
        let dir = TempDir::new().unwrap();
        let action = InterceptAction::Cache(OnReject::Refuse);
        let hosts = vec![host.parse().unwrap()];
        let rule = InterceptRule { action, hosts, clients: Vec::new(), number: 1, line: None };
        let path = dir.path().join("ca");
        let new = NewAuthority { name: "Test CA".into(), days: 3650, only_for: Vec::new() };
        create(&path, &new, SystemTime::now()).unwrap();
        let (proxy, hand) = Proxy::by_hand(|config| {
            let listener = &mut config.listeners[0];
            let (ports, methods) = (vec!["1-65535".parse().unwrap()], vec!["CONNECT".into()]);
            listener.rules.push(Rule { ports, methods, ..Rule::new(Action::Allow) });
            let rules = InterceptRules::new(vec![rule]).unwrap();
            listener.interception = Interception { authority: Some(path), rules };
            change(config);
        });
        Opening { proxy, hand, dir }
    }

    fn ca(&self) -> PathBuf {
        self.dir.path().join("ca").join(CERTIFICATE)
    }

    /// A tunnel that stands.
    fn connect(&self, to: &str) -> Client {
        let mut client = self.proxy.client();
        client.send(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n"));
        let answer = client.read("CONNECT").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        client
    }

    /// Whether a connection is closed once its time is over, and not before.
    fn is_closed_in_time(&self, mut client: Client, limit: Duration) {
        let open = |client: &Client| {
            client.stream().set_nonblocking(true).unwrap();
            let peeked = client.stream().peek(&mut [0; 1]);
            client.stream().set_nonblocking(false).unwrap();
            peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        self.hand.advance(limit - Duration::from_millis(1));
        assert!(open(&client), "it has time");
        // The proxy may not have begun to wait when the time was moved first.
        while open(&client) {
            self.hand.advance(limit);
            std::thread::yield_now();
        }
        assert!(client.is_closed());
    }
}

/// What a client says first, in records of so many bytes.
fn hello(name: &'static str, record_bytes: Option<usize>) -> Vec<u8> {
    let mut client =
        ClientConnection::new(trusting(RootCertStore::empty(), record_bytes), name.try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn trusting(roots: RootCertStore, record_bytes: Option<usize>) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.max_fragment_size = record_bytes;
    Arc::new(config)
}

/// A server that speaks first.
fn greeting() -> (SocketAddr, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), listener)
}

fn greet(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"220 at your service\r\n").unwrap();
    stream
}

#[test]
fn a_hello_that_does_not_come_to_its_end() {
    let opening = Opening::new("a.example");
    let limit = Config::default().limits.head;
    let whole = hello("a.example", None);
    for count in [1, 5, 6, whole.len() - 1] {
        let mut client = opening.connect("a.example:443");
        client.send(&whole[..count]);
        opening.is_closed_in_time(client, limit);
    }
    // Nor after it: the handshake has its time, too.
    let mut client = opening.connect("a.example:443");
    client.send(&whole);
    // What the proxy says as the server that the client wants.
    assert_eq!(client.read_bytes(1), [22]);
    let stream = client.stream().try_clone().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut bytes = [0; 4096];
    // Whatever is there is read, until the time is over and there is nothing any more.
    loop {
        match (&stream).read(&mut bytes) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => opening.hand.advance(limit),
            Err(_) => break,
        }
    }
}

#[test]
fn nonsense_as_a_hello() {
    let opening = Opening::new("a.example");
    for bytes in [
        &[22, 3, 1, 0, 0][..],
        &[22, 3, 1, 0, 4, 2, 0, 0, 0],
        &[22, 3, 1, 0xff, 0xff],
        &[22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff],
    ] {
        let mut client = opening.connect("a.example:443");
        client.send(bytes);
        assert!(client.is_closed(), "{bytes:?}");
    }
}

#[test]
fn a_hello_in_many_records() {
    let opening = Opening::new("a.example");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(opening.ca()).unwrap()).unwrap();
    // The certificate is judged by the time that the proxy has.
    for record_bytes in [None, Some(64), Some(32)] {
        let client = opening.connect("a.example:443");
        let stream = client.stream().try_clone().unwrap();
        let config = trusting(roots.clone(), record_bytes);
        let mut config = (*config).clone();
        config.time_provider = Arc::new(At(opening.hand.clock()));
        let tls = ClientConnection::new(Arc::new(config), "a.example".try_into().unwrap()).unwrap();
        let mut tls = StreamOwned::new(tls, stream);
        tls.write_all(b"GET /x HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = tls.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 421 "), "{record_bytes:?}: {answer}");
    }
}

/// The time of a clock that stands still.
#[derive(Debug)]
struct At(tinaja_clock::Clock);

impl rustls::time_provider::TimeProvider for At {
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        let now = self.0.wall().duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(rustls::pki_types::UnixTime::since_unix_epoch(now))
    }
}

#[test]
fn a_server_that_speaks_first() {
    let limit = Config::default().limits.head;
    let (address, listener) = greeting();
    // Where no rule is about the host, its words come at once, though one is about some clients' names.
    let opening = Opening::new("a.example");
    let mut client = opening.connect(&address.to_string());
    let _server = greet(&listener);
    assert_eq!(client.read_bytes(5), b"220 a");
    // Where one is, they come when the client has said nothing for as long as it may.
    let opening = Opening::with("127.0.0.1", |config| {
        // The time is moved before and while the proxy connects.
        let limits = &mut config.limits;
        (limits.connect, limits.tunnel_idle) = (1_000_000 * limit, 1_000_000 * limit);
    });
    let mut client = opening.connect(&address.to_string());
    listener.set_nonblocking(true).unwrap();
    let server = loop {
        opening.hand.advance(limit);
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    server.set_nonblocking(false).unwrap();
    (&server).write_all(b"220 at your service\r\n").unwrap();
    assert_eq!(client.read_bytes(5), b"220 a");
    client.send("HELO\r\n");
    let mut said = [0; 6];
    (&server).read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HELO\r\n");
}

#[test]
fn access_rules_come_first() {
    let opening = Opening::with("a.example", |config| {
        let deny = Rule { methods: vec!["CONNECT".into()], ..Rule::new(Action::Deny) };
        config.listeners[0].rules.put_first(&[deny]);
    });
    let mut client = opening.proxy.client();
    client.send("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
    assert_eq!(client.read("CONNECT").unwrap().status, 403);
}
