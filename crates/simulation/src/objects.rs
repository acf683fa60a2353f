//! Bodies of which every eight bytes tell the object, its version and the place.

use bytes::Bytes;

use crate::random::mixed;

/// One version of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Which resource.
    pub resource: usize,
    /// Which of its variants.
    pub variant: usize,
    /// The how manieth, from 1 on.
    pub number: u64,
}

impl Version {
    fn seed(self) -> u64 {
        mixed(mixed(mixed(self.resource as u64) ^ self.variant as u64) ^ self.number)
    }

    /// Its strong entity tag.
    pub fn tag(self) -> String {
        format!("\"{}-{}-{}\"", self.resource, self.variant, self.number)
    }

    /// The version with this entity tag.
    pub fn of_tag(tag: &str) -> Option<Version> {
        let mut parts = tag.strip_prefix('"')?.strip_suffix('"')?.split('-');
        let resource = parts.next()?.parse().ok()?;
        let variant = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Version { resource, variant, number })
    }

    /// A body of so many bytes, from `at` on.
    pub fn body(self, at: u64, bytes: u64) -> Bytes {
        let (seed, first, end) = (self.seed(), at / 8, (at + bytes).div_ceil(8));
        let mut all = vec![0; 8 * (end - first) as usize];
        for (word, place) in (first..end).zip(all.chunks_exact_mut(8)) {
            place.copy_from_slice(&mixed(seed.wrapping_add(word)).to_le_bytes());
        }
        let skip = (at % 8) as usize;
        Bytes::from(all).slice(skip..skip + bytes as usize)
    }

    /// Where bytes that should be those from `at` on are others.
    pub fn first_wrong(self, at: u64, bytes: &[u8]) -> Option<u64> {
        let right = self.body(at, bytes.len() as u64);
        if right == bytes {
            return None;
        }
        let wrong = right.iter().zip(bytes).position(|(right, there)| right != there);
        wrong.map(|wrong| at + wrong as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_body_tells_its_version_and_place() {
        let version = Version { resource: 3, variant: 1, number: 7 };
        assert_eq!(Version::of_tag(&version.tag()), Some(version));
        let whole = version.body(0, 1000);
        for at in [0, 1, 7, 8, 500, 999] {
            assert_eq!(version.body(at, 1000 - at), whole.slice(at as usize..));
            assert_eq!(version.first_wrong(at, &whole[at as usize..]), None);
        }
        assert!(version.first_wrong(8, &whole[16..]).is_some(), "another place");
        let other = Version { number: 8, ..version };
        assert!(other.first_wrong(0, &whole[..16]).is_some(), "another version");
    }
}
