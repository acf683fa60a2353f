//! What an origin calls its answers: `Surrogate-Key` as at Fastly, `xkey` as with Varnish, `Cache-Tag` as at Cloudflare.

use bytes::Bytes;
use http::HeaderName;
use tinaja_http::message::Fields;

/// Separated by blanks, commas, or both.
pub(crate) static FIELDS: [HeaderName; 3] =
    [HeaderName::from_static("surrogate-key"), HeaderName::from_static("xkey"), HeaderName::from_static("cache-tag")];

/// Tags that are kept of one answer, 64 bits each. One that has more is banned by any ban of a tag.
pub(crate) const MOST_TAGS: usize = 1024;
/// Bytes of one.
const TAG_BYTES: usize = 8;

/// The tags of one answer, hashed: two that share a hash are banned together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags {
    /// Their hashes, in order, each once.
    bytes: Bytes,
    /// There are more.
    pub unlisted: bool,
}

impl Tags {
    /// Those in an answer's fields, which are removed if `strip`.
    pub fn take(fields: &mut Fields, strip: bool) -> Tags {
        // Most answers have none.
        if !fields.keys().any(|name| FIELDS.contains(name)) {
            return Tags::default();
        }
        let (mut hashes, mut unlisted) = (Vec::new(), false);
        for name in &FIELDS {
            for value in fields.get_all(name) {
                for tag in split(value.as_bytes()) {
                    if hashes.len() == 2 * MOST_TAGS {
                        hashes.sort_unstable();
                        hashes.dedup();
                    }
                    match hashes.len() < 2 * MOST_TAGS {
                        true => hashes.push(hash(tag)),
                        false => unlisted = true,
                    }
                }
            }
            if strip {
                fields.remove(name);
            }
        }
        Tags::hashed(hashes, unlisted)
    }

    /// These and others.
    pub fn with(&self, others: &Tags) -> Tags {
        if others.is_empty() || self == others {
            return self.clone();
        }
        Tags::hashed(self.hashes().chain(others.hashes()).collect(), self.unlisted || others.unlisted)
    }

    /// Those with these hashes, and whether there are more.
    pub fn hashed(mut hashes: Vec<u64>, unlisted: bool) -> Tags {
        hashes.sort_unstable();
        hashes.dedup();
        let unlisted = unlisted || hashes.len() > MOST_TAGS;
        hashes.truncate(MOST_TAGS);
        Tags { bytes: hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect::<Vec<_>>().into(), unlisted }
    }

    /// As they were stored; `None` for what [`Tags::bytes`] never gives.
    pub fn of(bytes: Bytes, unlisted: bool) -> Option<Tags> {
        (bytes.len().is_multiple_of(TAG_BYTES) && bytes.len() <= MOST_TAGS * TAG_BYTES)
            .then_some(Tags { bytes, unlisted })
    }

    /// To be stored.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.unlisted
    }

    /// Their hashes.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.bytes.chunks_exact(TAG_BYTES).map(|tag| tag.try_into().map_or(0, u64::from_le_bytes))
    }
}

/// The tags in a field's value.
pub(crate) fn split(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b' ' | b'\t' | b',')).filter(|tag| !tag.is_empty())
}

/// The same for each cache and version: it is written down.
pub(crate) fn hash(tag: &[u8]) -> u64 {
    let mut hash = [0; TAG_BYTES];
    blake3::Hasher::new().update(tag).finalize_xof().fill(&mut hash);
    u64::from_le_bytes(hash)
}
