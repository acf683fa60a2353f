//! An object as one payload of a slot, and a key as bytes.
//!
//! ```text
//! object: version 2  digest (16)  name's length (4)  head's length (4)  name  head  body
//! key:    digest (16)  name's length (4)  name  URL
//! ```
//!
//! The name is that of the key, so that two keys with one digest are two objects here too.

use bytes::Bytes;
use tinaja_store::Key;

const VERSION: u8 = 2;
const DIGEST: usize = 16;
const FIXED: usize = 25;

/// How many bytes an object takes.
pub fn packed_bytes(key: &Key, head: &[u8], body_bytes: u64) -> u64 {
    ((FIXED + key.name().len() + head.len()) as u64).saturating_add(body_bytes)
}

/// An object as a payload; none if a part of it is too long.
pub fn pack(key: &Key, head: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    let length = |part: &[u8]| u32::try_from(part.len()).ok().map(u32::to_le_bytes);
    let name = key.name();
    Some([&[VERSION][..], &key.digest()[..], &length(name)?[..], &length(head)?[..], name, head, body].concat())
}

/// Head and body in a payload, if it is that key's object.
pub fn unpack(payload: Vec<u8>, key: &Key) -> Option<(Bytes, Bytes)> {
    unpack_any(payload).filter(|(found, ..)| found == key).map(|(_, head, body)| (head, body))
}

/// Key, head and body in a payload.
pub fn unpack_any(payload: Vec<u8>) -> Option<(Key, Bytes, Bytes)> {
    let payload = Bytes::from(payload);
    let length = |at: usize| {
        let four: [u8; 4] = payload.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(four)).ok()
    };
    let digest: [u8; DIGEST] = payload.get(1..=DIGEST)?.try_into().ok()?;
    let (name, head) = (length(1 + DIGEST)?, length(5 + DIGEST)?);
    let head_at = FIXED.checked_add(name)?;
    let body_at = head_at.checked_add(head)?;
    if payload.first() != Some(&VERSION) || body_at > payload.len() {
        return None;
    }
    let key = Key::from_digest(digest).with_name(payload.get(FIXED..head_at)?);
    Some((key, payload.slice(head_at..body_at), payload.slice(body_at..)))
}

/// A key as bytes.
pub fn key_to_bytes(key: &Key) -> Vec<u8> {
    let name = key.name();
    let length = u32::try_from(name.len()).unwrap_or_default().to_le_bytes();
    [&key.digest()[..], &length, name, key.url().as_bytes()].concat()
}

/// The key again, if it is one.
pub fn key_from_bytes(bytes: &[u8]) -> Option<Key> {
    let (digest, rest) = bytes.split_first_chunk::<16>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (name, url) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some(Key::from_digest(*digest).with_name(name).at_url(std::str::from_utf8(url).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(name in prop::collection::vec(any::<u8>(), 0..40), head: Vec<u8>, body: Vec<u8>, url in "[a-z/]{0,20}") {
            let key = Key::from_name(b"x").with_name(&name).at_url(&url);
            let packed = pack(&key, &head, &body).unwrap();
            prop_assert_eq!(packed.len() as u64, packed_bytes(&key, &head, body.len() as u64));
            let (found_head, found_body) = unpack(packed.clone(), &key).unwrap();
            prop_assert_eq!((&found_head[..], &found_body[..]), (&head[..], &body[..]));
            prop_assert_eq!(unpack(packed, &Key::from_name(b"another")), None);
            let again = key_from_bytes(&key_to_bytes(&key)).unwrap();
            prop_assert_eq!((again.url(), &again), (key.url(), &key));
        }

        #[test]
        fn nothing_else_is_taken_for_one(bytes: Vec<u8>) {
            let key = Key::from_name(b"a name that no random bytes have");
            prop_assert_eq!(unpack(bytes.clone(), &key), None);
            let _ = key_from_bytes(&bytes);
        }
    }
}
