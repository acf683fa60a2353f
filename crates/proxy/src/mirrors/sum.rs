//! What bytes must hash to, as names and indexes say it.

use ring::digest::{Algorithm, Context, SHA256, SHA384, SHA512};

/// So much of a digest is kept: 192 bits. Nobody finds two files that share as many.
const KEPT: usize = 24;

/// How bytes are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hash {
    Sha256 = 1,
    Sha384,
    Sha512,
}

/// The beginning of a digest. MD5 and SHA-1 are none: files can be made that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub hash: Hash,
    pub start: [u8; KEPT],
}

/// Bytes that are hashed while they come.
pub(crate) struct Summing {
    context: Context,
    sum: Sum,
}

impl Hash {
    const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    /// By the name that HTML, JSON and SRI give it.
    pub fn named(name: &str) -> Option<Hash> {
        match name {
            "sha256" => Some(Hash::Sha256),
            "sha384" => Some(Hash::Sha384),
            "sha512" => Some(Hash::Sha512),
            _ => None,
        }
    }

    /// By its number.
    pub fn numbered(number: u64) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| *hash as u64 == number)
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Hash::Sha256 => &SHA256,
            Hash::Sha384 => &SHA384,
            Hash::Sha512 => &SHA512,
        }
    }
}

impl Sum {
    /// Reads a whole digest in hexadecimal digits.
    pub fn hex(hash: Hash, text: &str) -> Option<Sum> {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let digits: Vec<u8> = text.bytes().take(2 * 64 + 1).map_while(|byte| digit(&byte)).collect();
        if text.len() != 2 * hash.algorithm().output_len() || digits.len() != text.len() {
            return None;
        }
        Sum::of(hash, digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)))
    }

    /// Reads the strongest digest of a list as npm's indexes have it (SRI): `sha512-BASE64 sha1-BASE64`. Nothing where that is weak, or
    /// there are several: then any of them may be the one.
    pub fn sri(text: &str) -> Option<Sum> {
        let each = text.split_ascii_whitespace().filter_map(|one| {
            let (name, rest) = one.split_once('-')?;
            Some((Hash::named(name)?, rest.split('?').next().unwrap_or_default()))
        });
        let strongest = each.clone().map(|(hash, _)| hash).max()?;
        let mut of_it = each.filter(|(hash, _)| *hash == strongest);
        let (Some((hash, digest)), None) = (of_it.next(), of_it.next()) else { return None };
        let bytes = base64(digest)?;
        if bytes.len() == hash.algorithm().output_len() { Sum::of(hash, bytes.into_iter()) } else { None }
    }

    fn of(hash: Hash, bytes: impl Iterator<Item = u8>) -> Option<Sum> {
        let bytes: Vec<u8> = bytes.take(KEPT).collect();
        Some(Sum { hash, start: bytes.try_into().ok()? })
    }

    /// Begins to hash bytes that must have it.
    pub fn check(self) -> Summing {
        Summing { context: Context::new(self.hash.algorithm()), sum: self }
    }
}

impl Summing {
    /// More bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    /// Whether they had it.
    pub fn matches(self) -> bool {
        self.context.finish().as_ref().starts_with(&self.sum.start)
    }

    /// What they must have.
    pub fn sum(&self) -> Sum {
        self.sum
    }
}

/// RFC 4648 4, of at most 64 bytes.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    if text.len() > 86 {
        return None;
    }
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(64), 0_u32, 0_u32);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (held, bits) = (held << 6 | u32::from(value), bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap_or_default());
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const ABC_512: &str =
        "sha512-3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==";

    fn is_of(sum: Sum, bytes: &[u8]) -> bool {
        let mut summing = sum.check();
        bytes.chunks(2).for_each(|piece| summing.update(piece));
        summing.matches()
    }

    #[test]
    fn digests_as_they_are_written() {
        for (sum, hash) in [
            (Sum::hex(Hash::Sha256, ABC), Hash::Sha256),
            (Sum::hex(Hash::Sha256, &ABC.to_uppercase()), Hash::Sha256),
            (Sum::sri(ABC_512), Hash::Sha512),
            (Sum::sri(&format!(" sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0= {ABC_512}?x  ")), Hash::Sha512),
            (Sum::sri("sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="), Hash::Sha256),
        ] {
            let sum = sum.unwrap();
            assert!(sum.hash == hash && is_of(sum, b"abc") && !is_of(sum, b"abd") && !is_of(sum, b""));
        }
    }

    #[test]
    fn what_is_none() {
        for text in ["", "00", &ABC[1..], &format!("{ABC}0"), &ABC.replace('b', "g"), &"é".repeat(32)] {
            assert_eq!(Sum::hex(Hash::Sha256, text), None, "{text}");
        }
        assert_eq!(Sum::hex(Hash::Sha512, ABC), None);
        let twice = format!("{ABC_512} {ABC_512}");
        for text in ["", "sha512-", "sha512-AAAA", "sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0=", "sha512", &twice, &ABC_512[1..]]
        {
            assert_eq!(Sum::sri(text), None, "{text}");
        }
        assert_eq!(Sum::sri(&ABC_512.replace("3a8", "3*8")), None);
    }
}
