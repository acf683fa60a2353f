//! What an object is called: a digest, and optionally the name it was made from.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The name of an object: a 16-byte digest and, where the caller has it, the bytes it stands for.
///
/// Both are compared before anything is served, so two names that share a digest are two objects: a digest proves nothing
/// against somebody who chooses the names. A key without a name matches only objects stored without one. Cloning is cheap
/// (reference counts).
#[derive(Clone)]
pub struct Key {
    digest: [u8; 16],
    name: Option<Arc<[u8]>>,
    url: Option<Arc<str>>,
}

// Where an object comes from is no part of what it is called.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.digest == other.digest && self.name == other.name
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// The longest name a key may carry, in bytes. Longer names are kept by digest alone.
///
/// A name is stored with every object and read back with it; 16 KiB is twice the longest URL that servers take.
pub const MAX_NAME_BYTES: usize = 16 * 1024;

impl Key {
    /// A key from a digest computed elsewhere, with no name.
    pub fn from_digest(digest: [u8; 16]) -> Self {
        Key { digest, name: None, url: None }
    }

    /// A key from its name: the digest is the first half of the name's BLAKE3 hash.
    ///
    /// A name of several parts must mark where each ends (see [`Key::from_parts`]), or two names may read alike.
    pub fn from_name(name: &[u8]) -> Self {
        let hash = blake3::hash(name);
        Key::from_digest(first_half(&hash)).with_name(name)
    }

    /// A key from parts (scheme, host, port, path, variant): each is preceded by its length, so that no choice of
    /// delimiters inside one part makes it read like another.
    pub fn from_parts(parts: &[&[u8]]) -> Self {
        let mut name = Vec::with_capacity(parts.iter().map(|part| part.len() + 4).sum());
        for part in parts {
            name.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            name.extend_from_slice(part);
        }
        Key::from_name(&name)
    }

    /// The same digest with a name; a name above [`MAX_NAME_BYTES`] is dropped (the digest still identifies it).
    pub fn with_name(mut self, name: &[u8]) -> Self {
        self.name = (name.len() <= MAX_NAME_BYTES && !name.is_empty()).then(|| name.into());
        self
    }

    /// The same with the URL that the object comes from, for engines that lay objects out by it; it identifies nothing. One above
    /// [`MAX_NAME_BYTES`] is dropped.
    pub fn at_url(mut self, url: &str) -> Self {
        self.url = (url.len() <= MAX_NAME_BYTES && !url.is_empty()).then(|| url.into());
        self
    }

    /// The URL, or nothing where nobody said.
    pub fn url(&self) -> &str {
        self.url.as_deref().unwrap_or_default()
    }

    /// What identifies the object alone, to be kept for as long as it is.
    pub(crate) fn without_url(&self) -> Self {
        Key { url: None, ..self.clone() }
    }

    /// The caller's digest (not what is on disk: the store mixes its secret in first).
    pub fn digest(&self) -> &[u8; 16] {
        &self.digest
    }

    /// The name, or nothing where the key has none.
    pub fn name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "Key({})", name.escape_ascii()),
            None => write!(f, "Key({:032x})", u128::from_be_bytes(self.digest)),
        }
    }
}

/// What identifies an object inside one store: the key's digest mixed with the store's [`Secret`].
///
/// Placement (set, fingerprint) comes from these bits, so nobody outside can aim objects at one set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The low 64 bits: engines take the set and the fingerprint from here.
    pub fn low(&self) -> u64 {
        u128::from_le_bytes(self.0) as u64
    }

    /// One with these low 64 bits, where no more is known of an object; the others are 0.
    pub fn of_low(low: u64) -> Self {
        Digest(u128::from(low).to_le_bytes())
    }

    /// The high 64 bits, independent of [`Digest::low`].
    pub fn high(&self) -> u64 {
        (u128::from_le_bytes(self.0) >> 64) as u64
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({:032x})", u128::from_be_bytes(self.0))
    }
}

/// 32 random bytes that belong to one store, made when it is formatted and kept in its superblock.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A secret from given bytes: for reopening a store, and for tests that need the same placement every time.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }

    /// The bytes, to be written into a superblock.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest under which this store keeps `key`.
    pub fn digest(&self, key: &Key) -> Digest {
        Digest(first_half(&blake3::keyed_hash(&self.0, key.digest())))
    }

    /// A seed for checksums: a record of one store never verifies in another.
    pub fn seed(&self) -> u64 {
        let hash = blake3::keyed_hash(&self.0, b"checksum seed");
        Digest(first_half(&hash)).low()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

fn first_half(hash: &blake3::Hash) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = *hash.as_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_run_into_each_other() {
        let one = Key::from_parts(&[b"http", b"a.example", b"/b"]);
        assert_ne!(one, Key::from_parts(&[b"http", b"a.example/", b"b"]));
        assert_ne!(one, Key::from_parts(&[b"http", b"", b"a.example/b"]));
        assert_eq!(one, Key::from_parts(&[b"http", b"a.example", b"/b"]));
    }

    #[test]
    fn stores_place_the_same_key_differently() {
        let key = Key::from_name(b"x");
        let here = Secret::from_bytes([1; 32]).digest(&key);
        assert_ne!(here, Secret::from_bytes([2; 32]).digest(&key));
        assert_eq!(here, Secret::from_bytes([1; 32]).digest(&key));
    }

    #[test]
    fn a_name_too_long_leaves_the_digest() {
        let key = Key::from_name(&vec![b'x'; MAX_NAME_BYTES + 1]);
        assert!(key.name().is_empty());
        assert_eq!(key.digest(), Key::from_name(&vec![b'x'; MAX_NAME_BYTES + 1]).digest());
    }
}
