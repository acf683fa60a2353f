//! F1: names that lead outward when they are judged, and inward a moment later.
//!
//! The real binary resolves them through the system's resolver, which asks a name server of ours: the process has an
//! `/etc/resolv.conf` of its own, in a mount namespace of its own. Needs root, and says so where it has not.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::name_server::NameServer;
use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::port::free_port;

const NAME_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 77));
/// An address that clients may reach, in the place of one on the Internet.
const OUTWARD: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 5));
/// Another one, where nothing listens.
const SILENT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 8));
/// One that they may not.
const INWARD: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Counts connections at an address, and answers each with where it came to.
fn listen(address: SocketAddr) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind(address).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            seen.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let body = address.ip().to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: no-store\r\n", body.len());
            let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes());
        }
    });
    count
}

/// The status, and the body if there is one, of a GET or of what is sent through a tunnel.
fn ask(proxy: &Tinaja, name: &str, port: u16, tunnel: bool) -> (u16, String) {
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = if tunnel { format!("CONNECT {name}:{port}") } else { format!("GET http://{name}:{port}/") };
    write!(stream, "{target} HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n").unwrap();
    if tunnel {
        // What is sent behind the head goes through the tunnel, if there is one.
        write!(stream, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = answer.get(9..12).unwrap_or_default().parse().unwrap_or(0);
    (status, answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

#[test]
fn the_address_that_was_judged_is_the_one_connected_to() {
    let addresses = |name: &str, number: usize| match name {
        // Asked twice for one request, it would have been judged by the one and connected to the other.
        "flips.test" | "tunnel.test" => vec![if number.is_multiple_of(2) { OUTWARD } else { INWARD }],
        "both.test" => vec![INWARD, OUTWARD],
        "silent.test" => vec![SILENT, INWARD],
        "inward.test" => vec![INWARD],
        "mapped.test" => vec!["::ffff:127.0.0.1".parse().unwrap()],
        "translated.test" => vec!["64:ff9b::7f00:1".parse().unwrap()],
        _ => Vec::new(),
    };
    let names = match NameServer::start(NAME_SERVER, addresses) {
        Ok(names) => names,
        Err(error) => {
            println!("NOT RUN: no name server on port 53: {error}; run it as root");
            return;
        }
    };
    let port = free_port();
    let outward = listen(SocketAddr::new(OUTWARD, port));
    let inward = listen(SocketAddr::new(INWARD, port));
    let flags = ["--disk", "64MiB", "--memory", "8MiB", "--allow-destination", "127.0.0.5/32", "--allow-destination"];
    let setup = Setup::bare().flags(&flags).flags(&["127.0.0.8/32", "--allow-connect-port", &port.to_string()]);
    let Some(proxy) = setup.start_with_name_server(names.address) else {
        println!("NOT RUN: no mount namespace for an /etc/resolv.conf of its own; run it as root");
        return;
    };
    let outside = OUTWARD.to_string();
    for (name, tunnel) in [("flips.test", false), ("tunnel.test", true)] {
        for round in 0..4 {
            let (status, body) = ask(&proxy, name, port, tunnel);
            let expected = if round % 2 == 0 { (200, outside.as_str()) } else { (403, "") };
            assert_eq!(status, expected.0, "{name} {round}: {body}");
            assert!(expected.1.is_empty() || body == expected.1, "{name} {round}: {body}");
            assert_eq!(names.asked(name), round + 1, "{name}: one question for each request");
        }
    }
    for (name, status) in [("both.test", 200), ("silent.test", 502), ("inward.test", 403), ("none.test", 502)] {
        for tunnel in [false, true] {
            assert_eq!(ask(&proxy, name, port, tunnel).0, status, "{name} {tunnel}");
        }
    }
    for name in ["mapped.test", "translated.test"] {
        assert_eq!(ask(&proxy, name, port, false).0, 403, "{name}");
    }
    let reached = (outward.load(Ordering::SeqCst), inward.load(Ordering::SeqCst));
    assert_eq!(reached, (6, 0), "connections outward and inward");
}
