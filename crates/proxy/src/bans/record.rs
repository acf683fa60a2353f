//! Bans as bytes. `docs/formats/bans.md` draws them.

use bytes::Buf;

use super::marks::Ban;
use super::rule::Rule;
use super::stamp;

const MAGIC: [u8; 8] = *b"tinabans";
const VERSION: u32 = 2;
/// Bytes of the beginning of a file.
pub(super) const BEGINNING_BYTES: usize = 48;
/// The version before, from whose files nothing has left.
const VERSION_1: u32 = 1;
/// Bytes of its beginning.
const BEGINNING_BYTES_1: usize = 32;
/// Bytes of a check.
const CHECK_BYTES: usize = 8;
/// Bytes before a record: its length, and what that and the record are checked by.
const FRAME_BYTES: usize = 16;
/// Bytes of a record without its text.
const FIXED_BYTES: usize = 18;
/// The longest record with what is before it, in bytes: two texts and their limit.
pub(super) const MOST_RECORD_BYTES: usize = FRAME_BYTES + FIXED_BYTES + 16 * 1024;

const SOFT: u8 = 1;

/// The beginning of a file: whose it is, the number of the last ban when it was written anew, and which have left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    pub book: u32,
    pub number: u64,
    pub left: Left,
}

/// Bans that are not in the file any more, because nothing in the store fits them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// The largest of their numbers; 0 for none.
    pub number: u64,
    /// That holds where the store goes by a saved index of this epoch or a later one.
    pub epoch: u64,
}

impl Beginning {
    pub fn bytes(self) -> [u8; BEGINNING_BYTES] {
        let mut bytes = [0; BEGINNING_BYTES];
        let (said, check) = bytes.split_at_mut(BEGINNING_BYTES - CHECK_BYTES);
        let numbers = [self.number, self.left.number, self.left.epoch].map(u64::to_le_bytes).concat();
        let parts = [&MAGIC[..], &VERSION.to_le_bytes(), &self.book.to_le_bytes(), &numbers];
        said.copy_from_slice(&parts.concat());
        check.copy_from_slice(&check_of(0, said).to_le_bytes());
        bytes
    }

    /// The beginning of these bytes, and how many of them it takes.
    pub fn of(bytes: &[u8]) -> Result<(Beginning, usize), Damage> {
        let mut version = bytes.get(MAGIC.len()..).filter(|rest| rest.len() >= 4).ok_or(Damage::Beginning)?;
        let version = version.get_u32_le();
        let length = if version == VERSION_1 { BEGINNING_BYTES_1 } else { BEGINNING_BYTES };
        let (mut said, mut check) = bytes.get(..length).ok_or(Damage::Beginning)?.split_at(length - CHECK_BYTES);
        let sound = check.get_u64_le() == check_of(0, said);
        if said.get(..8) != Some(&MAGIC[..]) || !sound {
            return Err(Damage::Beginning);
        }
        said.advance(12);
        let (book, number) = (said.get_u32_le(), said.get_u64_le());
        let left = match version {
            VERSION_1 => Left::default(),
            VERSION => Left { number: said.get_u64_le(), epoch: said.get_u64_le() },
            version => return Err(Damage::Version(version)),
        };
        Ok((Beginning { book, number, left }, length))
    }
}

/// Why a file cannot be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("its beginning is damaged")]
    Beginning,
    #[error("it is of version {0} of its format, which this version of Tinaja does not know")]
    Version(u32),
    #[error("it is damaged at byte {0}")]
    At(usize),
}

/// A record with what is before it.
pub(super) fn bytes_of(book: u32, ban: &Ban) -> Vec<u8> {
    let mut record = Vec::with_capacity(FRAME_BYTES + FIXED_BYTES + ban.rule.text_bytes());
    record.extend_from_slice(&[0; FRAME_BYTES]);
    record.extend_from_slice(&ban.number.to_le_bytes());
    record.extend_from_slice(&ban.at.to_le_bytes());
    record.extend_from_slice(&[if ban.soft { SOFT } else { 0 }, u8::try_from(ban.rule.kind()).unwrap_or(u8::MAX)]);
    match &ban.rule {
        Rule::All => {}
        Rule::Url(text) | Rule::Prefix(text) | Rule::Host(text) | Rule::Domain(text) | Rule::Regex(text) => {
            record.extend_from_slice(text.as_bytes());
        }
        Rule::Suffix { host, suffix } => {
            record.extend_from_slice(host.as_deref().unwrap_or_default().as_bytes());
            record.push(0);
            record.extend_from_slice(suffix.as_bytes());
        }
        Rule::Tag { host, tag } => {
            record.extend_from_slice(&tag.to_le_bytes());
            record.extend_from_slice(host.as_deref().unwrap_or_default().as_bytes());
        }
    }
    let (frame, said) = record.split_at_mut(FRAME_BYTES);
    let length = u32::try_from(said.len()).unwrap_or(u32::MAX).to_le_bytes();
    let checks = [&length[..], &check_of_length(book, length).to_le_bytes(), &check_of(book, said).to_le_bytes()];
    frame.copy_from_slice(&checks.concat());
    record
}

/// The bans in what follows a beginning of so many bytes, and how many bytes of it are whole records. What a write that was cut off left at the end does not
/// count.
pub(super) fn read(book: u32, beginning_bytes: usize, bytes: &[u8]) -> Result<(Vec<Ban>, usize), Damage> {
    let (mut bans, mut at) = (Vec::new(), 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let damage = Damage::At(beginning_bytes + at);
        // A write is whole in memory before it is on the disk, and only the last one can be missing: of that, what is there is its beginning.
        let Some((mut frame, said)) = rest.split_at_checked(FRAME_BYTES) else {
            return Ok((bans, at));
        };
        let length = frame.get_u32_le();
        if frame.get_u32_le() != check_of_length(book, length.to_le_bytes()) {
            return Err(damage);
        }
        let length = length as usize;
        let Some(said) = said.get(..length) else {
            return if length <= MOST_RECORD_BYTES { Ok((bans, at)) } else { Err(damage) };
        };
        let ban = ban_of(said).filter(|_| frame.get_u64_le() == check_of(book, said));
        bans.push(ban.ok_or(damage)?);
        at += FRAME_BYTES + length;
    }
    Ok((bans, at))
}

fn ban_of(mut said: &[u8]) -> Option<Ban> {
    if said.len() < FIXED_BYTES {
        return None;
    }
    let (number, at, flags, kind) = (said.get_u64_le(), said.get_u64_le(), said.get_u8(), said.get_u8());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let host = |bytes: &[u8]| Some(Some(text(bytes)?).filter(|host| !host.is_empty()));
    let rule = match kind {
        0 if said.is_empty() => Rule::All,
        1 => Rule::Url(text(said)?),
        2 => Rule::Prefix(text(said)?),
        3 => Rule::Host(text(said)?),
        4 => Rule::Domain(text(said)?),
        5 => {
            let end = said.iter().position(|byte| *byte == 0)?;
            Rule::Suffix { host: host(said.get(..end)?)?, suffix: text(said.get(end + 1..)?)? }
        }
        6 => Rule::Regex(text(said)?),
        7 if said.len() >= 8 => Rule::Tag { tag: said.get_u64_le(), host: host(said)? },
        _ => return None,
    };
    let known = flags & !SOFT == 0 && (1..=stamp::MOST).contains(&number);
    known.then_some(Ban { number, rule, soft: flags == SOFT, at })
}

fn check_of(book: u32, bytes: &[u8]) -> u64 {
    let mut check = [0; 8];
    blake3::Hasher::new().update(&book.to_le_bytes()).update(bytes).finalize_xof().fill(&mut check);
    u64::from_le_bytes(check)
}

fn check_of_length(book: u32, length: [u8; 4]) -> u32 {
    // The other half is as good.
    u32::try_from(check_of(book, &length) >> 32).unwrap_or_default()
}
