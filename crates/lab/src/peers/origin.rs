//! The server that has every object: it answers at once, over connections that are kept.
//!
//! It is not the testkit's origin, which is for tests: that one keeps every request in memory and panics when something is wrong. The laboratory
//! ships in the program and asks for millions of objects, so its origin keeps nothing and returns errors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use super::body;
use crate::error::LabError;
use crate::load::Request;

/// A head is no longer.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// What a request says that nobody else did: the answer repeats it, so that one from a cache is known by an older one.
pub const TURN: &str = "X-Turn";
/// Whose body it is.
pub const OBJECT: &str = "X-Object";
/// What the object is like, in a request: an origin that has every object remembers none.
pub const LIKE: &str = "X-Like";

/// An origin on loopback, with a thread for each connection. Dropped, it takes no more of these; those that there are end
/// with the proxies that opened them.
pub struct Origin {
    address: SocketAddrV4,
    given: Arc<Given>,
    delay_us: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// What an origin has given.
#[derive(Debug, Default)]
struct Given {
    answers: AtomicU64,
    bytes: AtomicU64,
}

impl Origin {
    /// Begin to serve on loopback, at once. Errors: no address is free.
    pub fn begin() -> Result<Origin, LabError> {
        Origin::at(Ipv4Addr::LOCALHOST, Duration::ZERO)
    }

    /// Begin to serve at this address, each answer so much later than it was asked for, as if it were far away. Errors: it cannot
    /// listen there.
    pub fn at(address: Ipv4Addr, delay: Duration) -> Result<Origin, LabError> {
        let failed = |why: std::io::Error| LabError::failed("starting an origin", why);
        let listener = TcpListener::bind((address, 0)).map_err(failed)?;
        let SocketAddr::V4(address) = listener.local_addr().map_err(failed)? else {
            return Err(LabError::failed("starting an origin", "an address of another kind"));
        };
        let stopping = Arc::new(AtomicBool::new(false));
        let given = Arc::<Given>::default();
        let (stop, giving) = (stopping.clone(), given.clone());
        let delay_us = Arc::new(AtomicU64::new(micros(delay)));
        let waits = delay_us.clone();
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Relaxed) {
                    return;
                }
                if let Ok(stream) = stream {
                    let (giving, waits) = (giving.clone(), waits.clone());
                    // Whoever breaks off gets no answer.
                    thread::spawn(move || drop(converse(stream, &giving, &waits)));
                }
            }
        });
        Ok(Origin { address, given, delay_us, stopping, accepting: Some(accepting) })
    }

    /// How many answers it has given so far, and how many bytes of bodies.
    pub fn given(&self) -> (u64, u64) {
        (self.given.answers.load(Relaxed), self.given.bytes.load(Relaxed))
    }

    /// From now on let each answer come so much later than it was asked for.
    pub fn delay(&self, delay: Duration) {
        self.delay_us.store(micros(delay), Relaxed);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }
}

fn micros(delay: Duration) -> u64 {
    delay.as_micros().try_into().unwrap_or(u64::MAX)
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stopping.store(true, Relaxed);
        // It wakes up by one more connection.
        if TcpStream::connect_timeout(&self.address.into(), Duration::from_secs(5)).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
    }
}

/// The path of an object.
pub fn path(object: u64) -> String {
    format!("/{object:016x}")
}

/// What an object is like.
pub fn like(request: &Request) -> String {
    let Request { bytes, stream, cachable, .. } = request;
    format!("{stream}/{bytes}/{}", u8::from(*cachable))
}

fn parse(path: &str, like: &str) -> Option<Request> {
    let object = u64::from_str_radix(path.rsplit_once('/')?.1, 16).ok()?;
    let mut parts = like.split('/');
    let stream = parts.next()?.parse().ok()?;
    let bytes = parts.next()?.parse().ok()?;
    let cachable = parts.next()? == "1";
    let (time, client, referer, host) = (Duration::ZERO, 0, None, 0);
    Some(Request { time, object, bytes, sent_bytes: bytes, client, referer, host, stream, cachable })
}

/// Answer the requests of one connection until it ends.
fn converse(stream: TcpStream, given: &Given, delay_us: &AtomicU64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        let mut limited = (&mut reader).take(MAX_HEAD_BYTES);
        while limited.read_until(b'\n', &mut head)? > 2 {}
        let head = String::from_utf8_lossy(&head);
        let Some(path) = head.split_ascii_whitespace().nth(1) else { return Ok(()) };
        let fields: Vec<_> = head.lines().filter_map(|line| line.split_once(':')).collect();
        let find = |wanted: &str| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let field = |wanted| find(wanted).map_or("", |(_, value)| value.trim());
        match parse(path, field(LIKE)) {
            Some(request) => {
                match delay_us.load(Relaxed) {
                    0 => {}
                    delay_us => thread::sleep(Duration::from_micros(delay_us)),
                }
                given.answers.fetch_add(1, Relaxed);
                given.bytes.fetch_add(request.bytes, Relaxed);
                answer(&mut writer, &request, field(TURN))?;
            }
            None => writer.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?,
        }
    }
}

fn answer(writer: &mut TcpStream, request: &Request, turn: &str) -> std::io::Result<()> {
    let Request { object, bytes, stream, cachable, .. } = *request;
    let kind = if stream == 1 { "text/html" } else { "image/jpeg" };
    let control = if cachable { "public, max-age=604800" } else { "no-store" };
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\nCache-Control: {control}\r\n\
         {OBJECT}: {object:016x}\r\n{TURN}: {turn}\r\n\r\n",
        httpdate::HttpDate::from(SystemTime::now())
    )
    .into_bytes();
    let mut left = bytes as usize;
    for piece in body::pieces(object, 0) {
        answer.extend_from_slice(piece.get(..left.min(piece.len())).unwrap_or_default());
        left -= left.min(piece.len());
        writer.write_all(&answer)?;
        answer.clear();
        if left == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_all_of_an_object() {
        let request = parse("/00000000000000ff", "3/300000/1").unwrap();
        assert_eq!((request.object, request.bytes, request.stream, request.cachable), (255, 300_000, 3, true));
        assert_eq!((path(255).as_str(), like(&request).as_str()), ("/00000000000000ff", "3/300000/1"));
        assert!(parse("http://127.0.0.1:80/ff", "3/300000/0").is_some_and(|request| !request.cachable));
        for (path, like) in
            [("", "1/2/1"), ("/", "1/2/1"), ("/no", "1/2/1"), ("/1", ""), ("/1", "1/-2/1"), ("/1", "1/2")]
        {
            assert!(parse(path, like).is_none(), "{path} {like}");
        }
    }
}
