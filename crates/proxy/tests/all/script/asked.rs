//! A request's head as a case writes it, in HTTP/1.1, taken apart so that it can be said in HTTP/2.

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Uri};
use tinaja_http::body::{BodyWalk, Framing};
use tinaja_http::judge::judge;

use super::expect::find;

/// Fields that HTTP/2 has not, or says otherwise.
const CONNECTION_FIELDS: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// A head, as it stands.
#[derive(Debug)]
pub struct Asked {
    pub method: Vec<u8>,
    pub scheme: Vec<u8>,
    /// Of an absolute target, or of CONNECT.
    pub authority: Option<Vec<u8>>,
    pub path: Vec<u8>,
    /// Names in lower case, as HTTP/2 has them.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// How its body is framed, if the whole head is beyond doubt.
    framing: Option<Framing>,
}

impl Asked {
    /// Takes a head from the front of what was read, once it is whole.
    pub fn take(waiting: &mut BytesMut) -> Option<Asked> {
        while waiting.starts_with(b"\r\n") {
            let _ = waiting.split_to(2);
        }
        let end = find(waiting, b"\r\n\r\n")? + 4;
        let head = waiting.split_to(end).freeze();
        Some(Asked::of(&head))
    }

    fn of(head: &Bytes) -> Asked {
        let framing = judge(head).ok().map(|judged| judged.framing);
        let text = &head[..head.len() - 4];
        let line_end = find(text, b"\r\n").unwrap_or(text.len());
        let (line, rest) = (&text[..line_end], text.get(line_end + 2..).unwrap_or_default());
        let first = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let last = line.iter().rposition(|byte| *byte == b' ').unwrap_or(line.len());
        let (method, target) = (line[..first].to_vec(), line.get(first + 1..last).unwrap_or_default());
        let (scheme, authority, path) = parts_of(&method, target);
        let lines = split(rest).into_iter().filter(|line| !line.is_empty());
        let fields = lines.map(|line| {
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            (line[..colon].to_ascii_lowercase(), trimmed(line.get(colon + 1..).unwrap_or_default()).to_vec())
        });
        Asked { method, scheme, authority, path, fields: fields.collect(), framing }
    }

    /// The body behind the head.
    pub fn walk(&self) -> BodyWalk {
        BodyWalk::new(self.framing.unwrap_or(Framing::Length(0)))
    }

    /// The same request in HTTP/2, if it is beyond doubt and can be said: without the fields that HTTP/1.1 has for its
    /// connection and for a body's frame.
    pub fn request(&self) -> Option<Request<()>> {
        self.framing?;
        let host = self.fields.iter().find(|(name, _)| name == b"host").map(|(_, value)| value.clone());
        let authority = self.authority.clone().or(host)?;
        let uri = match self.path.as_slice() {
            b"" => authority,
            path => [&self.scheme, &b"://"[..], &authority, path].concat(),
        };
        let method = Method::from_bytes(&self.method).ok()?;
        let mut request = Request::builder().method(method).uri(Uri::try_from(uri).ok()?);
        for (name, value) in &self.fields {
            let left_out = CONNECTION_FIELDS.iter().any(|left_out| name == left_out.as_bytes());
            // An absolute target's Host is said once more, to be held against it.
            if left_out || (name == b"host" && self.authority.is_none()) {
                continue;
            }
            request = request.header(name.as_slice(), value.as_slice());
        }
        request.body(()).ok()
    }
}

/// Scheme, authority and path of a target.
fn parts_of(method: &[u8], target: &[u8]) -> (Vec<u8>, Option<Vec<u8>>, Vec<u8>) {
    if method == b"CONNECT" {
        return (Vec::new(), Some(target.to_vec()), Vec::new());
    }
    let Some(colon) = find(target, b"://").filter(|colon| target[..*colon].iter().all(u8::is_ascii_alphabetic)) else {
        return (b"http".to_vec(), None, target.to_vec());
    };
    let rest = &target[colon + 3..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let empty: &[u8] = if method == b"OPTIONS" { b"*" } else { b"/" };
    let path = if end == rest.len() { empty } else { &rest[end..] };
    (target[..colon].to_ascii_lowercase(), Some(rest[..end].to_vec()), path.to_vec())
}

/// Without spaces and tabs around it; every other byte is the value's.
fn trimmed(value: &[u8]) -> &[u8] {
    let space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !space(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !space(byte)).map_or(start, |last| last + 1);
    &value[start..end]
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
