//! Whoever connects without a certificate is turned away, and nothing that a node of the cluster sends does harm.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use tinaja_cluster::comers::visitors;
use tinaja_cluster::limits::MAX_VISITORS;
use tinaja_cluster::{Comers, Pooled};
use tinaja_store::contract::bytes_of;
use tinaja_store::{Clock, Key};

use crate::support::{One, cache, files, joining};

/// curl with a node's certificate: status, and bytes of the body.
fn ask(node: &One, method: &str, path: &str, body: &[u8], with_certificate: bool) -> (String, usize) {
    let dir = tempfile::tempdir().unwrap();
    let (sent, got) = (dir.path().join("sent"), dir.path().join("got"));
    std::fs::write(&sent, body).unwrap();
    let files = files(false);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--http2", "--max-time", "5", "--request", method, "--write-out", "%{http_code}"]);
    curl.arg("--cacert").arg(&files.ca).arg("--output").arg(&got);
    if with_certificate {
        curl.arg("--cert").arg(&files.certificate).arg("--key").arg(&files.key);
    }
    if !body.is_empty() {
        curl.arg("--data-binary").arg(format!("@{}", sent.display()));
    }
    let output = curl.arg(format!("https://{}{path}", node.address())).output().unwrap();
    let length = std::fs::metadata(&got).map_or(0, |got| got.len() as usize);
    (String::from_utf8_lossy(&output.stdout).into_owned(), length)
}

#[test]
fn strangers_get_nothing_and_nonsense_does_no_harm() {
    let node = One::start(joining("node", &[]));
    let key = Key::from_name(b"x");
    node.put(&key, "a head", &bytes_of(1, 1000));
    let (status, length) = ask(&node, "GET", "/memory?at=0&bytes=64", b"", false);
    assert_eq!((status.as_str(), length), ("000", 0), "without a certificate");
    assert_eq!(ask(&node, "GET", "/memory?at=0&bytes=64", b"", true), ("200".to_owned(), 64));
    for path in [
        "/memory",
        "/memory?at=0",
        "/memory?at=-8&bytes=8",
        "/memory?at=1&bytes=8",
        "/memory?at=0&bytes=7",
        "/memory?at=18446744073709551608&bytes=64",
        "/memory?at=0&bytes=18446744073709551608",
        "/memory?at=4000000000&bytes=64",
    ] {
        assert_eq!(ask(&node, "GET", path, b"", true).0, "416", "{path}");
    }
    for (method, path, body) in [
        ("POST", "/gossip", vec![1; 100]),
        ("POST", "/gossip", vec![1; 2 << 20]),
        ("POST", "/remove", vec![1; 3]),
        ("POST", "/remove", vec![255; 1 << 20]),
        ("POST", "/messages", vec![255; 100_000]),
    ] {
        // What is too long is not read to its end, which curl takes for no answer.
        let status = ask(&node, method, path, &body, true).0;
        assert!(
            status == "400" || (status == "000" && body.len() > 1000),
            "{path} with {} bytes: {status}",
            body.len()
        );
    }
    // Whole frames that are no messages: counted.
    let frames: Vec<u8> = (0..100).flat_map(|n| [&[50, 0, 0, 0][..], &[n; 50]].concat()).collect();
    ask(&node, "POST", "/messages", &frames, true);
    tinaja_testkit::wait::eventually("garbage to be counted", || node.count("garbage") == 100);
    for (method, path) in [("GET", "/"), ("DELETE", "/memory"), ("GET", "/../../etc/passwd")] {
        assert_eq!(ask(&node, method, path, b"", true).0, "404", "{path}");
    }
    // Not TLS at all.
    let mut plain = TcpStream::connect(node.address()).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(node.get(&key).unwrap().2, bytes_of(1, 1000), "it serves on");
}

/// More nodes ask for objects at once than wait for being taken up: each waits, and is taken up in its turn. Those beyond the queue were sent away, and took the node for dead.
#[test]
fn whoever_asks_for_objects_waits_for_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (visitors, mut taken) = visitors();
    let node =
        Pooled::join(cache(dir.path()), joining("node", &[]), Comers { visitors: Some(visitors), ..Comers::default() })
            .unwrap();
    let hello = hello();
    let asking: Vec<TcpStream> = (0..MAX_VISITORS + 20)
        .map(|_| {
            let mut stream = TcpStream::connect(node.node().address()).unwrap();
            stream.write_all(&hello).unwrap();
            stream
        })
        .collect();
    // The queue is full, and nobody has been taken up.
    tinaja_testkit::wait::eventually("the queue to be full", || taken.len() == MAX_VISITORS);
    let mut count = 0;
    tinaja_testkit::wait::eventually("each to be taken up", || {
        while taken.try_recv().is_ok() {
            count += 1;
        }
        count == asking.len()
    });
}

/// The first message of a node that asks for objects.
fn hello() -> Vec<u8> {
    let identity = tinaja_cluster::tls::Identity::read(&files(false), "tinaja", &Clock::system()).unwrap();
    let name = rustls::pki_types::ServerName::try_from("node").unwrap();
    let mut connection = rustls::ClientConnection::new(identity.fetch, name).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    hello
}
