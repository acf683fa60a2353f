//! Heads of messages that are taken apart, changed and sent on. Names that stay keep the spelling in which they came:
//! recipients must not care (RFC 9110 5.1), and some do.

use std::convert::Infallible;
use std::fmt;
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
/// Memory: the map's, and as much again where one name is not spelled the usual way.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    map: HeaderMap,
    /// Empty, or the spelling of each line of `map`, in the same order; nothing for one that is spelled the usual way. A map, and
    /// not a list to search: who sends a head chooses how many lines it has.
    spelled: HeaderMap<Bytes>,
}

impl Fields {
    /// The fields of `head`, an HTTP/1 head that has been judged; they share its bytes.
    ///
    /// Errors: [`BadField`].
    pub fn of_lines(head: &Bytes) -> Result<Fields, BadField> {
        let mut fields = Fields { map: HeaderMap::with_capacity(16), spelled: HeaderMap::default() };
        for line in lines(head) {
            let name = HeaderName::from_bytes(line.name).map_err(|_| BadField)?;
            let value = HeaderValue::from_maybe_shared(head.slice_ref(line.value))?;
            let spelling = if !is_usual(line.name) { head.slice_ref(line.name) } else { Bytes::new() };
            if fields.spelled.is_empty() && !spelling.is_empty() {
                for name in fields.map.keys() {
                    for _ in fields.map.get_all(name) {
                        fields.spelled.try_append(name.clone(), Bytes::new()).map_err(|_| BadField)?;
                    }
                }
            }
            if !fields.spelled.is_empty() || !spelling.is_empty() {
                fields.spelled.try_append(name.clone(), spelling).map_err(|_| BadField)?;
            }
            fields.map.try_append(name, value).map_err(|_| BadField)?;
        }
        Ok(fields)
    }

    /// The same of a head that came over HTTP/2, where all names are in lower case: that says nothing about their spelling.
    pub fn of_http2(map: HeaderMap) -> Fields {
        Fields { map, spelled: HeaderMap::default() }
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
        if !self.spelled.is_empty() {
            self.spelled.try_insert(name.clone(), Bytes::new()).map_err(|_| BadField)?;
        }
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
        if !self.spelled.is_empty() {
            self.spelled.try_append(name.clone(), Bytes::new()).map_err(|_| BadField)?;
        }
        self.map.try_append(name, value).map(drop).map_err(|_| BadField)
    }

    /// Removes every line of a field.
    pub fn remove(&mut self, name: &HeaderName) {
        self.map.remove(name);
        self.spelled.remove(name);
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
        self.write_without(None, wire);
    }

    /// The same without one of the fields.
    fn write_without(&self, without: Option<&HeaderName>, wire: &mut Vec<u8>) {
        if self.spelled.is_empty() {
            // Lines of one name come one behind the other here as well.
            let lines = self.map.iter().filter(|(name, _)| Some(*name) != without);
            return lines.for_each(|(name, value)| write_line(name, None, value, wire));
        }
        self.map.keys().filter(|name| Some(*name) != without).for_each(|name| self.write_field(name, wire));
    }

    fn write_field(&self, name: &HeaderName, wire: &mut Vec<u8>) {
        let mut spelled = self.spelled.get_all(name).iter();
        for value in self.map.get_all(name) {
            write_line(name, spelled.next(), value, wire);
        }
    }
}

fn write_line(name: &HeaderName, spelling: Option<&Bytes>, value: &HeaderValue, wire: &mut Vec<u8>) {
    wire.reserve(name.as_str().len() + value.len() + 4);
    match spelling.filter(|spelling| !spelling.is_empty()) {
        Some(spelling) => wire.extend_from_slice(spelling),
        None => push_usual(name, wire),
    }
    wire.extend_from_slice(b": ");
    wire.extend_from_slice(value.as_bytes());
    wire.extend_from_slice(b"\r\n");
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
        self.headers.write_without(Some(&HOST), wire);
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

/// A name as it is written where nobody has spelled it otherwise: `Content-Type`.
#[derive(Clone, Copy, Debug)]
pub struct Usual<'a>(pub &'a HeaderName);

impl fmt::Display for Usual<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Vec::new();
        push_usual(self.0, &mut written);
        f.write_str(std::str::from_utf8(&written).unwrap_or(self.0.as_str()))
    }
}

/// Whether a name is spelled as [`push_usual`] does.
fn is_usual(name: &[u8]) -> bool {
    if let Some(otherwise) = written_otherwise(name) {
        return otherwise == name;
    }
    let mut before = b'-';
    name.iter().all(|byte| {
        let capital = std::mem::replace(&mut before, *byte) == b'-';
        if capital { !byte.is_ascii_lowercase() } else { !byte.is_ascii_uppercase() }
    })
}

/// Writes a name with a capital at the beginning of each word and nowhere else, but for those of [`WRITTEN_OTHERWISE`].
fn push_usual(name: &HeaderName, wire: &mut Vec<u8>) {
    // In lower case.
    let name = name.as_str().as_bytes();
    if let Some(otherwise) = written_otherwise(name) {
        return wire.extend_from_slice(otherwise);
    }
    let (begin, mut before) = (wire.len(), b'-');
    wire.extend_from_slice(name);
    for byte in wire.iter_mut().skip(begin) {
        if before == b'-' {
            byte.make_ascii_uppercase();
        }
        before = *byte;
    }
}

fn written_otherwise(name: &[u8]) -> Option<&'static [u8]> {
    WRITTEN_OTHERWISE.into_iter().find(|other| other.eq_ignore_ascii_case(name))
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
        assert_eq!(Usual(&HeaderName::from_static("x-request-id")).to_string(), "X-Request-Id");
        assert_eq!(Usual(&ETAG).to_string(), "ETag");
    }

    #[test]
    fn http2_spells_nothing() {
        let map = [(HOST, "a"), (HeaderName::from_static("x-b"), "c")];
        let fields =
            Fields::of_http2(map.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect());
        assert_eq!(wire(&fields), "Host: a\r\nX-B: c\r\n");
    }

    /// An origin may send as many lines as fit a head: each once cost a walk over all that came before it.
    #[test]
    fn many_lines_cost_as_much_as_they_are_long() {
        for head in ["a: \r\n".repeat(40_000), (0..20_000).map(|n| format!("x{n}: \r\n")).collect()] {
            assert!(wire(&Fields::of_lines(&Bytes::from(head.clone())).unwrap()) == head);
        }
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
