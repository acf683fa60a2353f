//! A client that writes raw bytes and reads answers strictly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// The body came to its end as its framing says.
    pub whole: bool,
}

impl Response {
    /// All values of a field, joined by commas; empty without it.
    pub fn field(&self, name: &str) -> String {
        let values = self.head.lines().skip(1).filter_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        values.collect::<Vec<_>>().join(", ")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn is_hit(&self) -> bool {
        self.field("cache-status").contains("Tinaja; hit")
    }
}

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { reader: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The other side may have refused already; the answer tells.
        let _ = self.reader.get_mut().write_all(bytes.as_ref());
    }

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
