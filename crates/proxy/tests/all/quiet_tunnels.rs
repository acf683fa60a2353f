//! Tunnels when clients hold as much as they may: those in which nothing has moved for longest are closed, as idle connections are.
//!
//! Open tunnels were never let go: whoever opened enough of them kept everybody else out.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tinaja_testkit::client::get;
use tinaja_testkit::port::free_port;

use crate::support::{Proxy, eventually};

/// Sends back what comes, on every connection.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    address
}

/// A tunnel that stands, or nothing where it is refused.
fn tunnel(proxy: &Proxy, to: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").ok()?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    head.starts_with(b"HTTP/1.1 200 ").then_some(stream)
}

/// Whether a byte comes back.
fn echoes(stream: &mut TcpStream) -> bool {
    stream.write_all(b"x").is_ok() && stream.read_exact(&mut [0]).is_ok()
}

#[test]
fn the_quietest_are_closed_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, metrics) = (dir.path().join("access.log"), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let echo = echo();
    let (proxy, hand) = Proxy::by_hand(|config| {
        config.limits.client_memory = 1 << 20;
        config.listeners[0].rules.push(tinaja_proxy::Rule::allow_connect_port(echo.port()));
        config.metrics = Some(metrics);
        config.access_log = Some(log.clone());
        config.access_log_format = tinaja_proxy::LogFormat::Json;
    });
    let counted = |name: &str| {
        let text = get(metrics, "/metrics").unwrap().text();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap().parse::<f64>().unwrap()
    };
    let mut tunnels = Vec::new();
    while let Some(mut stream) = tunnel(&proxy, echo) {
        assert!(echoes(&mut stream));
        tunnels.push(stream);
    }
    // Something has just moved in all of them: one more is refused.
    assert!(tunnels.len() > 20, "{}", tunnels.len());
    assert_eq!(counted("tinaja_clients_let_go_tunnels_total"), 0.0);
    hand.advance(Duration::from_secs(2));
    // Twice: once the second byte is back, the first has been noticed.
    assert!(echoes(&mut tunnels[0]) && echoes(&mut tunnels[0]));
    let mut newer = Vec::new();
    eventually("others are let go for newer ones", || {
        newer.extend(tunnel(&proxy, echo));
        newer.len() == 5
    });
    let let_go = counted("tinaja_clients_let_go_tunnels_total");
    assert!(let_go >= 5.0, "{let_go}");
    assert!(echoes(&mut tunnels[0]) && newer.iter_mut().all(echoes));
    let closed = tunnels.iter_mut().filter_map(|stream| (!echoes(stream)).then_some(())).count();
    assert_eq!(closed as f64, let_go);
    eventually("the log says why", || {
        // What is logged is written out by the clock.
        hand.advance(Duration::from_secs(1));
        let text = std::fs::read_to_string(&log).unwrap();
        let records = text.lines().filter_map(|line| tinaja_logs::json::parse(line).ok());
        records.filter(|record| record.why.as_ref().is_some_and(|why| why.contains("nothing moved in it"))).count()
            == closed
    });
}
