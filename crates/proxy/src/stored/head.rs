//! The head of a stored object: when it came, how long it is good, whose it is, and its header lines.
//!
//! All that decides whether an answer may be served stands in numbers at fixed places, so that a hit needs no header
//! to be parsed; and the header lines stand as they are sent, so that a hit need not write them anew.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode};
use tinaja_http::lines::{Line, header_map, lines};
use tinaja_http::message::{Fields, ResponseHead};
use tinaja_http::reuse::StoredState;

use crate::bans::{Stamp, Tags, tag_fields};

/// The first byte of every head. 1 and 2 were the forms that the adapter for Pingora's cache makes, 3 knew no pieces.
const VERSION: u8 = 6;
/// The same of heads that are read still: nothing is encoded.
const UNENCODED_VERSION: u8 = 5;
/// The same of heads that are read still: they have neither stamps nor tags.
const UNSTAMPED_VERSION: u8 = 4;
const MAY_BE_STALE: u8 = 1;
const VARIES: u8 = 2;
const HAS_ADDRESS: u8 = 4;
const UNLISTED_TAGS: u8 = 8;

/// Bytes before the primary name.
const FIXED_BYTES: usize = 96;
/// The same of heads that are not stamped.
const UNSTAMPED_BYTES: usize = 84;
/// The longest name that is stored, in bytes: a URL is at most a quarter of that.
const MAX_PRIMARY_BYTES: usize = 64 * 1024;
/// The largest header that is stored, together with a list of pieces and tags, in bytes; larger ones pass through. It leaves room for the rest of a head in
/// what the store takes ([`tinaja_store::limits::MAX_HEAD_BYTES`]), with a URL of the greatest length.
const MAX_WIRE_BYTES: usize = 96 * 1024;

/// What a head is the head of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A whole response.
    Whole = 0,
    /// Not a response, but which fields its variants differ by.
    Family = 1,
    /// A response of whose body pieces are stored, each for itself; and which ([`super::PieceList`]).
    Pieces = 2,
    /// One of these pieces; and which.
    Piece = 3,
    /// A whole response in a coding; which, and of which response it was made ([`super::Forms`]).
    Form = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Whole, Kind::Family, Kind::Pieces, Kind::Piece, Kind::Form].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What is known of a stored response beside its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// When its head came, or it was last validated.
    pub received: SystemTime,
    /// Until when it may be served without asking.
    pub fresh_until: SystemTime,
    /// Its age when it was received, in seconds.
    pub age_seconds: u32,
    pub stale_while_revalidate_seconds: u32,
    pub stale_if_error_seconds: u32,
    pub may_be_stale: bool,
    /// The family that it belongs to, by when that began; families that were purged begin anew. The Unix epoch where
    /// there is none.
    pub family: SystemTime,
    /// Which of a family's variants it is.
    pub variant: Option<[u8; 16]>,
    /// The address that it was fetched from, for [`crate::config::Listener::may_serve`].
    pub fetched_from: Option<IpAddr>,
    /// Which bans had been made when it was asked for.
    pub stamp: Stamp,
}

impl Facts {
    /// The same, stale since then at the latest. It may be served stale as any other.
    pub fn stale_since(self, since: SystemTime) -> Facts {
        Facts { fresh_until: self.fresh_until.min(since.max(self.received)), ..self }
    }

    /// The same, stale if it came before that time: the cache may have missed that it was removed.
    pub fn trusted_from(self, distrusted_before: Option<SystemTime>) -> Facts {
        match distrusted_before {
            Some(before) if self.received < before => self.distrusted_since(before),
            _ => self,
        }
    }

    /// The same, of an answer that was asked for then, whenever it came.
    pub fn asked_at(self, asked: SystemTime, distrusted_before: Option<SystemTime>) -> Facts {
        match distrusted_before {
            Some(before) if asked < before => self.distrusted_since(before),
            _ => self,
        }
    }

    /// The same, to be validated before it is used: it is stale since then, and may not be served so of the proxy's own accord.
    pub fn distrusted_since(self, since: SystemTime) -> Facts {
        Facts { stale_while_revalidate_seconds: 0, may_be_stale: false, ..self.stale_since(since) }
    }

    /// The same, of an answer that is so much older than the clock says, since that was put back.
    pub fn older_by(self, by: Duration) -> Facts {
        let earlier = |time: SystemTime| time.checked_sub(by).unwrap_or(SystemTime::UNIX_EPOCH);
        Facts { received: earlier(self.received), fresh_until: earlier(self.fresh_until), ..self }
    }

    /// What decides reuse at `now`. What was received later than that is stale: the clock was put back, and nobody knows how
    /// long ago it came. So do boxes without a battery at every power cut.
    pub fn state(&self, now: SystemTime) -> StoredState {
        let was_put_back = self.received > now + CLOCK_TOLERANCE;
        let given = self.fresh_until.duration_since(self.received).unwrap_or_default();
        let ttl_seconds = match self.fresh_until.duration_since(now) {
            Ok(_) if was_put_back => -1,
            Ok(left) => {
                // Anything left counts as a second: fresh is fresh until it is over. And no more is left than there was.
                let left = left.min(given);
                seconds(left) + i64::from(left.subsec_nanos() > 0)
            }
            Err(past) => -seconds(past.duration()),
        };
        StoredState {
            age_seconds: self.age(now),
            ttl_seconds,
            stale_while_revalidate_seconds: if was_put_back { 0 } else { self.stale_while_revalidate_seconds.into() },
            stale_if_error_seconds: self.stale_if_error_seconds.into(),
            may_be_stale: self.may_be_stale && !was_put_back,
        }
    }

    /// Its age at `now`, in seconds (RFC 9111 4.2.3).
    pub fn age(&self, now: SystemTime) -> u64 {
        tinaja_http::age::current_age(self.age_seconds.into(), now.duration_since(self.received).unwrap_or_default())
    }
}

/// By so much another node's clock may be ahead, or this one be put back to be right again.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// A head, taken apart without copying.
#[derive(Clone, Debug)]
pub(crate) struct StoredHead {
    pub kind: Kind,
    pub facts: Facts,
    primary: Bytes,
    /// The pieces that there are, or which of them this is; or the same of encoded forms.
    pieces: Bytes,
    tags: Tags,
    wire: Bytes,
}

impl StoredHead {
    /// Takes a head apart; `None` for anything that [`StoredHead::encode`] does not make.
    pub fn decode(bytes: &Bytes) -> Option<StoredHead> {
        let fixed_bytes = if bytes.first() == Some(&UNSTAMPED_VERSION) { UNSTAMPED_BYTES } else { FIXED_BYTES };
        let mut rest = bytes.get(..fixed_bytes)?;
        let (version, kind, flags, zero) = (rest.get_u8(), rest.get_u8(), rest.get_u8(), rest.get_u8());
        let kind = Kind::of(kind)?;
        let is_stamped = version != UNSTAMPED_VERSION;
        let of_tags = if is_stamped { UNLISTED_TAGS } else { 0 };
        let known = matches!(version, VERSION | UNENCODED_VERSION | UNSTAMPED_VERSION);
        if !known || flags > MAY_BE_STALE | VARIES | HAS_ADDRESS | of_tags || zero != 0 {
            return None;
        }
        let [received, fresh_until, family] =
            [time(rest.get_u64_le())?, time(rest.get_u64_le())?, time(rest.get_u64_le())?];
        let [age_seconds, stale_while_revalidate_seconds, stale_if_error_seconds] =
            [rest.get_u32_le(), rest.get_u32_le(), rest.get_u32_le()];
        let mut variant = [0; 16];
        rest.copy_to_slice(&mut variant);
        let address = Ipv6Addr::from_bits(rest.get_u128()).to_canonical();
        let [primary_bytes, pieces_bytes, wire_bytes] = [(); 3].map(|()| rest.get_u32_le() as usize);
        let (stamp, tags_bytes) = match is_stamped {
            true => (Stamp(rest.get_u64_le()), rest.get_u32_le() as usize),
            false => (Stamp::default(), 0),
        };
        let fits_kind = match kind {
            Kind::Pieces | Kind::Piece => pieces_bytes > 0,
            Kind::Form => pieces_bytes > 0 && version == VERSION,
            // Of some there are encoded forms.
            Kind::Whole => pieces_bytes == 0 || version == VERSION,
            Kind::Family => pieces_bytes == 0,
        };
        if primary_bytes > MAX_PRIMARY_BYTES
            || bytes.len() != fixed_bytes + primary_bytes + pieces_bytes + tags_bytes + wire_bytes
            || !fits_kind
        {
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
        let pieces_at = fixed_bytes + primary_bytes;
        let tags_at = pieces_at + pieces_bytes;
        let wire_at = tags_at + tags_bytes;
        let (primary, pieces) = (bytes.slice(fixed_bytes..pieces_at), bytes.slice(pieces_at..tags_at));
        let wire = bytes.slice(wire_at..);
        // Of what came before tags were kept, any may be meant.
        let has_tags = !is_stamped && lines(&wire).any(|line| tag_fields().iter().any(|name| line.is(name)));
        let tags = Tags::of(bytes.slice(tags_at..wire_at), has_tags || flags & UNLISTED_TAGS != 0)?;
        Some(StoredHead { kind, facts, primary, pieces, tags, wire })
    }

    /// Of which kind an object with this head is, and when it was asked for, without taking all of it apart; `None` for anything that
    /// [`StoredHead::encode`] does not make.
    pub fn stamp_of(bytes: &Bytes) -> Option<(Kind, Stamp)> {
        let (version, kind) = (*bytes.first()?, Kind::of(*bytes.get(1)?)?);
        let stamp = match version {
            VERSION | UNENCODED_VERSION => {
                bytes.get(UNSTAMPED_BYTES..)?.first_chunk().copied().map(u64::from_le_bytes)?
            }
            UNSTAMPED_VERSION => 0,
            _ => return None,
        };
        Some((kind, Stamp(stamp)))
    }

    /// A head to store. `None` where it would be too large: the response then passes through.
    pub fn encode(kind: Kind, facts: &Facts, primary: &[u8], tags: &Tags, header: &ResponseHead) -> Option<Bytes> {
        StoredHead::encode_pieces(kind, facts, primary, &[], tags, header)
    }

    /// The same object's head with other facts, tags and header.
    pub fn again(&self, facts: &Facts, tags: &Tags, header: &ResponseHead) -> Option<Bytes> {
        StoredHead::encode_pieces(self.kind, facts, &self.primary, &self.pieces, tags, header)
    }

    /// [`StoredHead::encode`], for kinds that say something of pieces or forms.
    pub fn encode_pieces(
        kind: Kind,
        facts: &Facts,
        primary: &[u8],
        pieces: &[u8],
        tags: &Tags,
        header: &ResponseHead,
    ) -> Option<Bytes> {
        let mut head = Vec::with_capacity(FIXED_BYTES + primary.len() + 512);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(facts.may_be_stale, MAY_BE_STALE)
            | flag(facts.variant.is_some(), VARIES)
            | flag(facts.fetched_from.is_some(), HAS_ADDRESS)
            | flag(tags.unlisted, UNLISTED_TAGS);
        head.extend_from_slice(&[VERSION, kind as u8, flags, 0]);
        for time in [facts.received, facts.fresh_until, facts.family] {
            head.extend_from_slice(&nanoseconds(time).to_le_bytes());
        }
        for seconds in [facts.age_seconds, facts.stale_while_revalidate_seconds, facts.stale_if_error_seconds] {
            head.extend_from_slice(&seconds.to_le_bytes());
        }
        head.extend_from_slice(&facts.variant.unwrap_or_default());
        let address = match facts.fetched_from {
            Some(IpAddr::V4(v4)) => v4.to_ipv6_mapped(),
            Some(IpAddr::V6(v6)) => v6,
            None => Ipv6Addr::UNSPECIFIED,
        };
        head.extend_from_slice(&address.octets());
        head.extend_from_slice(&u32::try_from(primary.len()).ok()?.to_le_bytes());
        head.extend_from_slice(&u32::try_from(pieces.len()).ok()?.to_le_bytes());
        let length_at = head.len();
        head.extend_from_slice(&[0; 4]);
        head.extend_from_slice(&facts.stamp.0.to_le_bytes());
        head.extend_from_slice(&u32::try_from(tags.bytes().len()).ok()?.to_le_bytes());
        head.extend_from_slice(primary);
        head.extend_from_slice(pieces);
        head.extend_from_slice(tags.bytes());
        let wire_at = head.len();
        for part in ["HTTP/1.1 ", header.status.as_str(), " ", reason(header.status), "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        header.headers.write_to(&mut head);
        let wire_bytes = head.len() - wire_at;
        if primary.len() > MAX_PRIMARY_BYTES || pieces.len() + tags.bytes().len() + wire_bytes > MAX_WIRE_BYTES {
            return None;
        }
        let length = u32::try_from(wire_bytes).ok()?.to_le_bytes();
        head.get_mut(length_at..length_at + 4)?.copy_from_slice(&length);
        Some(head.into())
    }

    /// The name of what it is the head of.
    pub fn primary(&self) -> &[u8] {
        &self.primary
    }

    /// What it says of pieces or forms, for [`super::PieceList`] and [`super::Forms`].
    pub fn pieces(&self) -> &Bytes {
        &self.pieces
    }

    /// What its origin calls it.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// The same head with other lines, to be sent and not to be stored.
    pub fn sent(self, kind: Kind, wire: Bytes) -> StoredHead {
        StoredHead { kind, wire, ..self }
    }

    /// Whether this is the head of an object of that name, and not of another with the same digest.
    pub fn belongs_to(&self, primary: &[u8]) -> bool {
        self.primary == primary
    }

    /// The status line and the header lines as they were stored, each with its CR LF.
    pub fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// The same lines in a buffer of their own, which what keeps a field for long may share: HPACK's table keeps fields as long as a
    /// connection lives, and would keep the whole record with each. At most 96 KiB.
    pub fn own_wire(&self) -> Bytes {
        Bytes::copy_from_slice(&self.wire)
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.wire.get(9..12).and_then(|code| StatusCode::from_bytes(code).ok()).unwrap_or_default()
    }

    /// The fields that `wanted` picks. `None` if they cannot be read, which what was stored can.
    pub fn fields(&self, wanted: impl Fn(&Line<'_>) -> bool) -> Option<HeaderMap> {
        header_map(&self.wire, wanted)
    }

    /// The header, to be changed and sent. It shares nothing with what is stored ([`StoredHead::own_wire`]).
    pub fn header(&self) -> Option<ResponseHead> {
        let headers = Fields::of_lines(&self.own_wire()).ok()?;
        Some(ResponseHead { headers, ..ResponseHead::new(self.status()) })
    }
}

/// Whether these bytes are a head that an earlier version stored.
pub(super) fn is_old(head: &[u8]) -> bool {
    matches!(head.first(), Some(1..UNSTAMPED_VERSION))
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or_default()
}

fn time(nanoseconds: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds))
}

/// Times before 1970 count as 1970, and times after 2554 as then: neither is a time at which anything was cached.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
