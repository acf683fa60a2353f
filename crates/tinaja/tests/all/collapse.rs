//! Many clients that ask at once for one new object cause one request to the origin.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::Duration;

use crate::support::tinaja::Setup;
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::wait::wait_for;

const CLIENTS: usize = 50;
const LEN: usize = 500_000;

/// An origin that thinks before its head and lingers in its body, and says the length beforehand or not.
fn slow_origin(chunked: bool) -> Origin {
    Origin::closing(move |request, stream| {
        std::thread::sleep(Duration::from_millis(300));
        let framing = if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {LEN}") };
        write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n{framing}\r\nConnection: close\r\n\r\n")?;
        for piece in body(&request.path, LEN).chunks(LEN / 10) {
            write_piece(stream, piece, chunked)?;
            std::thread::sleep(Duration::from_millis(50));
        }
        if chunked { stream.write_all(b"0\r\n\r\n") } else { Ok(()) }
    })
}

fn write_piece(stream: &mut TcpStream, piece: &[u8], chunked: bool) -> std::io::Result<()> {
    if !chunked {
        return stream.write_all(piece);
    }
    write!(stream, "{:x}\r\n", piece.len())?;
    stream.write_all(piece)?;
    stream.write_all(b"\r\n")
}

fn fifty_ask_at_once(chunked: bool) {
    let origin = slow_origin(chunked);
    let setup = Setup::forward();
    let proxy = setup.start();
    let barrier = Barrier::new(CLIENTS);
    let expected = body("/new", LEN);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                barrier.wait();
                let response = proxy.get(&origin.url("/new")).unwrap();
                assert_eq!(response.status, 200);
                assert!(response.body == expected, "{} bytes, or others than sent", response.body.len());
            });
        }
    });
    assert_eq!(origin.paths(), ["/new"]);
}

#[test]
fn with_a_length() {
    fifty_ask_at_once(false);
}

#[test]
fn with_chunks() {
    fifty_ask_at_once(true);
}

#[test]
fn a_client_that_leaves_takes_nobody_along() {
    let origin = slow_origin(false);
    let setup = Setup::forward();
    let proxy = setup.start();
    let mut first = TcpStream::connect(proxy.address()).unwrap();
    write!(first, "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/new"), origin.address).unwrap();
    wait_for("the first request", Duration::from_secs(10), || origin.paths().first().cloned());
    std::thread::scope(|scope| {
        let second = scope.spawn(|| proxy.get(&origin.url("/new")).unwrap());
        std::thread::sleep(Duration::from_millis(400));
        drop(first);
        let second = second.join().unwrap();
        assert!(second.status == 200 && second.body == body("/new", LEN));
    });
}
