//! The head of a stored object: when it came, how long it is good, whose it is, and its header lines.
//!
//! All that decides whether an answer may be served stands in numbers in front, so that a hit needs no header to be parsed; and
//! the header lines stand as they are sent, so that a hit need not write them anew. A number that most objects have no use for is
//! there only where its flag is set: each byte is written to the disk with each object. `docs/formats/heads.md` draws it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tinaja_http::lines::{Line, header_map, lines};
use tinaja_http::message::{Fields, ResponseHead};

use super::facts::Facts;
use super::old_head;
use crate::bans::{Stamp, Tags, tag_fields};

/// The first byte of every head. Of those before it, [`old_head`] reads some.
const VERSION: u8 = 7;

const MAY_BE_STALE: u16 = 1;
const VARIES: u16 = 2;
const IPV4: u16 = 4;
const UNLISTED_TAGS: u16 = 8;
const IPV6: u16 = 16;
const AGES: u16 = 32;
const IN_FAMILY: u16 = 64;
const PIECES: u16 = 128;
const TAGS: u16 = 256;
const ALL_FLAGS: u16 = 511;

/// Bytes before the stamp.
const STAMP_AT: usize = 20;
/// The most bytes before the name.
const MAX_NUMBERS_BYTES: usize = 96;
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
    pub(super) fn of(byte: u8) -> Option<Kind> {
        [Kind::Whole, Kind::Family, Kind::Pieces, Kind::Piece, Kind::Form].into_iter().find(|kind| *kind as u8 == byte)
    }
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

/// What stands before the name.
pub(super) struct Numbers {
    pub kind: Kind,
    pub facts: Facts,
    /// It has tags that are not listed.
    pub unlisted_tags: bool,
    /// It was stored before tags were kept: its fields say whether it has any.
    pub is_before_tags: bool,
    pub primary_bytes: usize,
    pub pieces_bytes: usize,
    pub tags_bytes: usize,
    pub wire_bytes: usize,
}

impl Numbers {
    /// Those in front of `rest`, which begins behind them then.
    fn read(rest: &mut &[u8]) -> Option<Numbers> {
        let [VERSION, kind] = take(rest)? else { return None };
        let flags = u16::from_le_bytes(take(rest)?);
        if flags & !ALL_FLAGS != 0 || flags & (IPV4 | IPV6) == IPV4 | IPV6 {
            return None;
        }
        let has = |flag| flags & flag != 0;
        let [received, fresh_until] = [take_time(rest)?, take_time(rest)?];
        let stamp = Stamp(u64::from_le_bytes(take(rest)?));
        let [primary_bytes, wire_bytes] = [take_length(rest)?, take_length(rest)?];
        let ages = if has(AGES) { [take(rest)?, take(rest)?, take(rest)?] } else { Default::default() };
        let ages @ [age_seconds, stale_while_revalidate_seconds, stale_if_error_seconds] = ages.map(u32::from_le_bytes);
        let family = if has(IN_FAMILY) { take_time(rest)? } else { SystemTime::UNIX_EPOCH };
        let variant = if has(VARIES) { Some(take(rest)?) } else { None };
        let fetched_from = match () {
            () if has(IPV4) => Some(Ipv4Addr::from(take::<4>(rest)?).into()),
            () if has(IPV6) => Some(Ipv6Addr::from(take::<16>(rest)?).into()),
            () => None,
        };
        let pieces_bytes = if has(PIECES) { take_length(rest)? } else { 0 };
        let tags_bytes = if has(TAGS) { take_length(rest)? } else { 0 };
        // A number that is there says something, and each in one way alone.
        let says = [
            (AGES, ages != [0; 3]),
            (IN_FAMILY, family != SystemTime::UNIX_EPOCH),
            (IPV6, fetched_from.is_some_and(|address: IpAddr| address.to_canonical().is_ipv6())),
            (PIECES, pieces_bytes > 0),
            (TAGS, tags_bytes > 0),
        ];
        if says.iter().any(|(flag, says)| has(*flag) && !says) {
            return None;
        }
        let facts = Facts {
            received,
            fresh_until,
            age_seconds,
            stale_while_revalidate_seconds,
            stale_if_error_seconds,
            may_be_stale: has(MAY_BE_STALE),
            family,
            variant,
            fetched_from,
            stamp,
        };
        let (kind, unlisted_tags) = (Kind::of(kind)?, has(UNLISTED_TAGS));
        let is_before_tags = false;
        Some(Numbers {
            kind,
            facts,
            unlisted_tags,
            is_before_tags,
            primary_bytes,
            pieces_bytes,
            tags_bytes,
            wire_bytes,
        })
    }

    /// Writes them in front of an empty head. The length of the wire is not known yet: zeros are written, and their place is returned.
    fn write(&self, head: &mut Vec<u8>) -> Option<usize> {
        let facts = &self.facts;
        let ages = [facts.age_seconds, facts.stale_while_revalidate_seconds, facts.stale_if_error_seconds];
        let address = facts.fetched_from.map(|address| address.to_canonical());
        let family = nanoseconds(facts.family);
        let flags = [
            (facts.may_be_stale, MAY_BE_STALE),
            (facts.variant.is_some(), VARIES),
            (address.is_some_and(|address| address.is_ipv4()), IPV4),
            (self.unlisted_tags, UNLISTED_TAGS),
            (address.is_some_and(|address| address.is_ipv6()), IPV6),
            (ages != [0; 3], AGES),
            (family > 0, IN_FAMILY),
            (self.pieces_bytes > 0, PIECES),
            (self.tags_bytes > 0, TAGS),
        ];
        let flags = flags.into_iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
        head.extend_from_slice(&[VERSION, self.kind as u8]);
        head.extend_from_slice(&flags.to_le_bytes());
        let times = [nanoseconds(facts.received), nanoseconds(facts.fresh_until), facts.stamp.0];
        times.iter().for_each(|number| head.extend_from_slice(&number.to_le_bytes()));
        head.extend_from_slice(&u32::try_from(self.primary_bytes).ok()?.to_le_bytes());
        let wire_bytes_at = head.len();
        head.extend_from_slice(&[0; 4]);
        if flags & AGES != 0 {
            ages.iter().for_each(|seconds| head.extend_from_slice(&seconds.to_le_bytes()));
        }
        if flags & IN_FAMILY != 0 {
            head.extend_from_slice(&family.to_le_bytes());
        }
        head.extend_from_slice(facts.variant.as_ref().map_or(&[], |variant| &variant[..]));
        match address {
            Some(IpAddr::V4(address)) => head.extend_from_slice(&address.octets()),
            Some(IpAddr::V6(address)) => head.extend_from_slice(&address.octets()),
            None => {}
        }
        for length in [self.pieces_bytes, self.tags_bytes].into_iter().filter(|length| *length > 0) {
            head.extend_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        }
        Some(wire_bytes_at)
    }

    /// Whether what it says of pieces or forms suits its kind.
    fn fits_kind(&self) -> bool {
        match self.kind {
            Kind::Pieces | Kind::Piece | Kind::Form => self.pieces_bytes > 0,
            // Of some there are encoded forms.
            Kind::Whole => true,
            Kind::Family => self.pieces_bytes == 0,
        }
    }
}

impl StoredHead {
    /// Takes a head apart; `None` for anything that [`StoredHead::encode`] does not make, and did not in the versions that are read.
    pub fn decode(bytes: &Bytes) -> Option<StoredHead> {
        let mut rest = &bytes[..];
        let numbers = match bytes.first() {
            Some(&VERSION) => Numbers::read(&mut rest),
            _ => old_head::read(&mut rest),
        }?;
        let Numbers { kind, facts, primary_bytes, pieces_bytes, tags_bytes, wire_bytes, .. } = numbers;
        if primary_bytes > MAX_PRIMARY_BYTES
            || rest.len() != primary_bytes + pieces_bytes + tags_bytes + wire_bytes
            || !numbers.fits_kind()
        {
            return None;
        }
        let primary_at = bytes.len() - rest.len();
        let pieces_at = primary_at + primary_bytes;
        let tags_at = pieces_at + pieces_bytes;
        let wire_at = tags_at + tags_bytes;
        let (primary, pieces) = (bytes.slice(primary_at..pieces_at), bytes.slice(pieces_at..tags_at));
        let wire = bytes.slice(wire_at..);
        // Of what came before tags were kept, any may be meant.
        let may_have_any =
            numbers.is_before_tags && lines(&wire).any(|line| tag_fields().iter().any(|name| line.is(name)));
        let tags = Tags::of(bytes.slice(tags_at..wire_at), may_have_any || numbers.unlisted_tags)?;
        Some(StoredHead { kind, facts, primary, pieces, tags, wire })
    }

    /// Of which kind an object with this head is, and when it was asked for, without taking all of it apart; `None` for anything that
    /// [`StoredHead::decode`] does not read.
    pub fn stamp_of(bytes: &Bytes) -> Option<(Kind, Stamp)> {
        let (version, kind) = (*bytes.first()?, Kind::of(*bytes.get(1)?)?);
        let stamp = match version {
            VERSION => Stamp(u64::from_le_bytes(*bytes.get(STAMP_AT..)?.first_chunk()?)),
            _ => old_head::stamp_of(bytes)?,
        };
        Some((kind, stamp))
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
        let mut head = Vec::with_capacity(MAX_NUMBERS_BYTES + primary.len() + 512);
        let numbers = Numbers {
            kind,
            facts: *facts,
            unlisted_tags: tags.unlisted,
            is_before_tags: false,
            primary_bytes: primary.len(),
            pieces_bytes: pieces.len(),
            tags_bytes: tags.bytes().len(),
            wire_bytes: 0,
        };
        let length_at = numbers.write(&mut head)?;
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

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or_default()
}

/// The next bytes, which are read then.
pub(super) fn take<const COUNT: usize>(rest: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

pub(super) fn take_length(rest: &mut &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(take(rest)?) as usize)
}

pub(super) fn take_time(rest: &mut &[u8]) -> Option<SystemTime> {
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
