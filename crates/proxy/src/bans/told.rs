//! Bans as nodes of a cluster tell them each other, and what they answer.
//!
//! ```text
//! question: "Tb"  kind 1  the asker's book 4  how many bans 4  bans, as in the file
//! answer:   0  a stamp 8    or  1  why not
//! ```
//!
//! Kind 1 has bans, to be written down. Kind 2 has none: the other node is to begin a new number, so that what it asks origins for from then on is
//! told from what it has asked for before.

use bytes::{Buf, Bytes};

use super::marks::Ban;
use super::record;
use super::rule::Rule;
use super::stamp::Stamp;
use super::table::MOST_TRIED;

const MAGIC: [u8; 2] = *b"Tb";
/// Bytes before the bans.
const FIXED_BYTES: usize = 11;
const BANS: u8 = 1;
const MEET: u8 = 2;
/// The longest question, in bytes. No cluster carries a longer one.
pub(crate) const MOST_TOLD_BYTES: usize = 1 << 20;
/// Bans in one, at most: more than a client can name at once.
const MOST_TOLD: usize = 8192;
/// The longest reason, in bytes.
const MOST_WHY_BYTES: usize = 512;

/// What one node asks of another.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Bans(Vec<Ban>),
    Meet,
}

impl Told {
    /// As bytes, of a node with this book; `None` if that would be too long.
    pub fn bytes(&self, book: u32) -> Option<Bytes> {
        let (kind, bans) = match self {
            Told::Bans(bans) => (BANS, &bans[..]),
            Told::Meet => (MEET, &[][..]),
        };
        let count = u32::try_from(bans.len()).ok()?;
        let mut bytes = [&MAGIC[..], &[kind], &book.to_le_bytes(), &count.to_le_bytes()].concat();
        for ban in bans {
            bytes.extend(record::bytes_of(book, ban));
            if bytes.len() > MOST_TOLD_BYTES {
                return None;
            }
        }
        (bans.len() <= MOST_TOLD && !are_too_many_tried(bans)).then(|| bytes.into())
    }

    /// Whose book, and what. `None` for what no node says: each ban is judged as one that an operator names.
    pub fn of(mut bytes: &[u8]) -> Option<(u32, Told)> {
        if bytes.len() > MOST_TOLD_BYTES || bytes.len() < FIXED_BYTES || bytes.get(..2) != Some(&MAGIC[..]) {
            return None;
        }
        bytes.advance(2);
        let (kind, book, count) = (bytes.get_u8(), bytes.get_u32_le(), bytes.get_u32_le() as usize);
        match kind {
            MEET => (count == 0 && bytes.is_empty()).then_some((book, Told::Meet)),
            BANS => {
                let (bans, read) = record::read(book, 0, bytes).ok().filter(|_| (1..=MOST_TOLD).contains(&count))?;
                // Before any of them is compiled.
                let is_good = read == bytes.len() && bans.len() == count && !are_too_many_tried(&bans);
                (is_good && bans.iter().all(|ban| ban.rule.makes_sense())).then_some((book, Told::Bans(bans)))
            }
            _ => None,
        }
    }
}

/// More that are tried one by one than are kept.
fn are_too_many_tried(bans: &[Ban]) -> bool {
    bans.iter().filter(|ban| matches!(ban.rule, Rule::Regex(_) | Rule::Suffix { .. })).count() > MOST_TRIED
}

/// An answer as bytes.
pub(crate) fn answer_bytes(answer: &Result<Stamp, String>) -> Bytes {
    match answer {
        Ok(stamp) => [&[0][..], &stamp.0.to_le_bytes()].concat().into(),
        Err(why) => {
            let end = (0..=why.len().min(MOST_WHY_BYTES)).rev().find(|end| why.is_char_boundary(*end));
            [&[1][..], why.get(..end.unwrap_or_default()).unwrap_or_default().as_bytes()].concat().into()
        }
    }
}

/// What another node has answered: its newest number, or why it does not do it.
pub(crate) fn answer_of(mut bytes: &[u8]) -> Result<Stamp, String> {
    match bytes.split_off_first() {
        Some(0) if bytes.len() == 8 => Ok(Stamp(bytes.get_u64_le())),
        Some(1) if bytes.len() <= MOST_WHY_BYTES => Err(String::from_utf8_lossy(bytes).escape_debug().to_string()),
        _ => Err("its answer makes no sense".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(rule: Rule) -> Ban {
        Ban { number: 3, rule, soft: true, at: 1_700_000_000 }
    }

    #[test]
    fn what_is_told_is_what_is_heard() {
        let bans = vec![ban(Rule::All), ban(Rule::Tag { host: Some("a".into()), tag: 7 })];
        for told in [Told::Bans(bans), Told::Meet] {
            let bytes = told.bytes(9).unwrap();
            for end in 0..bytes.len() {
                assert_eq!(Told::of(&bytes[..end]), None, "cut off");
            }
            assert_eq!(Told::of(&[&bytes[..], &[0]].concat()), None);
            for at in 0..bytes.len() {
                let mut wrong = bytes.to_vec();
                wrong[at] ^= 0x10;
                assert!(Told::of(&wrong).is_none_or(|heard| heard.1 == Told::Meet), "byte {at}");
            }
            assert_eq!(Told::of(&bytes), Some((9, told)));
        }
        for answer in [Ok(Stamp(77)), Err("it is full".to_owned())] {
            assert_eq!(answer_of(&answer_bytes(&answer)), answer);
        }
        assert_eq!(answer_of(&answer_bytes(&Err("ä".repeat(400)))).unwrap_err().len(), 512);
        for nonsense in [&b""[..], b"\0", b"\0too long for one", b"\x02", &[1; 600]] {
            assert!(answer_of(nonsense).unwrap_err().contains("no sense"));
        }
        assert_eq!(answer_of(b"\x01two\nlines").unwrap_err(), "two\\nlines");
    }

    /// The format is what it was: nodes of one version of the protocol understand each other.
    #[test]
    fn the_format_is_what_it_was() {
        let bytes = Told::Bans(vec![ban(Rule::Prefix("a.example/x".into()))]).bytes(0x0012_3456).unwrap();
        assert_eq!(bytes, include_bytes!("../../tests/golden/told-bans-v2.bin")[..], "{}", bytes.escape_ascii());
    }

    /// A node that has lost its mind, or was taken over, says no more than an operator may.
    #[test]
    fn what_a_hostile_node_says_is_judged_as_what_a_client_says() {
        let told = |rule| Told::of(&Told::Bans(vec![ban(rule)]).bytes(9).unwrap());
        for rule in [
            Rule::Regex("(".into()),
            Rule::Regex("((a{100}){100}){100}".into()),
            Rule::Regex("a".repeat(5000)),
            Rule::Prefix("a".repeat(5000)),
            Rule::Prefix("a/ä".into()),
            Rule::Url("a/ b".into()),
            Rule::Host(String::new()),
            Rule::Domain("a\r\nb".into()),
            Rule::Suffix { host: None, suffix: String::new() },
            Rule::Suffix { host: Some("a".repeat(5000)), suffix: ".css".into() },
            Rule::Suffix { host: None, suffix: "?".into() },
            Rule::Tag { host: Some("a b".into()), tag: 1 },
        ] {
            assert_eq!(told(rule.clone()), None, "{rule:?}");
        }
        let many = |count| vec![ban(Rule::All); count];
        assert!(Told::Bans(many(MOST_TOLD)).bytes(9).is_some_and(|bytes| Told::of(&bytes).is_some()));
        assert_eq!(Told::Bans(many(MOST_TOLD + 1)).bytes(9), None);
        let tried = |count| vec![ban(Rule::Regex("a".into())); count];
        assert!(Told::Bans(tried(MOST_TRIED)).bytes(9).is_some_and(|bytes| Told::of(&bytes).is_some()));
        assert_eq!(Told::Bans(tried(MOST_TRIED + 1)).bytes(9), None);
        let regexes: Vec<u8> = tried(MOST_TRIED + 1).iter().flat_map(|ban| record::bytes_of(9, ban)).collect();
        let head = [&MAGIC[..], &[BANS], &9_u32.to_le_bytes(), &(MOST_TRIED as u32 + 1).to_le_bytes()].concat();
        assert_eq!(Told::of(&[head, regexes].concat()), None);
        let records: Vec<u8> = many(MOST_TOLD + 1).iter().flat_map(|ban| record::bytes_of(9, ban)).collect();
        let head = [&MAGIC[..], &[BANS], &9_u32.to_le_bytes(), &(MOST_TOLD as u32 + 1).to_le_bytes()].concat();
        assert_eq!(Told::of(&[head, records].concat()), None);
        assert_eq!(Told::of(&vec![0; MOST_TOLD_BYTES + 1]), None);
        assert_eq!(
            Told::Bans(vec![ban(Rule::Prefix("a".repeat(4096))); 300]).bytes(9),
            None,
            "too long for one message"
        );
        assert_eq!(Told::of(&Told::Bans(Vec::new()).bytes(9).unwrap()), None, "none at all");
    }
}
