//! Heads that earlier releases stored, and that are read still: they have all numbers, whether or not they say something.
//!
//! Version 6 has what 7 has. In 5 nothing is encoded. 4 has neither stamps nor tags. 3 knew no pieces, and 1 and 2 were the forms that
//! the adapter for Pingora's cache makes: none of these is read.

use std::net::Ipv6Addr;

use super::facts::Facts;
use super::head::{Kind, Numbers, take, take_length, take_time};
use crate::bans::Stamp;

const ENCODED_VERSION: u8 = 6;
const UNENCODED_VERSION: u8 = 5;
const UNSTAMPED_VERSION: u8 = 4;

const MAY_BE_STALE: u8 = 1;
const VARIES: u8 = 2;
const HAS_ADDRESS: u8 = 4;
const UNLISTED_TAGS: u8 = 8;

/// Bytes before the stamp, or, where there is none, before the name.
const STAMP_AT: usize = 84;

/// What stands before the name in front of `rest`, which begins behind it then.
pub(super) fn read(rest: &mut &[u8]) -> Option<Numbers> {
    let [version, kind, flags, zero] = take(rest)?;
    let kind = Kind::of(kind)?;
    let is_stamped = version != UNSTAMPED_VERSION;
    let of_tags = if is_stamped { UNLISTED_TAGS } else { 0 };
    let is_known = matches!(version, ENCODED_VERSION | UNENCODED_VERSION | UNSTAMPED_VERSION);
    if !is_known || flags & !(MAY_BE_STALE | VARIES | HAS_ADDRESS | of_tags) != 0 || zero != 0 {
        return None;
    }
    let [received, fresh_until, family] = [take_time(rest)?, take_time(rest)?, take_time(rest)?];
    let ages = [take(rest)?, take(rest)?, take(rest)?];
    let [age_seconds, stale_while_revalidate_seconds, stale_if_error_seconds] = ages.map(u32::from_le_bytes);
    let variant = take(rest)?;
    let address = Ipv6Addr::from(take::<16>(rest)?).to_canonical();
    let [primary_bytes, pieces_bytes, wire_bytes] = [take_length(rest)?, take_length(rest)?, take_length(rest)?];
    let (stamp, tags_bytes) = match is_stamped {
        true => (Stamp(u64::from_le_bytes(take(rest)?)), take_length(rest)?),
        false => (Stamp::default(), 0),
    };
    let speaks_of_forms = kind == Kind::Form || kind == Kind::Whole && pieces_bytes > 0;
    if speaks_of_forms && version != ENCODED_VERSION {
        return None;
    }
    let facts = Facts {
        received,
        fresh_until,
        age_seconds,
        stale_while_revalidate_seconds,
        stale_if_error_seconds,
        may_be_stale: flags & MAY_BE_STALE != 0,
        family,
        variant: (flags & VARIES != 0).then_some(variant),
        fetched_from: (flags & HAS_ADDRESS != 0).then_some(address),
        stamp,
    };
    let (unlisted_tags, is_before_tags) = (flags & UNLISTED_TAGS != 0, !is_stamped);
    Some(Numbers { kind, facts, unlisted_tags, is_before_tags, primary_bytes, pieces_bytes, tags_bytes, wire_bytes })
}

/// When an object with this head was asked for. `None` for versions that are not read.
pub(super) fn stamp_of(head: &[u8]) -> Option<Stamp> {
    match *head.first()? {
        ENCODED_VERSION | UNENCODED_VERSION => Some(Stamp(u64::from_le_bytes(*head.get(STAMP_AT..)?.first_chunk()?))),
        UNSTAMPED_VERSION => Some(Stamp::default()),
        _ => None,
    }
}

/// Whether these bytes are a head that an earlier release stored, and that is not read any more.
pub(super) fn is_unread(head: &[u8]) -> bool {
    matches!(head.first(), Some(1..UNSTAMPED_VERSION))
}
