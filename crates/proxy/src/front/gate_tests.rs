use pingora_core::protocols::l4::stream::Stream as TcpIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

async fn gate_and_client() -> (Gate, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (Gate::new(Box::new(TcpIo::from(server))), client)
}

async fn read_some(gate: &mut Gate) -> Option<Vec<u8>> {
    let mut buffer = [0; 7];
    let read = tokio::time::timeout(std::time::Duration::from_millis(200), gate.read(&mut buffer)).await;
    read.ok().map(|read| buffer[..read.unwrap()].to_vec())
}

#[tokio::test]
async fn nothing_passes_behind_the_body() {
    for (framing, body) in
        [(Framing::Length(0), ""), (Framing::Length(9), "123456789"), (Framing::Chunked, "1\r\nx\r\n0\r\n\r\n")]
    {
        let (mut gate, mut client) = gate_and_client().await;
        client.write_all(format!("{body}GET /next HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        gate.open(Bytes::from_static(b"HEAD"), framing);
        let mut seen = Vec::new();
        while let Some(piece) = read_some(&mut gate).await {
            assert!(!piece.is_empty(), "an end, although the client is there");
            seen.extend(piece);
        }
        assert_eq!(String::from_utf8(seen).unwrap(), format!("HEAD{body}"));
        assert!(gate.is_shut());
        assert_eq!(gate.waiting(), b"GET /next HTTP/1.1\r\n\r\n");
        // A client that has asked for more and then stopped sending is still there.
        client.shutdown().await.unwrap();
        assert_eq!(read_some(&mut gate).await, None);
    }
}

#[tokio::test]
async fn a_client_that_has_gone_is_noticed() {
    let (mut gate, client) = gate_and_client().await;
    gate.open(Bytes::new(), Framing::Length(0));
    assert_eq!(read_some(&mut gate).await, None);
    drop(client);
    assert_eq!(read_some(&mut gate).await, Some(vec![]));
}

#[tokio::test]
async fn bad_chunks_end_the_connection() {
    let (mut gate, mut client) = gate_and_client().await;
    client.write_all(b"2\r\nab\r\n0x1\r\nG\r\n0\r\n\r\n").await.unwrap();
    gate.open(Bytes::new(), Framing::Chunked);
    let mut seen = Vec::new();
    let error = gate.read_to_end(&mut seen).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(b"2\r\nab\r\n".starts_with(&seen), "{seen:?}");
    assert!(!gate.is_shut());
}

#[tokio::test]
async fn what_is_sent_ahead_is_bounded() {
    let (mut gate, mut client) = gate_and_client().await;
    gate.open(Bytes::new(), Framing::Length(0));
    let flood = tokio::spawn(async move {
        let piece = [b'a'; 64 * 1024];
        for _ in 0..1000 {
            client.write_all(&piece).await.unwrap();
        }
    });
    assert_eq!(read_some(&mut gate).await, None);
    assert!(gate.waiting().len() < AHEAD_BYTES + READ_BYTES, "{}", gate.waiting().len());
    assert!(!flood.is_finished(), "64 MB were swallowed");
    flood.abort();
}
