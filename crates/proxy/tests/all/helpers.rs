//! What an operator's helpers ask is answered, whatever others who have connected do.
//!
//! Eighty connections to the metrics address that said nothing kept `/healthz` from being answered for as long as they lasted, and a
//! hundred to the control socket `inspect`: those who came later waited until the first had run out of time, a few at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::Proxy;
use tinaja_testkit::port::free_port;

/// More than the system's time to connect, and less than a test may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn asked(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn health_is_told_though_others_connect_and_say_nothing() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    // The clock stands still, so that nobody runs out of time.
    let (_proxy, hand) = Proxy::by_hand(|config| config.metrics = Some(address));
    let mut silent = Vec::new();
    for round in 0..4 {
        for begun in [&b""[..], b"G", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"] {
            for _ in 0..27 {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(begun).unwrap();
                silent.push(stream);
            }
        }
        for path in ["/healthz", "/readyz", "/metrics"] {
            let answer = asked(address, path);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path} behind {} others: {answer}", silent.len());
        }
        assert_eq!(silent.len(), (round + 1) * 81);
    }
    // Those who are silent are let go: the first for those who came later, and the last in their time.
    hand.advance(Duration::from_secs(5));
    for mut stream in silent {
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

#[test]
fn an_operator_is_answered_though_others_connect_and_say_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (_proxy, hand) = Proxy::by_hand(|config| config.control = Some(dir.path().to_owned()));
    let connect = || {
        let stream = UnixStream::connect(dir.path().join("tinaja.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut silent = Vec::new();
    for round in 0..3 {
        for number in 0..100 {
            let mut stream = connect();
            stream.write_all(if number % 2 == 0 { b"" } else { b"{\"ask\":" }).unwrap();
            silent.push(stream);
        }
        let mut answer = String::new();
        let mut stream = BufReader::new(connect());
        stream.get_mut().write_all(b"{\"ask\":\"inspect\",\"top\":0}\n").unwrap();
        stream.read_line(&mut answer).expect("an answer");
        assert!(answer.contains("\"inspected\""), "round {round}: {answer}");
    }
    hand.advance(Duration::from_secs(10));
    for mut stream in silent {
        let _ = stream.read_to_end(&mut Vec::new());
    }
}
