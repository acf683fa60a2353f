//! A client over HTTP/1.1.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

use super::client::Dial;
use super::{Answer, PATIENCE, Turn};

type Connection = BufReader<TlsStream<TcpStream>>;

/// Asks until it is over.
pub async fn run(dial: Arc<Dial>, mut turn: Turn) {
    let mut connection = None;
    while !turn.is_over() {
        let (path, began) = (turn.path(), Instant::now());
        let asked = timeout(PATIENCE, ask(&dial, &turn, connection.take(), &path)).await;
        let came = match asked {
            Ok(Ok((answer, kept))) => {
                connection = (!answer.last).then_some(kept);
                Ok(answer)
            }
            Ok(Err(error)) => Err(format!("HTTP/1.1: {error}")),
            Err(_) => Err("HTTP/1.1: no answer in time".into()),
        };
        turn.count(&path, began, came);
        sleep(turn.plan.pause).await;
    }
}

async fn ask(dial: &Dial, turn: &Turn, kept: Option<Connection>, path: &str) -> io::Result<(Answer, Connection)> {
    let mut connection = match kept {
        Some(connection) => connection,
        None => {
            turn.tally.connections.fetch_add(1, Ordering::SeqCst);
            BufReader::new(dial.connect(b"http/1.1").await?)
        }
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", turn.plan.name);
    connection.write_all(request.as_bytes()).await?;
    connection.flush().await?;
    let mut answer = Answer { status: 0, cache_status: String::new(), body: Vec::new(), last: false };
    let mut length = 0;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await? == 0 {
            return Err(io::Error::other("the connection was closed before the answer"));
        }
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse().map_err(io::Error::other)?,
            Some(("cache-status", value)) => answer.cache_status = value.to_owned(),
            Some(("connection", value)) => answer.last = value == "close",
            Some(_) => {}
            None if line.is_empty() => break,
            None => answer.status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0),
        }
    }
    answer.body = vec![0; length];
    connection.read_exact(&mut answer.body).await?;
    Ok((answer, connection))
}
