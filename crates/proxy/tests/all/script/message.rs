//! Messages as they come from the proxy, read more strictly than any server does: what is in doubt is an error.

use super::wire::{Silence, Wire, shown};

/// A message from the proxy.
#[derive(Debug)]
pub struct Message {
    pub first: String,
    /// Names in lower case. Those of trailers begin with `trailer `.
    pub fields: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    /// The body came to its end as its framing says.
    pub whole: bool,
}

impl Message {
    /// Reads a request, or an answer to a request with `method`. `None` if the other side closes before it.
    ///
    /// Errors: no message within the time, or one that could be read in two ways.
    pub fn read(wire: &mut Wire, answer_to: Option<&str>) -> Result<Option<Message>, String> {
        match wire.begins() {
            Ok(()) => {}
            Err(Silence::Closed) => return Ok(None),
            Err(Silence::Waiting) => return Err("nothing came".into()),
        }
        let first = text_line(wire)?;
        let mut message = Message { first, fields: Vec::new(), body: Vec::new(), whole: true };
        message.read_fields(wire, "")?;
        message.check_lengths()?;
        match answer_to {
            None => message.check_request_line()?,
            Some(method) => {
                let status = message.status()?;
                if method == "HEAD" || matches!(status, 100..200 | 204 | 304) || (method == "CONNECT" && status == 200)
                {
                    return Ok(Some(message));
                }
            }
        }
        message.read_body(wire, answer_to.is_some())?;
        Ok(Some(message))
    }

    /// An answer's status.
    pub fn status(&self) -> Result<u16, String> {
        let mut words = self.first.splitn(3, ' ');
        let (version, status) = (words.next(), words.next().and_then(|status| status.parse().ok()));
        match (version, status) {
            (Some("HTTP/1.1"), Some(status @ 100..600)) => Ok(status),
            _ => Err(format!("no status line of HTTP/1.1: {:?}", self.first)),
        }
    }

    /// All values of a field.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_slice())
    }

    fn check_request_line(&self) -> Result<(), String> {
        let words: Vec<_> = self.first.split(' ').collect();
        let plain = self.first.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        match words.as_slice() {
            [method, target, "HTTP/1.1" | "HTTP/1.0"] if plain && !method.is_empty() && !target.is_empty() => Ok(()),
            _ => Err(format!("no request line: {:?}", self.first)),
        }
    }

    fn check_lengths(&self) -> Result<(), String> {
        let lengths: Vec<_> = self.values("content-length").collect();
        let codings: Vec<_> = self.values("transfer-encoding").collect();
        let number = |value: &[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        match (lengths.as_slice(), codings.as_slice()) {
            ([], [] | [b"chunked"]) => Ok(()),
            ([length], []) if number(length) => Ok(()),
            _ => Err(format!("its framing is in doubt: {lengths:?} {codings:?}")),
        }
    }

    fn read_fields(&mut self, wire: &mut Wire, kind: &str) -> Result<(), String> {
        loop {
            let line = line(wire)?;
            if line.is_empty() {
                return Ok(());
            }
            let colon = line.iter().position(|byte| *byte == b':').ok_or_else(|| doubt("no field", &line))?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            let name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
            if name.is_empty() || !name.iter().all(name_byte) || value.iter().any(|byte| *byte < 32 && *byte != 9) {
                return Err(doubt("a field that is malformed", &line));
            }
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            // One form of what decides where a message goes and ends, whatever the other side wrote.
            let decides = matches!(name.as_str(), "host" | "content-length" | "transfer-encoding");
            if decides && line[colon + 1..] != [b" ", value].concat() {
                return Err(doubt("a field that is not in its plain form", &line));
            }
            self.fields.push((format!("{kind}{name}"), value.to_vec()));
        }
    }

    fn read_body(&mut self, wire: &mut Wire, is_answer: bool) -> Result<(), String> {
        if self.values("transfer-encoding").next().is_some() {
            return self.read_chunks(wire);
        }
        let length = self.values("content-length").next().map(|length| String::from_utf8_lossy(length).parse());
        let read = match length {
            Some(length) => wire.exactly(length.map_err(|_| "a length out of bounds")?, &mut self.body),
            None if is_answer => match wire.exactly(u64::MAX, &mut self.body) {
                Err(Silence::Closed) => Ok(()),
                other => other,
            },
            None => Ok(()),
        };
        self.settle(read)
    }

    fn settle(&mut self, read: Result<(), Silence>) -> Result<(), String> {
        match read {
            Ok(()) => Ok(()),
            Err(Silence::Closed) => {
                self.whole = false;
                Ok(())
            }
            Err(Silence::Waiting) => Err(format!("the body stops coming after {} bytes", self.body.len())),
        }
    }

    fn read_chunks(&mut self, wire: &mut Wire) -> Result<(), String> {
        loop {
            let size = match wire.line() {
                Ok(size) => size,
                Err(silence) => return self.settle(Err(silence)),
            };
            let digits = size.strip_suffix(b"\r").unwrap_or_default();
            let plain = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
            let size = plain.then(|| u64::from_str_radix(&String::from_utf8_lossy(digits), 16).ok()).flatten();
            let size = size.ok_or_else(|| doubt("no plain chunk size", digits))?;
            if size == 0 {
                return self.read_fields(wire, "trailer ");
            }
            let mut end = Vec::new();
            let read = wire.exactly(size, &mut self.body).and_then(|()| wire.exactly(2, &mut end));
            if read.is_err() {
                return self.settle(read);
            }
            if end != b"\r\n" {
                return Err(doubt("no end of a chunk", &end));
            }
        }
    }
}

fn line(wire: &mut Wire) -> Result<Vec<u8>, String> {
    let mut line =
        wire.line().map_err(|silence| format!("{silence:?} amid a head, after: {}", shown(wire.unread())))?;
    if line.pop() != Some(b'\r') || line.contains(&b'\r') || line.contains(&0) {
        return Err(doubt("a line that does not end with CR LF", &line));
    }
    Ok(line)
}

fn text_line(wire: &mut Wire) -> Result<String, String> {
    String::from_utf8(line(wire)?).map_err(|error| doubt("no text", error.as_bytes()))
}

fn doubt(what: &str, bytes: &[u8]) -> String {
    format!("the proxy sent {what}: {}", shown(bytes))
}
