//! Request ids: by them the lines of one request are found in every log, at origins and in front alike.
//!
//! An id is a number until somebody wants to read it, and only a request that is more than a plain hit gets a span: text for
//! each hit would cost more than the rest of its log line.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderName, HeaderValue};

use crate::rules::Cidr;

/// The longest id that is taken over, in bytes; longer ones are replaced.
const MOST_BYTES: usize = 128;

/// What is done with request ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestIds {
    /// The field in which origins and clients are told the id. None by default.
    pub header: Option<HeaderName>,
    /// Clients whose own id in that field is taken over. None by default.
    pub trust: Vec<Cidr>,
}

/// The id of one request.
#[derive(Clone, Debug)]
pub(crate) enum RequestId {
    Made(u64),
    Taken(Arc<str>),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Made(number) => write!(f, "{number:016x}"),
            RequestId::Taken(text) => f.write_str(text),
        }
    }
}

impl RequestId {
    /// As a field's value.
    pub fn value(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.to_string()).ok()
    }
}

/// Gives ids out.
#[derive(Debug)]
pub(crate) struct Ids {
    settings: RequestIds,
    seed: u64,
    next: AtomicU64,
}

impl Ids {
    pub fn new(settings: RequestIds) -> Ids {
        // Seeded from the system's randomness.
        Ids { settings, seed: RandomState::new().hash_one(std::process::id()), next: AtomicU64::new(0) }
    }

    /// The field in which ids are told.
    pub fn header(&self) -> Option<&HeaderName> {
        self.settings.header.as_ref()
    }

    /// An id that no other request of this process has, nor likely one of another.
    pub fn make(&self) -> RequestId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // Each step can be undone, so different numbers stay different.
        let mut mixed = self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        RequestId::Made(mixed ^ (mixed >> 31))
    }

    /// The id of a request from `client`: the one that `came` in the field if such a client may say it, else a new one.
    pub fn of<'a>(&self, client: IpAddr, came: impl FnOnce(&HeaderName) -> Option<&'a [u8]>) -> RequestId {
        let trusted = self.settings.trust.iter().any(|network| network.contains(client));
        let said = self.header().filter(|_| trusted).and_then(came).and_then(taken);
        said.unwrap_or_else(|| self.make())
    }
}

/// An id that stands safely in every log and field.
fn taken(value: &[u8]) -> Option<RequestId> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:+/=@~".contains(byte);
    let fits = (1..=MOST_BYTES).contains(&value.len()) && value.iter().all(plain);
    let text = std::str::from_utf8(value).ok().filter(|_| fits)?;
    Some(RequestId::Taken(text.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ() {
        let (one, other) = (Ids::new(RequestIds::default()), Ids::new(RequestIds::default()));
        let ids: HashSet<String> = (0..1000).flat_map(|_| [one.make().to_string(), other.make().to_string()]).collect();
        assert_eq!(ids.len(), 2000);
        assert!(ids.iter().all(|id| id.len() == 16));
    }

    #[test]
    fn only_those_who_may_say_ids_and_only_plain_ones() {
        let header = Some(HeaderName::from_static("x-request-id"));
        let ids = Ids::new(RequestIds { header, trust: vec!["10.0.0.0/8".parse().unwrap()] });
        let of = |client: &str, id: &'static [u8]| ids.of(client.parse().unwrap(), |_| Some(id)).to_string();
        assert_eq!(of("10.1.2.3", b"a-1.B:2"), "a-1.B:2");
        assert_ne!(of("11.1.2.3", b"a-1"), "a-1");
        for bad in [&b""[..], b"a b", b"a\"b", b"a\x1b[31m", b"\xff", &[b'a'; 129]] {
            assert_eq!(of("10.1.2.3", bad).len(), 16, "{}", bad.escape_ascii());
        }
        assert_eq!(of("10.1.2.3", &[b'a'; 128]).len(), 128);
        let silent = Ids::new(RequestIds { header: None, trust: vec!["0.0.0.0/0".parse().unwrap()] });
        assert_eq!(silent.of("10.1.2.3".parse().unwrap(), |_| Some(b"a")).to_string().len(), 16);
    }
}
