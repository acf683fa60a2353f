//! What a script says must come, compared with what came.

use super::message::Message;
use super::wire::shown;

/// A message as a script describes it: the first line, the fields it must or must not have, and perhaps its body.
pub struct Expected {
    first: Vec<u8>,
    fields: Vec<(String, Vec<u8>)>,
    absent: Vec<String>,
    /// Bytes that the body must not have: `!contains BYTES`.
    without: Vec<Vec<u8>>,
    body: Option<Vec<u8>>,
}

impl Expected {
    /// Reads lines up to an empty one, and all behind that as the body.
    pub fn parse(text: &[u8]) -> Result<Expected, String> {
        let (head, body) = match find(text, b"\r\n\r\n") {
            Some(end) => (&text[..end], Some(text[end + 4..].to_vec())),
            None => (text.strip_suffix(b"\r\n").unwrap_or(text), None),
        };
        let mut lines = split(head).into_iter();
        let first = lines.next().unwrap_or_default().to_vec();
        let mut expected = Expected { first, fields: Vec::new(), absent: Vec::new(), without: Vec::new(), body };
        for line in lines {
            if let Some(unwanted) = line.strip_prefix(b"!contains ") {
                expected.without.push(unwanted.to_vec());
                continue;
            }
            if let Some(name) = line.strip_prefix(b"!") {
                expected.absent.push(String::from_utf8_lossy(name).to_ascii_lowercase());
                continue;
            }
            let colon =
                line.iter().position(|byte| *byte == b':').ok_or_else(|| format!("no field: {}", shown(line)))?;
            let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
            expected.fields.push((name, line[colon + 1..].trim_ascii().to_vec()));
        }
        Ok(expected)
    }

    /// Whether an answer is as expected: its status among those given, apart by `|`.
    pub fn check_answer(&self, answer: &Message, cut: bool) -> Result<(), String> {
        let status = answer.status()?.to_string();
        if !self.first.split(|byte| *byte == b'|').any(|first| matches(first, status.as_bytes())) {
            return Err(format!("not {}, but {status}", shown(&self.first)));
        }
        if answer.whole == cut {
            return Err(if cut { "the body is whole".into() } else { "the body ends early".into() });
        }
        self.check_fields(answer)?;
        self.check_body(answer, None)
    }

    /// Whether a request is as expected. Where no body is given, it must have none.
    pub fn check_request(&self, request: &Message, cut: bool) -> Result<(), String> {
        if !matches(&self.first, request.first.as_bytes()) {
            return Err(format!("not {:?}, but {:?}", shown(&self.first), request.first));
        }
        if request.whole == cut {
            return Err(if cut { "the body is whole".into() } else { "the body ends early".into() });
        }
        self.check_fields(request)?;
        self.check_body(request, (!cut).then_some(&[][..]))
    }

    fn check_fields(&self, message: &Message) -> Result<(), String> {
        for (name, value) in &self.fields {
            if !message.values(name).any(|found| matches(value, found)) {
                return Err(format!("no {name}: {}", shown(value)));
            }
        }
        match self.absent.iter().find(|name| message.values(name).next().is_some()) {
            Some(name) => Err(format!("it has {name}")),
            None => Ok(()),
        }
    }

    fn check_body(&self, message: &Message, otherwise: Option<&[u8]>) -> Result<(), String> {
        if let Some(unwanted) = self.without.iter().find(|unwanted| find(&message.body, unwanted).is_some()) {
            return Err(format!("its body contains {}", shown(unwanted)));
        }
        match self.body.as_deref().or(otherwise) {
            Some(body) if body != message.body => Err(format!("another body: {}", shown(&message.body))),
            _ => Ok(()),
        }
    }
}

/// Whether `text` is as the pattern says, in which `*` stands for anything.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match find(rest, part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

pub fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() { Some(0) } else { text.windows(part.len()).position(|window| window == part) }
}

fn split(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = find(rest, b"\r\n") {
        lines.push(&rest[..end]);
        rest = &rest[end + 2..];
    }
    lines.push(rest);
    lines
}
