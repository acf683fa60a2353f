//! The bytes stored in front of each body: whose object it is, how long it is good for, and its response header as
//! it goes over the wire, so that whoever serves it can send it without taking it apart.
//!
//! Version 2, numbers little-endian, times in nanoseconds since 1970:
//!
//! ```text
//! [2] [flags] [fresh until: u64] [created: u64] [updated: u64] [provenance: u64] [epoch override: u64, 0 without one]
//! [stale while revalidate: u32, seconds] [stale if error: u32, seconds]
//! [16 bytes: the key's variance, if it has one] [16 bytes: the response's variance, if it has one]
//! [u32: length of the primary key] [u32: length of the header] [primary key] [header]
//! ```
//!
//! Flags: 1 the key has a variance, 2 the response has one, 4 there is an epoch override. The header is a status line
//! and header lines, each ending with CR LF, without the empty line at the end. Version 1 held Pingora's own packed
//! forms; its objects are misses, and are removed when they are next looked up.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pingora_cache::key::{CacheHashKey, CacheKey, HashBinary};
use pingora_cache::meta::CacheMeta;
use pingora_error::{Error, ErrorType, Result};

use crate::meta::{self, Times};

const VERSION: u8 = 2;
/// The version of the first releases, whose objects are given up without a warning.
const OLD_VERSION: u8 = 1;

const KEY_HAS_VARIANCE: u8 = 1;
const RESPONSE_HAS_VARIANCE: u8 = 2;
const EPOCH_OVERRIDDEN: u8 = 4;

/// The longest primary key that is stored, in bytes. Objects with a longer one pass through uncached.
pub const MAX_PRIMARY_KEY_BYTES: usize = 64 * 1024;

/// The largest response header that is stored, in bytes on the wire. Larger ones pass through uncached.
///
/// Pingora unpacks stored headers into a buffer of 128 KiB and fails beyond; 2 KiB are left for the status line.
pub const MAX_HEADER_BYTES: usize = 126 * 1024;

/// The most header lines that are stored; Pingora reads back no more. Responses with more pass through uncached.
pub const MAX_HEADERS: usize = 256;

/// A status line is shorter than this.
const MAX_STATUS_LINE_BYTES: usize = 256;

/// The primary key in a stored head, for listings ([`tinaja_store::Store::scan`]); `None` if the head is not one
/// of this crate's.
pub fn primary_key(head: &[u8]) -> Option<&[u8]> {
    StoredHead::decode(head).map(|head| head.primary)
}

/// A stored head, taken apart without copying anything.
///
/// For programs that answer from the store by themselves, past Pingora's cache: the header lines can be sent as they
/// are, but for the fields that change with each answer (Age, and what belongs to one connection).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredHead<'a> {
    primary: &'a [u8],
    key_variance: Option<HashBinary>,
    pub(crate) times: Times,
    wire: &'a [u8],
}

impl<'a> StoredHead<'a> {
    /// Take a head apart; `None` for anything that this version of the crate does not make.
    pub fn decode(bytes: &'a [u8]) -> Option<StoredHead<'a>> {
        let (&[version, flags], mut rest) = bytes.split_first_chunk()?;
        if version != VERSION || flags > KEY_HAS_VARIANCE | RESPONSE_HAS_VARIANCE | EPOCH_OVERRIDDEN {
            return None;
        }
        let rest = &mut rest;
        let [fresh_until, created, updated, provenance, epoch] =
            [time(rest)?, time(rest)?, time(rest)?, time(rest)?, time(rest)?];
        let (stale_while_revalidate_sec, stale_if_error_sec) = (number(rest)?, number(rest)?);
        let mut variance = |flag| if flags & flag == 0 { Some(None) } else { take(rest).map(Some) };
        let (key_variance, variance) = (variance(KEY_HAS_VARIANCE)?, variance(RESPONSE_HAS_VARIANCE)?);
        let (primary_bytes, wire_bytes) = (number(rest)? as usize, number(rest)? as usize);
        if primary_bytes > MAX_PRIMARY_KEY_BYTES || wire_bytes > MAX_HEADER_BYTES + MAX_STATUS_LINE_BYTES {
            return None;
        }
        let (primary, wire) = rest.split_at_checked(primary_bytes)?;
        let times = Times {
            fresh_until,
            created,
            updated,
            provenance,
            epoch_override: (flags & EPOCH_OVERRIDDEN != 0).then_some(epoch),
            stale_while_revalidate_sec,
            stale_if_error_sec,
            variance,
        };
        (wire.len() == wire_bytes).then_some(StoredHead { primary, key_variance, times, wire })
    }

    /// Whether this is the head of `key`'s object and not of another with the same hash.
    pub fn belongs_to(&self, key: &CacheKey) -> bool {
        self.primary == key.primary_key() && self.key_variance == key.variance_bin()
    }

    /// Until when the object may be served without asking its origin.
    pub fn fresh_until(&self) -> SystemTime {
        self.times.fresh_until
    }

    /// When the object was fetched, or last validated: its Age counts from there.
    pub fn epoch(&self) -> SystemTime {
        self.times.epoch_override.unwrap_or(self.times.updated)
    }

    /// When the first version of the object came to be. A variant from before its primary object's is not valid.
    pub fn provenance(&self) -> SystemTime {
        self.times.provenance
    }

    /// Which requests the response is for, where it varies.
    pub fn variance(&self) -> Option<HashBinary> {
        self.times.variance
    }

    /// The status line and the header lines as they were stored, each with its CR LF.
    pub fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// Pingora's metadata; `None` if the header cannot be read.
    pub(crate) fn meta(&self) -> Option<CacheMeta> {
        meta::unpack(&self.times, self.wire).ok()
    }

    /// The same object's head with other metadata.
    pub(crate) fn with_meta(&self, meta: &CacheMeta) -> Result<Bytes> {
        join(self.primary, self.key_variance, meta)
    }
}

/// Whether these bytes are the head of an earlier version of this crate.
pub(crate) fn is_old(head: &[u8]) -> bool {
    head.first() == Some(&OLD_VERSION)
}

/// The head to store for `key` and `meta`. Errors: one of the limits of this module is passed.
pub(crate) fn encode(key: &CacheKey, meta: &CacheMeta) -> Result<Bytes> {
    join(key.primary_key(), key.variance_bin(), meta)
}

fn join(primary: &[u8], key_variance: Option<HashBinary>, meta: &CacheMeta) -> Result<Bytes> {
    let headers = meta.headers();
    // Each line is the name, a colon, a space, the value and the line's end.
    let wire_bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    limit("header lines", headers.len(), MAX_HEADERS)?;
    limit("bytes of header", wire_bytes, MAX_HEADER_BYTES)?;
    limit("bytes of primary key", primary.len(), MAX_PRIMARY_KEY_BYTES)?;
    let times = meta::times(meta);
    let mut head = Vec::with_capacity(100 + primary.len() + MAX_STATUS_LINE_BYTES + wire_bytes);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = flag(key_variance.is_some(), KEY_HAS_VARIANCE)
        | flag(times.variance.is_some(), RESPONSE_HAS_VARIANCE)
        | flag(times.epoch_override.is_some(), EPOCH_OVERRIDDEN);
    head.extend_from_slice(&[VERSION, flags]);
    let epoch = times.epoch_override.unwrap_or(SystemTime::UNIX_EPOCH);
    for time in [times.fresh_until, times.created, times.updated, times.provenance, epoch] {
        head.extend_from_slice(&nanoseconds(time).to_le_bytes());
    }
    for seconds in [times.stale_while_revalidate_sec, times.stale_if_error_sec] {
        head.extend_from_slice(&seconds.to_le_bytes());
    }
    for variance in [key_variance, times.variance].iter().flatten() {
        head.extend_from_slice(variance);
    }
    // Both lengths are far below 4 GiB; the header's is put in once it is known.
    head.extend_from_slice(&(primary.len() as u32).to_le_bytes());
    let length_at = head.len();
    head.extend_from_slice(&[0; 4]);
    head.extend_from_slice(primary);
    let wire_at = head.len();
    meta::write_wire(meta.response_header(), &mut head);
    let length = (head.len() - wire_at) as u32;
    if let Some(place) = head.get_mut(length_at..length_at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    Ok(head.into())
}

fn limit(what: &str, size: usize, most: usize) -> Result<()> {
    if size <= most {
        return Ok(());
    }
    Error::e_explain(ErrorType::InternalError, format!("not cached: {size} {what}, the most stored is {most}"))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

fn time(rest: &mut &[u8]) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(u64::from_le_bytes(take(rest)?)))
}

/// Times before 1970 count as 1970, and times after 2554 as then: neither is a time at which anything was cached.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
