//! A strict judge of raw HTTP/1 request heads.
//!
//! Two parties that read one head differently can be played against each other (request smuggling). So a head that
//! anybody might read in two ways is refused here, on its raw bytes, before a lenient parser sees it.

use memchr::memchr;

use crate::authority::Authority;
use crate::body::Framing;
use crate::fields::Fields;
use crate::limits::{MAX_HEAD_BYTES, MAX_METHOD_BYTES, MAX_TARGET_BYTES};
use crate::refusal::Refusal;
use crate::words::is_text;
pub use crate::words::is_token;

/// A head that is beyond doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The method as it came: methods differ by case.
    pub method: String,
    /// What is asked for.
    pub target: Target,
    /// Whether the version is HTTP/1.1 rather than HTTP/1.0.
    pub http11: bool,
    /// The authority of the target, or else of Host.
    pub authority: Option<Authority>,
    /// Where the body ends.
    pub framing: Framing,
    /// The bytes of the header lines within the head, without the request line and the last empty line.
    pub fields: std::ops::Range<usize>,
}

/// The forms of a request target (RFC 9112 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `/path?query`, as servers get it.
    Origin(String),
    /// `http://authority/path?query`, as proxies get it.
    Absolute {
        /// Whether the scheme is https rather than http.
        tls: bool,
        /// Path and query; at least `/`.
        path: String,
    },
    /// `host:port` of CONNECT.
    Tunnel,
    /// `*` of OPTIONS.
    Asterisk,
}

/// Judges one whole head, from the request line to the empty line.
///
/// Errors: the first [`Refusal`] that applies; the connection must be closed after the answer.
pub fn judge(head: &[u8]) -> Result<Judged, Refusal> {
    if head.len() > MAX_HEAD_BYTES {
        return Err(Refusal::HeadTooLarge);
    }
    let lines = head.strip_suffix(b"\r\n\r\n").ok_or(Refusal::RequestLine)?;
    let mut lines = Lines { rest: Some(lines) };
    let request_line = lines.next().ok_or(Refusal::RequestLine)??;
    let (method, raw_target, http11) = split_request_line(request_line)?;
    let mut fields = Fields::default();
    for line in lines {
        fields.read(line?)?;
    }
    let framing = fields.framing(method, http11)?;
    let (target, authority) = read_target(method, raw_target)?;
    let authority = match authority {
        // The same bytes say the same.
        Some((authority, raw)) if fields.host == Some(raw) => Some(authority),
        authority => settle_authority(&target, authority.map(|(authority, _)| authority), &fields, http11)?,
    };
    if target == Target::Tunnel && framing != Framing::Length(0) {
        return Err(Refusal::BodyNotAllowed);
    }
    let first = (request_line.len() + 2).min(head.len() - 2);
    Ok(Judged { method: method.to_owned(), target, http11, authority, framing, fields: first..head.len() - 2 })
}

/// Lines that end with CR LF; the last one has lost it already.
struct Lines<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<&'a [u8], Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let Some(end) = memchr(b'\n', rest) else {
            return Some(if is_text(rest) { Ok(rest) } else { Err(what_is_wrong(rest)) });
        };
        let (line, behind) = rest.split_at_checked(end.saturating_sub(1))?;
        Some(match behind {
            [b'\r', b'\n', next @ ..] if is_text(line) => {
                self.rest = Some(next);
                Ok(line)
            }
            _ => Err(what_is_wrong(rest)),
        })
    }
}

/// Why a line is refused: by the first byte here that cannot stand in one.
fn what_is_wrong(rest: &[u8]) -> Refusal {
    let first = rest.iter().find(|byte| byte.is_ascii_control() && **byte != b'\t');
    if matches!(first, Some(b'\r' | b'\n')) { Refusal::BareCrOrLf } else { Refusal::ControlByte }
}

/// `METHOD SP target SP HTTP/1.x`, with single spaces (RFC 9112 3).
fn split_request_line(line: &[u8]) -> Result<(&str, &[u8], bool), Refusal> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Refusal::RequestLine);
    };
    if !is_token(method) {
        return Err(Refusal::RequestLine);
    }
    let http11 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            return Err(Refusal::Version);
        }
        _ => return Err(Refusal::RequestLine),
    };
    if matches!(method, b"TRACE" | b"PRI") || method.len() > MAX_METHOD_BYTES {
        return Err(Refusal::Method);
    }
    let method = std::str::from_utf8(method).map_err(|_| Refusal::RequestLine)?;
    Ok((method, target, http11))
}

/// A target, and the authority in it, with its bytes.
type ReadTarget<'a> = (Target, Option<(Authority, &'a [u8])>);

fn read_target<'a>(method: &str, target: &'a [u8]) -> Result<ReadTarget<'a>, Refusal> {
    if target.len() > MAX_TARGET_BYTES {
        return Err(Refusal::TargetTooLong);
    }
    for (byte, refusal) in [(b'#', Refusal::Fragment), (b'\\', Refusal::Backslash), (b'\t', Refusal::ControlByte)] {
        if target.contains(&byte) {
            return Err(refusal);
        }
    }
    if method == "CONNECT" {
        let authority = Authority::parse(target)?;
        return match authority.port() {
            Some(_) => Ok((Target::Tunnel, Some((authority, target)))),
            None => Err(Refusal::ConnectTarget),
        };
    }
    if target == b"*" && method == "OPTIONS" {
        return Ok((Target::Asterisk, None));
    }
    if target.starts_with(b"/") {
        return Ok((Target::Origin(clean_path(target)), None));
    }
    let (tls, rest) = match (strip_scheme(target, b"http://"), strip_scheme(target, b"https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err(Refusal::Target),
    };
    let split = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(split).ok_or(Refusal::Target)?;
    let slash = match path {
        // The last proxy asks for the server as a whole (RFC 9112 3.2.4).
        b"" if method == "OPTIONS" => "*",
        [b'/', ..] => "",
        _ => "/",
    };
    let path = clean_path(path);
    let path = if slash.is_empty() { path } else { format!("{slash}{path}") };
    Ok((Target::Absolute { tls, path }, Some((Authority::parse(authority)?, authority))))
}

fn strip_scheme<'a>(target: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = target.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// A path with what must be escaped in a URL escaped (RFC 3986 2.1): parsers downstream differ over such bytes.
pub(crate) fn clean_path(path: &[u8]) -> String {
    if let (Ok(text), true) = (std::str::from_utf8(path), path.is_ascii())
        && !path.iter().any(|byte| matches!(byte, b'"' | b'<' | b'>' | b'`'))
    {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b'"' | b'<' | b'>' | b'`' | 0x80.. => clean.push_str(&format!("%{byte:02X}")),
            _ => clean.push(char::from(*byte)),
        }
    }
    clean
}

/// The one authority that key, rules and origin go by (RFC 9112 3.2.2): the target's, which Host must agree with.
fn settle_authority(
    target: &Target,
    authority: Option<Authority>,
    fields: &Fields<'_>,
    http11: bool,
) -> Result<Option<Authority>, Refusal> {
    let Some(host) = fields.host else {
        return if http11 && *target != Target::Tunnel { Err(Refusal::HostMissing) } else { Ok(authority) };
    };
    let host = Authority::parse(host)?;
    let Some(authority) = authority else {
        return Ok(Some(host));
    };
    let agreed = match target {
        // Some clients leave out the port in Host.
        Target::Tunnel => host.port().is_none_or(|port| Some(port) == authority.port()),
        Target::Absolute { tls: true, .. } => host.port_or(443) == authority.port_or(443),
        _ => host.port_or(80) == authority.port_or(80),
    };
    if agreed && host.host() == authority.host() { Ok(Some(authority)) } else { Err(Refusal::HostMismatch) }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
