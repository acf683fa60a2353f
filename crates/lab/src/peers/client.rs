//! Clients of a proxy: each has an address of its own, if the proxy is on loopback, and keeps its connections, as browsers do.
//!
//! They are not the testkit's clients, which panic at a wrong answer, as tests should. These replay a load's requests, tell hits from misses,
//! and return errors, which an experiment reports.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::body;
use super::origin::{LIKE, OBJECT, TURN, like, path};
use crate::load::Request;

/// A disk with a queue of hundreds of requests takes seconds; more is a proxy that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// So many clients of one proxy.
pub struct Clients {
    proxy: SocketAddrV4,
    /// One at least.
    origins: Vec<SocketAddrV4>,
    /// The connections of each that nobody uses at the moment.
    idle: Vec<Mutex<Vec<BufReader<TcpStream>>>>,
}

/// Requests of this process so far. Clients of several proxies of one cluster must not have the same turns.
static TURNS: AtomicU64 = AtomicU64::new(1);

/// What came back: whether from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// It is an answer that the origin gave to an earlier request.
    pub is_hit: bool,
}

/// A turn that no other request of this process has.
pub fn next_turn() -> u64 {
    TURNS.fetch_add(1, Relaxed)
}

/// What a head says.
pub struct Head {
    /// Bytes of the body.
    pub length: u64,
    /// The turn of the request that the origin was asked with.
    pub turn: u64,
    /// Whose body it is.
    pub object: u64,
    /// Whether the connection ends with it.
    pub closes: bool,
}

impl Clients {
    /// Clients that ask this proxy for what this origin has.
    pub fn new(clients: u64, proxy: SocketAddrV4, origin: SocketAddrV4) -> Clients {
        Clients::of_sites(clients, proxy, vec![origin])
    }

    /// The same of several origins: each host of the load is at one of them.
    pub fn of_sites(clients: u64, proxy: SocketAddrV4, origins: Vec<SocketAddrV4>) -> Clients {
        let idle = (0..clients.max(1)).map(|_| Mutex::default()).collect();
        Clients { proxy, origins, idle }
    }

    /// Ask, read the answer and check every byte. Errors: no answer, or a wrong one; it says which.
    pub fn ask(&self, request: &Request) -> Result<Answer, Error> {
        let turn = next_turn();
        let number = request.client as usize % self.idle.len();
        let idle = self.idle.get(number).ok_or(ErrorKind::NotFound)?;
        // A proxy may close a connection that it has kept, at the moment when it is used again.
        let kept = idle.lock().pop();
        if let Some(mut connection) = kept {
            match self.exchange(&mut connection, request, turn) {
                Ok((answer, closes)) => {
                    if !closes {
                        idle.lock().push(connection);
                    }
                    return Ok(answer);
                }
                Err(error) if is_stale(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let mut connection = BufReader::new(self.connect(number)?);
        let (answer, closes) = self.exchange(&mut connection, request, turn)?;
        if !closes {
            idle.lock().push(connection);
        }
        Ok(answer)
    }

    fn connect(&self, number: usize) -> Result<TcpStream, Error> {
        let own = Ipv4Addr::new(127, 1, (number / 250 % 250) as u8, (number % 250 + 1) as u8);
        let made = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        // From there nothing else can be reached.
        if self.proxy.ip().is_loopback() {
            bind(&made, &SocketAddrV4::new(own, 0))?;
        }
        connect(&made, &self.proxy)?;
        let stream = TcpStream::from(made);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn exchange(
        &self,
        connection: &mut BufReader<TcpStream>,
        request: &Request,
        turn: u64,
    ) -> Result<(Answer, bool), Error> {
        let at = request.host as usize % self.origins.len().max(1);
        let origin = self.origins.get(at).ok_or(ErrorKind::NotFound)?;
        let (path, like) = (path(request.object), like(request));
        let referer = request.referer.map(|page| format!("Referer: http://{origin}{}\r\n", self::path(page)));
        let text = format!(
            "GET http://{origin}{path} HTTP/1.1\r\nHost: {origin}\r\n{}{LIKE}: {like}\r\n{TURN}: {turn}\r\n\r\n",
            referer.unwrap_or_default()
        );
        connection.get_mut().write_all(text.as_bytes())?;
        let head = read_head(connection)?;
        if head.length != request.bytes || head.object != request.object {
            return Err(wrong(format!("{path} was answered with {} bytes of {:016x}", head.length, head.object)));
        }
        let mut at = 0_usize;
        while (at as u64) < head.length {
            let buffered = connection.fill_buf()?;
            let bytes = buffered.get(..buffered.len().min(head.length as usize - at)).unwrap_or_default();
            if bytes.is_empty() {
                return Err(Error::new(ErrorKind::UnexpectedEof, format!("{path} ended after {at} bytes")));
            }
            if !body::is_right(request.object, at, bytes) {
                return Err(wrong(format!("{path} has other bytes behind byte {at}")));
            }
            let count = bytes.len();
            connection.consume(count);
            at += count;
        }
        Ok((Answer { is_hit: head.turn != turn }, head.closes))
    }
}

/// An answer that no proxy should give.
pub fn wrong(why: String) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}

/// Whether a connection was closed before anything of an answer came.
pub fn is_stale(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

/// Read a head. Errors: the connection is closed before it, its status is not 200, or it lacks what the origin said.
pub fn read_head(connection: &mut impl BufRead) -> Result<Head, Error> {
    let mut text = Vec::new();
    let mut limited = connection.take(MAX_HEAD_BYTES);
    while limited.read_until(b'\n', &mut text)? > 2 {}
    if text.is_empty() {
        return Err(ErrorKind::ConnectionReset.into());
    }
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines();
    let status = lines.next().unwrap_or_default();
    if status.split_ascii_whitespace().nth(1) != Some("200") {
        return Err(Error::other(format!("it was answered with {status:?}")));
    }
    let fields: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
    let field =
        |name: &str| fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim());
    let missing = |name: &str| wrong(format!("an answer without a sound {name}"));
    let number = |name: &str, radix| {
        field(name).and_then(|text| u64::from_str_radix(text, radix).ok()).ok_or_else(|| missing(name))
    };
    let closes = field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(Head { length: number("Content-Length", 10)?, turn: number(TURN, 10)?, object: number(OBJECT, 16)?, closes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Embedded, PolyMix, PolyMixOptions};
    use crate::peers::Origin;

    #[test]
    fn an_origin_asked_as_if_it_were_a_proxy_answers_each_object_with_its_own_bytes() {
        let origin = Origin::begin().unwrap();
        let clients = Clients::new(3, origin.address(), origin.address());
        let options = PolyMixOptions::new(Embedded::Zipf13, 100.0, 50);
        for request in PolyMix::new(options, 1).take(300) {
            assert_eq!(clients.ask(&request).unwrap(), Answer { is_hit: false });
        }
        let kept: usize = clients.idle.iter().map(|idle| idle.lock().len()).sum();
        assert_eq!(kept, 3, "one connection each, used again and again");
    }

    #[test]
    fn what_no_proxy_should_say_is_refused() {
        let head = |text: &str| read_head(&mut text.as_bytes());
        assert!(
            head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-turn: 7\r\nX-OBJECT: ff\r\n\r\n")
                .is_ok_and(|head| head.turn == 7)
        );
        for (text, why) in [
            ("HTTP/1.1 503 No\r\n\r\n", "503"),
            ("HTTP/1.1 200 OK\r\nX-Turn: 7\r\nX-Object: ff\r\n\r\n", "Content-Length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Turn: 7\r\n\r\n", "X-Object"),
        ] {
            let error = head(text).err().unwrap();
            assert!(error.to_string().contains(why) && !is_stale(&error), "{error}");
        }
        assert!(head("").is_err_and(|error| is_stale(&error)));
    }
}
