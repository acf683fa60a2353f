//! Several parts of an object in one answer (RFC 9110 15.3.7.2 and 14.6).

use std::ops::RangeInclusive;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};

use crate::edits::Edits;
use crate::range::{byte_count, content_range};
use crate::words::text;

/// The frame around the parts of one `multipart/byteranges` body.
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: String,
    content_type: Option<String>,
    length: u64,
}

impl Multipart {
    /// For parts of an object with these fields and this length in bytes. `random` makes the line between the parts,
    /// which must not occur in the object: draw it anew for each answer.
    pub fn new(stored: &HeaderMap, length: u64, random: u128) -> Multipart {
        let content_type = stored.get(CONTENT_TYPE).map(|value| text(value).to_owned());
        Multipart { boundary: format!("{random:032x}"), content_type, length }
    }

    /// What stands before a part's bytes.
    pub fn before(&self, part: &RangeInclusive<u64>) -> String {
        let content_type = self.content_type.as_ref().map(|value| format!("Content-Type: {value}\r\n"));
        let (boundary, content_range) = (&self.boundary, content_range(part, self.length));
        format!("\r\n--{boundary}\r\n{}Content-Range: {content_range}\r\n\r\n", content_type.unwrap_or_default())
    }

    /// What stands behind the last part.
    pub fn end(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }

    /// The fields that turn the head of the whole object into that of these parts: status 206, and no Content-Range
    /// outside the parts.
    pub fn edits(&self, parts: &[RangeInclusive<u64>]) -> Edits {
        let framed = |part: &RangeInclusive<u64>| byte_count(part).saturating_add(self.before(part).len() as u64);
        let length = parts.iter().map(framed).fold(self.end().len() as u64, u64::saturating_add);
        let mut edits = Edits::default();
        edits.remove(CONTENT_RANGE);
        edits.set(CONTENT_LENGTH, length);
        edits.set(CONTENT_TYPE, format!("multipart/byteranges; boundary={}", self.boundary));
        edits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies() {
        let object = b"0123456789";
        for (content_type, parts, expected) in [
            (
                Some("text/plain"),
                vec![0..=1, 8..=9],
                "\r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
                 \r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n--B--\r\n",
            ),
            (
                None,
                vec![5..=5, 0..=0],
                "\r\n--B\r\nContent-Range: bytes 5-5/10\r\n\r\n5\r\n--B\r\nContent-Range: bytes 0-0/10\r\n\r\n0\
                 \r\n--B--\r\n",
            ),
        ] {
            let mut head = HeaderMap::new();
            head.insert(CONTENT_LENGTH, "10".parse().unwrap());
            head.extend(content_type.map(|value| (CONTENT_TYPE, value.parse().unwrap())));
            let multipart = Multipart::new(&head, 10, 11);
            let mut body = String::new();
            for part in &parts {
                body += &multipart.before(part);
                body += std::str::from_utf8(&object[*part.start() as usize..=*part.end() as usize]).unwrap();
            }
            body += &multipart.end();
            multipart.edits(&parts).apply(&mut head);
            assert_eq!(head[CONTENT_LENGTH], body.len().to_string());
            let boundary = "0000000000000000000000000000000b";
            assert_eq!(head[CONTENT_TYPE], format!("multipart/byteranges; boundary={boundary}"));
            assert_eq!(body, expected.replace("--B", &format!("--{boundary}")));
        }
    }
}
