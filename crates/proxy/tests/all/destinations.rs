//! Where clients may go, and tunnels.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::support::{Client, Log, Origin, Proxy, Response};
use tinaja_proxy::{Rule, Rules};
use tinaja_testkit::port::free_port;

fn strict(log: &Log) -> Proxy {
    Proxy::with(|config| {
        config.listeners[0].rules = Rules::default();
        log.of(config);
    })
}

fn connect(proxy: &Proxy, target: &str) -> (Client, Response) {
    let mut client = proxy.client();
    client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"));
    let response = client.read("CONNECT").unwrap();
    (client, response)
}

/// Echoes what it gets, after a greeting.
fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream: TcpStream = stream.unwrap();
                stream.write_all(b"hello ").unwrap();
                let mut everything = Vec::new();
                stream.read_to_end(&mut everything).unwrap();
                stream.write_all(&everything).unwrap();
            });
        }
    });
    port
}

#[test]
fn private_addresses_are_refused_by_default() {
    let origin = Origin::fixed("", "secret");
    let port = origin.address.port();
    let log = Log::new();
    let proxy = strict(&log);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "localhost",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "169.254.169.254",
        "10.0.0.1",
        "[fd00:ec2::254]",
    ] {
        let response = proxy.get(&format!("http://{host}:{port}/"));
        assert!(matches!(response.status, 403 | 502), "{host}: {response:?}");
        let (_, tunnel) = connect(&proxy, &format!("{host}:443"));
        assert_eq!(tunnel.status, response.status, "{host}: {tunnel:?}");
        if response.status == 403 {
            assert!(log.why(&response).contains("--allow-destination"), "{host}: {}", log.why(&response));
            assert!(response.text().contains("The proxy&#39;s rules do not allow"), "{host}: {}", response.text());
        } else {
            // Not every resolver reads odd spellings of addresses.
            assert!(log.why(&response).contains("Cannot resolve"), "{host}: {}", log.why(&response));
        }
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn ports_of_other_protocols_are_refused() {
    let log = Log::new();
    let proxy = Proxy::with(|config| log.of(config));
    for port in [22, 25, 1024] {
        let response = proxy.get(&format!("http://127.0.0.1:{port}/"));
        assert_eq!(response.status, 403, "{port}");
        assert!(log.why(&response).contains(&format!("port {port}")), "{}", log.why(&response));
    }
    for port in [22, 80, 8443] {
        let (_, response) = connect(&proxy, &format!("127.0.0.1:{port}"));
        assert_eq!(response.status, 403, "{port}");
        assert!(response.field("connection") == "close");
    }
}

#[test]
fn tunnels_carry_bytes_both_ways() {
    let port = echo_server();
    let proxy = Proxy::with(|config| config.listeners[0].rules.push(Rule::allow_connect_port(port)));
    for host in ["127.0.0.1", "localhost"] {
        let (mut client, response) = connect(&proxy, &format!("{host}:{port}"));
        assert_eq!(response.status, 200);
        assert_eq!(client.read_bytes(6), b"hello ");
        let sent: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        client.send(&sent);
        client.stream().shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.read_bytes(sent.len()), sent);
        assert!(client.is_closed());
    }
    // What is sent without waiting for the answer arrives too.
    let mut eager = proxy.client();
    eager.send(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\nearly"));
    assert_eq!(eager.read("CONNECT").unwrap().status, 200);
    eager.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(eager.read_bytes(11), b"hello early");
}

#[test]
fn tunnels_that_cannot_be() {
    let free = free_port();
    let log = Log::new();
    let proxy = Proxy::with(|config| {
        config.listeners[0].rules.push(Rule::allow_connect_port(free));
        log.of(config);
    });
    let (mut client, response) = connect(&proxy, &format!("127.0.0.1:{free}"));
    assert_eq!(response.status, 502, "{response:?}");
    assert!(response.text().contains("The origin cannot be reached."), "{response:?}");
    assert!(log.why(&response).contains(&format!("Cannot connect to 127.0.0.1:{free}:")), "{}", log.why(&response));
    assert!(client.is_closed());

    let origin = Origin::fixed("", "x");
    let reverse = Proxy::reverse(&origin);
    assert_eq!(connect(&reverse, &origin.address.to_string()).1.status, 405);
    let own = Proxy::forward();
    let (_, response) = connect(&own, &format!("127.0.0.1:{}", own.address.port()));
    assert_eq!(response.status, 403, "not a tunnel port");
}

#[test]
fn idle_tunnels_end() {
    let port = echo_server();
    let proxy = Proxy::with(|config| {
        config.listeners[0].rules.push(Rule::allow_connect_port(port));
        config.limits.tunnel_idle = Duration::from_millis(300);
    });
    let (mut client, _) = connect(&proxy, &format!("127.0.0.1:{port}"));
    assert_eq!(client.read_bytes(6), b"hello ");
    assert!(client.is_closed());
}
