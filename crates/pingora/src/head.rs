//! The bytes stored in front of each body: whose object it is, and Pingora's own metadata.
//!
//! Version 1: `[1] [0 or 1: has a variance] [16 bytes of variance, if it has one] [three u32, little-endian: the
//! lengths of what follows] [primary key] [internal metadata] [response header]`, and nothing after.

use bytes::Bytes;
use pingora_cache::key::{CacheHashKey, CacheKey, HashBinary};
use pingora_cache::meta::CacheMeta;
use pingora_error::{Error, ErrorType, Result};

const VERSION: u8 = 1;

/// The longest primary key that is stored, in bytes. Objects with a longer one pass through uncached.
pub const MAX_PRIMARY_KEY_BYTES: usize = 64 * 1024;

/// The largest response header that is stored, in bytes on the wire. Larger ones pass through uncached.
///
/// Pingora unpacks stored headers into a buffer of 128 KiB and fails beyond; 2 KiB are left for the status line.
pub const MAX_HEADER_BYTES: usize = 126 * 1024;

/// The most header lines that are stored; Pingora reads back no more. Responses with more pass through uncached.
pub const MAX_HEADERS: usize = 256;

/// Pingora's own times and flags take below 100 bytes.
const MAX_INTERNAL_BYTES: usize = 4 * 1024;

/// Compression can make what does not compress a little larger.
const MAX_PACKED_HEADER_BYTES: usize = MAX_HEADER_BYTES + 4 * 1024;

/// The primary key in a stored head, for listings ([`tinaja_store::Store::scan`]); `None` if the head is not one
/// of this crate's.
pub fn primary_key(head: &[u8]) -> Option<&[u8]> {
    Head::decode(head).map(|head| head.primary)
}

/// A stored head, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    primary: &'a [u8],
    variance: Option<HashBinary>,
    internal: &'a [u8],
    header: &'a [u8],
}

impl<'a> Head<'a> {
    /// Take a head apart; `None` for anything that [`encode`] does not make.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Head<'a>> {
        let (&[version, has_variance], rest) = bytes.split_first_chunk()?;
        if version != VERSION || has_variance > 1 {
            return None;
        }
        let (variance, rest) = match has_variance {
            0 => (None, rest),
            _ => rest.split_first_chunk::<16>().map(|(variance, rest)| (Some(*variance), rest))?,
        };
        let (primary_bytes, rest) = length(rest, MAX_PRIMARY_KEY_BYTES)?;
        let (internal_bytes, rest) = length(rest, MAX_INTERNAL_BYTES)?;
        let (header_bytes, rest) = length(rest, MAX_PACKED_HEADER_BYTES)?;
        let (primary, rest) = rest.split_at_checked(primary_bytes)?;
        let (internal, header) = rest.split_at_checked(internal_bytes)?;
        (header.len() == header_bytes).then_some(Head { primary, variance, internal, header })
    }

    /// Whether this is the head of `key`'s object and not of another with the same hash.
    pub(crate) fn belongs_to(&self, key: &CacheKey) -> bool {
        self.primary == key.primary_key() && self.variance == key.variance_bin()
    }

    /// Pingora's metadata; `None` if they cannot be read.
    pub(crate) fn meta(&self) -> Option<CacheMeta> {
        CacheMeta::deserialize(self.internal, self.header).ok()
    }

    /// The same object's head with other metadata.
    pub(crate) fn with_meta(&self, meta: &CacheMeta) -> Result<Bytes> {
        join(self.primary, self.variance, meta)
    }
}

/// The head to store for `key` and `meta`. Errors: one of the limits of this module is passed.
pub(crate) fn encode(key: &CacheKey, meta: &CacheMeta) -> Result<Bytes> {
    join(key.primary_key(), key.variance_bin(), meta)
}

fn join(primary: &[u8], variance: Option<HashBinary>, meta: &CacheMeta) -> Result<Bytes> {
    let headers = meta.headers();
    // Each line is the name, a colon, a space, the value and the line's end.
    let wire_bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    limit("header lines", headers.len(), MAX_HEADERS)?;
    limit("bytes of header", wire_bytes, MAX_HEADER_BYTES)?;
    limit("bytes of primary key", primary.len(), MAX_PRIMARY_KEY_BYTES)?;
    let (internal, header) = meta.serialize()?;
    limit("bytes of metadata", internal.len(), MAX_INTERNAL_BYTES)?;
    limit("bytes of packed header", header.len(), MAX_PACKED_HEADER_BYTES)?;

    let variance = variance.as_ref().map_or(&[][..], |variance| variance);
    let parts = [primary, &internal, &header];
    let mut head = Vec::with_capacity(14 + variance.len() + parts.iter().map(|part| part.len()).sum::<usize>());
    head.extend_from_slice(&[VERSION, u8::from(!variance.is_empty())]);
    head.extend_from_slice(variance);
    // The limits above are far below 4 GiB.
    parts.iter().for_each(|part| head.extend_from_slice(&(part.len() as u32).to_le_bytes()));
    parts.iter().for_each(|part| head.extend_from_slice(part));
    Ok(head.into())
}

fn limit(what: &str, size: usize, most: usize) -> Result<()> {
    if size <= most {
        return Ok(());
    }
    Error::e_explain(ErrorType::InternalError, format!("not cached: {size} {what}, the most stored is {most}"))
}

fn length(bytes: &[u8], most: usize) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    (length <= most).then_some((length, rest))
}
