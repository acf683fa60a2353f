use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;

async fn gate_and_client() -> (Gate, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (Gate::new(Stream::Plain(server)), client)
}

async fn is_gone(gate: &mut Gate) -> bool {
    timeout(Duration::from_millis(200), gate.gone()).await.is_ok()
}

#[tokio::test]
async fn nothing_passes_behind_the_body() {
    for (framing, body, content) in [
        (Framing::Length(0), "", ""),
        (Framing::Length(9), "123456789", "123456789"),
        (Framing::Chunked, "1;x\r\nx\r\n0\r\nA: b\r\n\r\n", "x"),
    ] {
        let (mut gate, mut client) = gate_and_client().await;
        client.write_all(format!("{body}GET /next HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        gate.open(framing);
        let mut seen = Vec::new();
        while let Some(piece) = gate.read_body().await.unwrap() {
            seen.extend_from_slice(&piece);
        }
        assert_eq!(String::from_utf8(seen).unwrap(), content);
        assert!(gate.is_shut() && !is_gone(&mut gate).await);
        assert_eq!(gate.waiting(), b"GET /next HTTP/1.1\r\n\r\n");
        // A client that has asked for more and then stopped sending is still there.
        client.shutdown().await.unwrap();
        assert!(!is_gone(&mut gate).await);
    }
}

#[tokio::test]
async fn a_client_that_has_gone_is_noticed() {
    let (mut gate, client) = gate_and_client().await;
    gate.open(Framing::Length(0));
    assert!(!is_gone(&mut gate).await);
    drop(client);
    assert!(is_gone(&mut gate).await);
}

#[tokio::test]
async fn bad_bodies_end_the_connection() {
    for (framing, sent, content, kind) in [
        (Framing::Chunked, "2\r\nab\r\n0x1\r\nG\r\n0\r\n\r\n", "ab", io::ErrorKind::InvalidData),
        (Framing::Chunked, "2\r\nab\r\n", "ab", io::ErrorKind::UnexpectedEof),
        (Framing::Length(3), "ab", "ab", io::ErrorKind::UnexpectedEof),
    ] {
        let (mut gate, mut client) = gate_and_client().await;
        client.write_all(sent.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        gate.open(framing);
        assert_eq!(gate.read_body().await.unwrap().unwrap(), content);
        assert_eq!(gate.read_body().await.unwrap_err().kind(), kind, "{sent:?}");
        assert!(!gate.is_shut());
    }
}

#[tokio::test]
async fn what_is_sent_ahead_is_bounded() {
    let (mut gate, mut client) = gate_and_client().await;
    gate.open(Framing::Length(0));
    let flood = tokio::spawn(async move {
        let piece = [b'a'; 64 * 1024];
        for _ in 0..1000 {
            client.write_all(&piece).await.unwrap();
        }
    });
    assert!(!is_gone(&mut gate).await);
    assert!(gate.waiting().len() < AHEAD_BYTES + READ_BYTES, "{}", gate.waiting().len());
    assert!(!flood.is_finished(), "64 MB were swallowed");
    flood.abort();
}
