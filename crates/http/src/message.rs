//! Heads of messages that are taken apart, changed and sent on. Names keep the spelling in which they came: recipients
//! must not care (RFC 9110 5.1), and some do.

use std::convert::Infallible;
use std::ops::Deref;

use bytes::Bytes;
use http::header::{HOST, InvalidHeaderValue};
use http::status::InvalidStatusCode;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};

use crate::edits::Edits;
use crate::lines::lines;

/// Names that are not written with a capital at the beginning of each word.
const WRITTEN_OTHERWISE: [&[u8]; 3] = [b"ETag", b"TE", b"WWW-Authenticate"];

/// A status, name or value that cannot stand in a head, or one more field than a head can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a status or a field cannot stand in a message's head")]
pub struct BadField;

impl From<InvalidHeaderValue> for BadField {
    fn from(_: InvalidHeaderValue) -> BadField {
        BadField
    }
}

impl From<InvalidStatusCode> for BadField {
    fn from(_: InvalidStatusCode) -> BadField {
        BadField
    }
}

impl From<Infallible> for BadField {
    fn from(never: Infallible) -> BadField {
        match never {}
    }
}

/// The fields of a head: a [`HeaderMap`] to look at, and how names that are not written the usual way were spelled.
///
/// Memory: the map's, and 80 bytes for each line whose name is not spelled the usual way.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    map: HeaderMap,
    spelled: Vec<Spelled>,
}

/// The spelling of one line's name.
#[derive(Clone, Debug)]
struct Spelled {
    name: HeaderName,
    /// Of the lines with this name it is this one, from 0.
    line: usize,
    spelling: Bytes,
}

impl Fields {
    /// The fields of `head`, which has been judged; they share its bytes.
    ///
    /// Errors: [`BadField`].
    pub fn of_lines(head: &Bytes) -> Result<Fields, BadField> {
        let mut fields = Fields { map: HeaderMap::with_capacity(16), spelled: Vec::new() };
        for line in lines(head) {
            let name = HeaderName::from_bytes(line.name).map_err(|_| BadField)?;
            let value = HeaderValue::from_maybe_shared(head.slice_ref(line.value))?;
            if !is_usual(line.name) {
                let before = fields.map.get_all(&name).iter().count();
                let spelling = head.slice_ref(line.name);
                fields.spelled.push(Spelled { name: name.clone(), line: before, spelling });
            }
            fields.map.try_append(name, value).map_err(|_| BadField)?;
        }
        Ok(fields)
    }

    /// A field gets one line, whatever it had.
    ///
    /// Errors: [`BadField`].
    pub fn insert<V>(&mut self, name: HeaderName, value: V) -> Result<(), BadField>
    where
        V: TryInto<HeaderValue>,
        V::Error: Into<BadField>,
    {
        let value = value.try_into().map_err(Into::into)?;
        self.spelled.retain(|spelled| spelled.name != name);
        self.map.try_insert(name, value).map(drop).map_err(|_| BadField)
    }

    /// A field gets one more line.
    ///
    /// Errors: [`BadField`].
    pub fn append<V>(&mut self, name: HeaderName, value: V) -> Result<(), BadField>
    where
        V: TryInto<HeaderValue>,
        V::Error: Into<BadField>,
    {
        let value = value.try_into().map_err(Into::into)?;
        self.map.try_append(name, value).map(drop).map_err(|_| BadField)
    }

    /// Removes every line of a field.
    pub fn remove(&mut self, name: &HeaderName) {
        if self.map.remove(name).is_some() {
            self.spelled.retain(|spelled| spelled.name != *name);
        }
    }

    /// Makes edits.
    ///
    /// Errors: [`BadField`], with some of them made.
    pub fn edit(&mut self, edits: &Edits) -> Result<(), BadField> {
        edits.removed.iter().for_each(|name| self.remove(name));
        edits.added.iter().try_for_each(|(name, value)| self.append(name.clone(), value.clone()))
    }

    /// The fields without their spelling, for versions that have none.
    pub fn as_map(&self) -> &HeaderMap {
        &self.map
    }

    /// Writes the lines of HTTP/1, each with its CR LF (RFC 9112 5).
    pub fn write_to(&self, wire: &mut Vec<u8>) {
        self.map.keys().for_each(|name| self.write_field(name, wire));
    }

    fn write_field(&self, name: &HeaderName, wire: &mut Vec<u8>) {
        for (line, value) in self.map.get_all(name).iter().enumerate() {
            match self.spelled.iter().find(|spelled| spelled.line == line && spelled.name == *name) {
                Some(spelled) => wire.extend_from_slice(&spelled.spelling),
                None => write_usual(name.as_str().as_bytes(), wire),
            }
            wire.extend_from_slice(b": ");
            wire.extend_from_slice(value.as_bytes());
            wire.extend_from_slice(b"\r\n");
        }
    }
}

impl Deref for Fields {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        &self.map
    }
}

/// The head of a request.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// What is to be done.
    pub method: Method,
    /// The request target as it goes on the wire: path and query, or `*`.
    pub target: Bytes,
    /// The fields, Host among them.
    pub headers: Fields,
}

impl RequestHead {
    /// Writes all of it as HTTP/1.1, Host first, as RFC 9110 7.2 asks for.
    pub fn write_to(&self, wire: &mut Vec<u8>) {
        for part in [self.method.as_str().as_bytes(), b" ", &self.target, b" HTTP/1.1\r\n"] {
            wire.extend_from_slice(part);
        }
        self.headers.write_field(&HOST, wire);
        self.headers.keys().filter(|name| *name != HOST).for_each(|name| self.headers.write_field(name, wire));
        wire.extend_from_slice(b"\r\n");
    }
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// The version that it came with.
    pub version: Version,
    /// The fields.
    pub headers: Fields,
}

impl ResponseHead {
    /// A head without fields, of HTTP/1.1.
    pub fn new(status: StatusCode) -> ResponseHead {
        ResponseHead { status, version: Version::HTTP_11, headers: Fields::default() }
    }
}

fn written_otherwise(name: &[u8]) -> Option<&'static [u8]> {
    WRITTEN_OTHERWISE.into_iter().find(|other| other.eq_ignore_ascii_case(name))
}

/// Whether a name is spelled as [`write_usual`] would.
fn is_usual(name: &[u8]) -> bool {
    match written_otherwise(name) {
        Some(other) => other == name,
        None => usual(name).eq(name.iter().copied()),
    }
}

fn write_usual(name: &[u8], wire: &mut Vec<u8>) {
    match written_otherwise(name) {
        Some(other) => wire.extend_from_slice(other),
        None => wire.extend(usual(name)),
    }
}

/// A name with a capital at the beginning of each word, and nowhere else.
fn usual(name: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let before = std::iter::once(b'-').chain(name.iter().copied());
    let capital = |(before, byte): (u8, &u8)| {
        if before == b'-' { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() }
    };
    before.zip(name).map(capital)
}

#[cfg(test)]
mod tests {
    use http::header::{AGE, CONTENT_LENGTH, ETAG, VIA};

    use super::*;

    fn wire(fields: &Fields) -> String {
        let mut wire = Vec::new();
        fields.write_to(&mut wire);
        String::from_utf8(wire).unwrap()
    }

    fn fields(lines: &'static str) -> Fields {
        Fields::of_lines(&Bytes::from_static(lines.as_bytes())).unwrap()
    }

    #[test]
    fn names_are_written_as_they_came() {
        for lines in [
            "Content-Type: a\r\nETag: b\r\nWWW-Authenticate: c\r\nX-1-a: d\r\n",
            "content-type: a\r\netag: b\r\nEtag2: b\r\nX-ID: \r\nx_y: e\r\n",
            "Set-Cookie: a\r\nset-cookie: b\r\nSET-cookie: c\r\nVia: d\r\n",
        ] {
            assert_eq!(wire(&fields(lines)), lines);
        }
    }

    #[test]
    fn ours_are_written_the_usual_way() {
        let mut fields = fields("via: 1.1 a\r\nage: 3\r\netag: x\r\n");
        fields.append(VIA, "1.1 b").unwrap();
        fields.insert(AGE, 7u64).unwrap();
        fields.remove(&ETAG);
        fields.append(ETAG, HeaderValue::from_static("y")).unwrap();
        fields.insert(CONTENT_LENGTH, 9usize).unwrap();
        let mut lines: Vec<_> = wire(&fields).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["Age: 7", "Content-Length: 9", "ETag: y", "Via: 1.1 b", "via: 1.1 a"]);
        assert_eq!(fields.get(AGE).unwrap(), "7");
        assert!(fields.spelled.len() == 1);
    }

    #[test]
    fn host_comes_first() {
        let headers = fields("Accept: a\r\nhost: b\r\nX: c\r\n");
        let head = RequestHead { method: Method::GET, target: Bytes::from_static(b"/x"), headers };
        let mut wire = Vec::new();
        head.write_to(&mut wire);
        assert_eq!(wire, b"GET /x HTTP/1.1\r\nhost: b\r\nAccept: a\r\nX: c\r\n\r\n");
    }

    #[test]
    fn what_cannot_stand_in_a_head() {
        let mut fields = Fields::default();
        assert_eq!(fields.insert(VIA, "a\nb"), Err(BadField));
        assert_eq!(fields.append(VIA, "a\0".to_owned()), Err(BadField));
        assert!(Fields::of_lines(&Bytes::from_static(b"a(: b\r\n")).is_err());
        assert!(fields.is_empty());
    }
}
