//! An origin on loopback that counts requests, and a client. Plain threads: what is tested is the proxy.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::body;

/// What the origin answers, by path: see [`answer`].
pub struct Origin(tinaja_testkit::origin::Origin);

impl Origin {
    pub fn start() -> (SocketAddr, Origin) {
        let origin = tinaja_testkit::origin::Origin::closing(|request, stream| {
            answer(stream, &request.path, &request.head.to_lowercase())
        });
        (origin.address, Origin(origin))
    }

    /// How many requests have come for a path.
    pub fn count(&self, path: &str) -> usize {
        self.0.paths().iter().filter(|asked| *asked == path).count()
    }

    /// The head of the last request for a path, in lower case.
    pub fn last(&self, path: &str) -> String {
        let requests = self.0.requests();
        requests.iter().rfind(|request| request.path == path).unwrap().head.to_lowercase()
    }
}

fn answer(stream: &mut TcpStream, path: &str, head: &str) -> std::io::Result<()> {
    let start = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
    match path.trim_start_matches('/').split('-').collect::<Vec<_>>().as_slice() {
        // slow-N: N bytes in ten pieces over a quarter of a second.
        ["slow", len, ..] => {
            let sent = body(1, len.parse().unwrap());
            write!(stream, "{start}cache-control: max-age=60\r\ncontent-length: {len}\r\n\r\n")?;
            for piece in sent.chunks(sent.len().div_ceil(10)) {
                std::thread::sleep(Duration::from_millis(25));
                stream.write_all(piece)?;
            }
            Ok(())
        }
        // short: half of what was announced.
        ["short", ..] => {
            write!(stream, "{start}cache-control: max-age=60\r\ncontent-length: 100000\r\n\r\n")?;
            stream.write_all(&body(1, 50_000))?;
            break_off(path)
        }
        // chunked: breaks off after one chunk.
        ["chunked", ..] => {
            write!(stream, "{start}cache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        }
        // stale: to be asked about each time, and never changed.
        ["stale", ..] if head.contains("if-none-match: \"s\"") => {
            write!(
                stream,
                "HTTP/1.1 304 Not Modified\r\nconnection: close\r\ncache-control: max-age=60\r\netag: \"s\"\r\n\r\n"
            )
        }
        ["stale", ..] => {
            write!(stream, "{start}cache-control: max-age=0\r\netag: \"s\"\r\ncontent-length: 6\r\n\r\nsteady")
        }
        // plain-N: N bytes.
        ["plain", len, ..] => {
            write!(stream, "{start}cache-control: max-age=60\r\ncontent-length: {len}\r\n\r\n")?;
            stream.write_all(&body(1, len.parse().unwrap()))
        }
        _ => write!(stream, "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
    }
}

/// Later than the proxy needs to pass on what it has, or at once.
fn break_off(path: &str) -> std::io::Result<()> {
    if path.ends_with("late") {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn read_head(from: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        (from.read_line(&mut head).ok()? > 0).then_some(())?;
    }
    Some(head)
}

/// What a client got.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// Whether all that was announced has come.
    pub whole: bool,
}

/// Ask for a path; `pause` is waited after each 64 KiB of body.
pub fn ask(proxy: SocketAddr, method: &str, path: &str, headers: &str, pause: Duration) -> Answer {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut from = BufReader::new(stream);
    let head = read_head(&mut from).unwrap_or_default().to_lowercase();
    let mut answer = Answer {
        status: head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default(),
        body: Vec::new(),
        whole: false,
        head,
    };
    let mut buffer = [0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        answer.body.extend_from_slice(&buffer[..read]);
        std::thread::sleep(pause);
    }
    let length = answer.head.lines().find_map(|line| line.strip_prefix("content-length: "));
    answer.whole = match length {
        Some(length) => length.parse() == Ok(answer.body.len()),
        None => answer.body.ends_with(b"0\r\n\r\n"),
    };
    answer
}
