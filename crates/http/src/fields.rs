//! The header lines of a raw head that decide where a message goes and where it ends.

use memchr::memchr;

use crate::body::Framing;
use crate::limits::MAX_FIELDS;
use crate::refusal::Refusal;
use crate::words::is_token;

/// The header lines that decide where a message goes and where it ends.
#[derive(Default)]
pub(crate) struct Fields<'a> {
    count: usize,
    pub(crate) host: Option<&'a [u8]>,
    length: Option<u64>,
    coding: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    pub(crate) fn read(&mut self, line: &'a [u8]) -> Result<(), Refusal> {
        self.count += 1;
        if self.count > MAX_FIELDS {
            return Err(Refusal::TooManyFields);
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(Refusal::ObsFold);
        }
        let colon = memchr(b':', line).ok_or(Refusal::FieldName)?;
        let (name, value) = line.split_at_checked(colon).ok_or(Refusal::FieldName)?;
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if !is_token(name) {
            return Err(Refusal::FieldName);
        }
        match name.len() {
            // No other name is as long as one of those that decide.
            4 | 14 | 17 => self.decide(name, value),
            _ => Ok(()),
        }
    }

    /// Reads a field that may be one of those that decide.
    fn decide(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        // Some servers read `_` as `-` in a name.
        let is = |other: &str| {
            let same = |(a, b): (&u8, u8)| a.eq_ignore_ascii_case(&b) || (*a == b'_' && b == b'-');
            name.len() == other.len() && name.iter().zip(other.bytes()).all(same)
        };
        if is("host") {
            if self.host.replace(value).is_some() {
                return Err(Refusal::HostTwice);
            }
        } else if is("content-length") {
            if self.length.is_some() {
                return Err(Refusal::ContentLength);
            }
            self.length = Some(content_length(value)?);
        } else if is("transfer-encoding") {
            if self.coding.replace(value).is_some() {
                return Err(Refusal::TransferEncoding);
            }
        } else {
            return Ok(());
        }
        if name.contains(&b'_') { Err(Refusal::FieldName) } else { Ok(()) }
    }

    /// Where the body ends (RFC 9112 6.3), where there is no doubt about it.
    pub(crate) fn framing(&self, method: &str, http11: bool) -> Result<Framing, Refusal> {
        // The body of an old client's request without a length ended with its connection (RFC 1945 7.2.2), and for
        // some servers it still does.
        let brings_body = matches!(method, "POST" | "PUT" | "PATCH");
        match (self.coding, self.length) {
            (Some(_), Some(_)) => Err(Refusal::BothLengths),
            (Some(b"chunked"), None) if http11 => Ok(Framing::Chunked),
            (Some(coding), None) if http11 && is_known_coding(coding) => Err(Refusal::TransferCoding),
            (Some(_), None) => Err(Refusal::TransferEncoding),
            (None, None) if !http11 && brings_body => Err(Refusal::LengthMissing),
            (None, length) => Ok(Framing::Length(length.unwrap_or(0))),
        }
    }
}

/// One whole number that fits a signed 64-bit count (RFC 9110 8.6).
fn content_length(value: &[u8]) -> Result<u64, Refusal> {
    // A leading zero makes an octal number for some.
    let zeros = value.len() > 1 && value.starts_with(b"0");
    if value.is_empty() || zeros || !value.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::ContentLength);
    }
    let value = std::str::from_utf8(value).map_err(|_| Refusal::ContentLength)?;
    value.parse().ok().filter(|length| *length <= i64::MAX as u64).ok_or(Refusal::ContentLength)
}

fn is_known_coding(value: &[u8]) -> bool {
    let known = ["gzip", "x-gzip", "compress", "x-compress", "deflate", "identity"];
    let first = value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    known.iter().any(|coding| first.eq_ignore_ascii_case(coding.as_bytes()))
}
