//! Header lines of a head that has been judged, or stored: well-formed, each ending with CR LF, none folded.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr;

/// One header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The name, in the case it came in.
    pub name: &'a [u8],
    /// The value, trimmed.
    pub value: &'a [u8],
    /// All of it, with its CR LF.
    pub whole: &'a [u8],
}

impl Line<'_> {
    /// Whether the line's name is `name`, whatever the case.
    pub fn is(&self, name: &HeaderName) -> bool {
        self.name.eq_ignore_ascii_case(name.as_str().as_bytes())
    }
}

/// The header lines in `bytes`; a line without a colon, such as a status line, is left out.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    whole_lines(bytes).filter_map(|whole| {
        let colon = memchr(b':', whole)?;
        let (name, value) = whole.split_at_checked(colon)?;
        // A reason phrase may hold a colon; a name holds no space.
        let is_field = !name.contains(&b' ');
        is_field.then(|| Line { name, value: value.get(1..).unwrap_or_default().trim_ascii(), whole })
    })
}

/// All lines in `bytes`, each with its LF; what is behind the last one is a line, too.
pub(crate) fn whole_lines(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        let (line, behind) = bytes.split_at_checked(end)?;
        bytes = behind;
        (!line.is_empty()).then_some(line)
    })
}

/// The header lines of `bytes` that `wanted` picks, as a map that shares the bytes. `None` if one cannot stand in a
/// map: a name or value out of bounds, or too many of them.
pub fn header_map(bytes: &Bytes, wanted: impl Fn(&Line<'_>) -> bool) -> Option<HeaderMap> {
    let mut map = HeaderMap::new();
    for line in lines(bytes).filter(wanted) {
        let name = HeaderName::from_bytes(line.name).ok()?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(line.value)).ok()?;
        map.try_append(name, value).ok()?;
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK: so\r\nA:  b \r\nvia: 1.1 x\r\nVIA:\r\n\r\n";

    #[test]
    fn every_line_and_no_other() {
        let found: Vec<_> = lines(HEAD).map(|line| (line.name, line.value, line.whole.len())).collect();
        let expected: [(&[u8], &[u8], usize); 3] = [(b"A", b"b", 8), (b"via", b"1.1 x", 12), (b"VIA", b"", 6)];
        assert_eq!(found, expected);
        assert_eq!(lines(b"").count(), 0);
    }

    #[test]
    fn maps() {
        let bytes = Bytes::from_static(HEAD);
        let via = HeaderName::from_static("via");
        let map = header_map(&bytes, |line| line.is(&via)).unwrap();
        assert_eq!(map.get_all(&via).iter().collect::<Vec<_>>(), ["1.1 x", ""]);
        assert_eq!(map.len(), 2);
        assert_eq!(header_map(&bytes, |_| true).unwrap().len(), 3);
        assert!(header_map(&Bytes::from_static(b"a: \x01\r\n"), |_| true).is_none());
        assert!(header_map(&Bytes::from_static(b"a(: b\r\n"), |_| true).is_none());
    }
}
