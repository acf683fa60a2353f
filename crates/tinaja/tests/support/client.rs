//! A plain HTTP/1.1 client, for tests that need many requests at once or a body larger than memory.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response with its body.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The Cache-Status field (RFC 9211), or nothing.
    pub fn cache_status(&self) -> &str {
        self.header("cache-status").unwrap_or_default()
    }

    /// Whether the response says that it came from the cache.
    pub fn is_hit(&self) -> bool {
        says_hit(self.cache_status())
    }
}

/// Whether a Cache-Status field says `hit`, as a parameter of any of its caches.
pub fn says_hit(cache_status: &str) -> bool {
    cache_status.split([';', ',']).any(|part| part.trim() == "hit")
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
    let status_line = read_line(reader)?;
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| bad(format!("no status line: {status_line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok(Response { status, headers, body: Vec::new() });
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad(format!("no header: {line:?}")))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
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
