//! Clients over HTTP/1.1: one that writes raw bytes and reads answers strictly, and one request on a connection of its own, for
//! bodies larger than memory.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The status line and all header lines, with their ends.
    pub head: String,
    /// The body, as far as it came.
    pub body: Vec<u8>,
    /// The body came to its end as its framing says.
    pub whole: bool,
}

impl Response {
    /// All values of a field, joined by commas; empty without it.
    pub fn field(&self, name: &str) -> String {
        values(&self.head, name).collect::<Vec<_>>().join(", ")
    }

    /// The first value of a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        values(&self.head, name).next()
    }

    /// The Cache-Status field (RFC 9211), or nothing.
    pub fn cache_status(&self) -> &str {
        self.header("cache-status").unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The id that a page of the proxy's own gives, by which the rest is found in the logs; empty without one.
    pub fn request_id(&self) -> String {
        let text = self.text();
        let said = text.split_once("Request id: ").map(|(_, id)| id).unwrap_or_default();
        said.split(['<', '\n']).next().unwrap_or_default().to_owned()
    }

    /// Whether it says that it came from Tinaja's cache.
    pub fn is_hit(&self) -> bool {
        self.field("cache-status").contains("Tinaja; hit")
    }
}

/// The values of a field in a head, in the order of its lines.
pub(crate) fn values<'a, 'n>(head: &'a str, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
    head.lines().skip(1).filter_map(move |line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Whether a Cache-Status field says `hit`, as a parameter of any of its caches.
pub fn says_hit(cache_status: &str) -> bool {
    cache_status.split([';', ',']).any(|part| part.trim() == "hit")
}

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects; reads wait at most 20 s.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { reader: BufReader::new(stream) }
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The other side may have refused already; the answer tells.
        let _ = self.reader.get_mut().write_all(bytes.as_ref());
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// A request in absolute form, with Host and `fields` (each with its CR LF).
    pub fn request(&mut self, method: &str, url: &str, fields: &str) -> Response {
        let host = url.split('/').nth(2).unwrap();
        self.send(format!("{method} {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        self.read(method).expect("no answer")
    }

    /// The next answer, or nothing if the connection was closed before one.
    pub fn read(&mut self, method: &str) -> Option<Response> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.reader.read_line(&mut head).ok()? == 0 {
                assert_eq!(head, "", "closed amid a head");
                return None;
            }
        }
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut response = Response { status, head, body: Vec::new(), whole: true };
        if method == "HEAD" || matches!(status, 100..200 | 204 | 304) || (method == "CONNECT" && status == 200) {
            return Some(response);
        }
        let length = response.field("content-length");
        if response.field("transfer-encoding").eq_ignore_ascii_case("chunked") {
            assert_eq!(length, "", "both lengths");
            match read_chunked(&mut self.reader) {
                Some(body) => response.body = body,
                None => response.whole = false,
            }
        } else if length.is_empty() {
            response.whole = self.reader.read_to_end(&mut response.body).is_ok();
        } else {
            let length: u64 = length.parse().unwrap();
            let read = (&mut self.reader).take(length).read_to_end(&mut response.body);
            response.whole = read.is_ok() && response.body.len() as u64 == length;
        }
        Some(response)
    }

    /// Exactly so many raw bytes.
    pub fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Whether the other side has closed, with nothing further sent.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A chunked body, or nothing if it ends early.
pub fn read_chunked(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = u64::from_str_radix(line.strip_suffix("\r\n")?, 16).ok()?;
        let read = reader.take(size).read_to_end(&mut body).ok()?;
        let mut end = [0; 2];
        reader.read_exact(&mut end).ok()?;
        if read as u64 != size || &end != b"\r\n" {
            return None;
        }
        if size == 0 {
            return Some(body);
        }
    }
}

/// GET `target` (absolute for a proxy, a path for a server) from `server`. An error is a connection that broke, or a
/// body that ended early.
pub fn get(server: SocketAddr, target: &str) -> io::Result<Response> {
    get_with(server, target, "")
}

/// [`get`] with more header lines, each ending in CR LF.
pub fn get_with(server: SocketAddr, target: &str, headers: &str) -> io::Result<Response> {
    let mut body = Vec::new();
    let mut response = get_streaming(server, target, headers, &mut |piece| body.extend_from_slice(piece))?;
    response.body = body;
    Ok(response)
}

/// [`get`], the body handed out piece by piece instead of collected.
pub fn get_streaming(
    server: SocketAddr,
    target: &str,
    headers: &str,
    take: &mut dyn FnMut(&[u8]),
) -> io::Result<Response> {
    let stream = TcpStream::connect_timeout(&server, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    let host = host_of(target).map_or_else(|| server.to_string(), str::to_owned);
    write!(&stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n")?;
    let mut reader = BufReader::with_capacity(256 * 1024, stream);
    let response = read_head(&mut reader)?;
    read_body(&mut reader, &response, take)?;
    Ok(response)
}

fn host_of(target: &str) -> Option<&str> {
    target.split_once("://")?.1.split('/').next()
}

fn read_head(reader: &mut impl BufRead) -> io::Result<Response> {
    let mut head = read_line(reader)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| bad(format!("no status line: {head:?}")))?;
    head += "\r\n";
    loop {
        let line = read_line(reader)?;
        if !line.is_empty() && !line.contains(':') {
            return Err(bad(format!("no header: {line:?}")));
        }
        head += &line;
        head += "\r\n";
        if line.is_empty() {
            return Ok(Response { status, head, body: Vec::new(), whole: true });
        }
    }
}

fn read_body(reader: &mut impl BufRead, response: &Response, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    if matches!(response.status, 204 | 304) {
        return Ok(());
    }
    if response.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return read_chunks(reader, take);
    }
    match response.header("content-length") {
        Some(length) => {
            let length = length.parse().map_err(|_| bad(format!("content-length {length:?}")))?;
            read_exactly(reader, length, take)
        }
        None => read_to_end(reader, take),
    }
}

fn read_chunks(reader: &mut impl BufRead, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    loop {
        let line = read_line(reader)?;
        let size = u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16);
        let size = size.map_err(|_| bad(format!("chunk size {line:?}")))?;
        if size == 0 {
            while !read_line(reader)?.is_empty() {}
            return Ok(());
        }
        read_exactly(reader, size, take)?;
        if !read_line(reader)?.is_empty() {
            return Err(bad("a chunk is longer than it says".to_owned()));
        }
    }
}

fn read_exactly(reader: &mut impl BufRead, mut left: u64, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    while left > 0 {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Err(Error::new(ErrorKind::UnexpectedEof, format!("{left} bytes of the body are missing")));
        }
        let now = (piece.len() as u64).min(left) as usize;
        take(&piece[..now]);
        reader.consume(now);
        left -= now as u64;
    }
    Ok(())
}

fn read_to_end(reader: &mut impl Read, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(()),
            len => take(&piece[..len]),
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended inside a line")),
    }
}

fn bad(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}
