//! Links in a body, rewritten while it streams.
//!
//! A link is what stands right behind a quotation mark: the value of an attribute in HTML, or a string in JSON. So a URL within a text
//! or within another URL stays as it is. Of HTML also paths from the root, which would lead to our own root; and links
//! without a scheme. What is not certain yet waits for the next piece: at most a link's server and the source's own path.
//!
//! Schemes and hosts are found in lower case alone, as all sources write them; a link that is written otherwise leads past the
//! mirror, and no further.

use super::links::{Links, Server};

/// How links are written in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Json,
}

/// Bytes of a host and port at most: a name has 253 (RFC 1035), a port 5.
const MOST_AUTHORITY: usize = 260;

/// Rewrites the links of one body. Memory: some hundred bytes between two pieces.
#[derive(Debug)]
pub(crate) struct Rewriter {
    links: Links,
    form: Form,
    /// Bytes from a quotation mark on that may be a link.
    held: Vec<u8>,
    /// The byte before them.
    before: u8,
}

/// What stands behind a quotation mark.
enum Seen {
    /// The end of the piece came first.
    More,
    /// No link that is rewritten.
    Other,
    /// So many bytes are to become this.
    Link(usize, String),
}

impl Rewriter {
    pub fn new(links: Links, form: Form) -> Rewriter {
        Rewriter { links, form, held: Vec::new(), before: 0 }
    }

    /// The next piece, rewritten as far as it is certain.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        self.rewrite(&bytes, false)
    }

    /// What is left at the end.
    pub fn end(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.held);
        self.rewrite(&bytes, true)
    }

    fn rewrite(&mut self, bytes: &[u8], is_last: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 64);
        let (mut at, mut before, mut copied) = (0, self.before, 0);
        while let Some(quote) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| self.is_quote(*byte))) {
            let mark = at + quote;
            if let Some(last) = mark.checked_sub(1).and_then(|last| bytes.get(last)) {
                before = *last;
            }
            let rest = bytes.get(mark + 1..).unwrap_or_default();
            let seen =
                if self.form == Form::Json && before == b'\\' { Seen::Other } else { self.look(rest, before, is_last) };
            at = mark + 1;
            match seen {
                Seen::Other => {}
                Seen::Link(length, link) => {
                    out.extend_from_slice(bytes.get(copied..at).unwrap_or_default());
                    out.extend_from_slice(link.as_bytes());
                    at += length;
                    copied = at;
                    // A link that was replaced to its end has its last byte before the next mark.
                }
                Seen::More => {
                    out.extend_from_slice(bytes.get(copied..mark).unwrap_or_default());
                    self.held = bytes.get(mark..).unwrap_or_default().to_vec();
                    self.before = before;
                    return out;
                }
            }
        }
        out.extend_from_slice(bytes.get(copied..).unwrap_or_default());
        self.before = bytes.last().copied().unwrap_or(self.before);
        out
    }

    fn is_quote(&self, byte: u8) -> bool {
        byte == b'"' || (byte == b'\'' && self.form == Form::Html)
    }

    /// What these bytes, behind a quotation mark, are.
    fn look(&self, bytes: &[u8], before: u8, is_last: bool) -> Seen {
        let mut read = Read { bytes, at: 0, form: self.form, is_last };
        match bytes.first() {
            None if is_last => Seen::Other,
            None => Seen::More,
            Some(b'h') => match read.scheme() {
                Step::More => Seen::More,
                Step::No => Seen::Other,
                Step::Yes(tls) => self.authority(read, tls),
            },
            Some(b'/') if self.form == Form::Html && before == b'=' => match bytes.get(1) {
                None if !is_last => Seen::More,
                Some(b'/') => {
                    read.at = 2;
                    self.authority(read, self.links.is_tls())
                }
                _ => self.links.own().map_or(Seen::Other, |server| self.path(read, server)),
            },
            Some(_) => Seen::Other,
        }
    }

    fn authority(&self, mut read: Read<'_>, tls: bool) -> Seen {
        match read.authority() {
            Step::More => Seen::More,
            Step::No => Seen::Other,
            Step::Yes(authority) => {
                self.links.server(tls, &authority).map_or(Seen::Other, |server| self.path(read, server))
            }
        }
    }

    /// What follows a server.
    fn path(&self, mut read: Read<'_>, server: Server) -> Seen {
        let behind_server = read.at;
        match server {
            Server::Listed(before) => Seen::Link(behind_server, before),
            Server::Home(listed) => match read.text(self.links.prefix()) {
                Step::More => Seen::More,
                Step::Yes(()) => Seen::Link(read.at, self.links.base().to_owned()),
                Step::No => listed.map_or(Seen::Other, |before| Seen::Link(behind_server, before)),
            },
        }
    }
}

/// What came of reading a part of a link.
enum Step<T> {
    More,
    No,
    Yes(T),
}

/// Bytes that are read from the front.
struct Read<'a> {
    bytes: &'a [u8],
    at: usize,
    form: Form,
    is_last: bool,
}

impl Read<'_> {
    /// `http://` or `https://`; whether it is the latter.
    fn scheme(&mut self) -> Step<bool> {
        match self.text("http") {
            Step::Yes(()) => {}
            Step::More => return Step::More,
            Step::No => return Step::No,
        }
        let tls = self.bytes.get(self.at) == Some(&b's');
        self.at += usize::from(tls);
        match self.text("://") {
            Step::Yes(()) => Step::Yes(tls),
            Step::More => Step::More,
            Step::No => Step::No,
        }
    }

    /// A text, in which JSON may write a slash with a backslash before it.
    fn text(&mut self, text: &str) -> Step<()> {
        for wanted in text.bytes() {
            if wanted == b'/' && self.form == Form::Json && self.bytes.get(self.at) == Some(&b'\\') {
                self.at += 1;
            }
            match self.bytes.get(self.at) {
                Some(byte) if *byte == wanted => self.at += 1,
                Some(_) => return Step::No,
                None if self.is_last => return Step::No,
                None => return Step::More,
            }
        }
        Step::Yes(())
    }

    /// A host and perhaps a port, up to what ends them.
    fn authority(&mut self) -> Step<String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let is_part = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_:".contains(byte);
        let length = rest.iter().take(MOST_AUTHORITY + 1).take_while(|byte| is_part(byte)).count();
        if length == 0 && !rest.is_empty() || length > MOST_AUTHORITY {
            return Step::No;
        }
        let ends = match (rest.get(length), rest.get(length + 1)) {
            (None, _) if !self.is_last => return Step::More,
            (Some(b'\\'), None) if !self.is_last => return Step::More,
            (Some(b'\\'), Some(b'/')) => self.form == Form::Json,
            (Some(b'/' | b'?' | b'#' | b'"'), _) => true,
            (Some(b'\''), _) => self.form == Form::Html,
            _ => false,
        };
        if !ends {
            return Step::No;
        }
        self.at += length;
        Step::Yes(String::from_utf8_lossy(rest.get(..length).unwrap_or_default()).into_owned())
    }
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
