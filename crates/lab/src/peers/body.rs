//! Bodies that say whose they are: the same object always has the same bytes, others have others.

use std::sync::OnceLock;

use crate::random::Random;

const NOISE: usize = 1 << 16;
/// So many objects begin at different places of the noise.
const SHIFTS: usize = 1 << 12;

fn noise() -> &'static [u8] {
    static ONCE: OnceLock<Vec<u8>> = OnceLock::new();
    ONCE.get_or_init(|| {
        let mut random = Random::new(5);
        (0..NOISE + SHIFTS).map(|_| random.bits() as u8).collect()
    })
}

/// The pieces of an object's body from the byte `at` on, without end.
pub fn pieces(object: u64, at: usize) -> impl Iterator<Item = &'static [u8]> {
    let shift = object as usize % SHIFTS;
    let all = noise().get(shift..shift + NOISE).unwrap_or_default();
    let first = all.get(at % NOISE..).unwrap_or_default();
    std::iter::once(first).chain(std::iter::repeat(all))
}

/// Whether these are the object's bytes from the byte `at` on.
pub fn is_right(object: u64, at: usize, mut bytes: &[u8]) -> bool {
    for piece in pieces(object, at) {
        if bytes.len() <= piece.len() {
            return piece.starts_with(bytes);
        }
        let (now, rest) = bytes.split_at(piece.len());
        if now != piece {
            return false;
        }
        bytes = rest;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_known_from_any_byte_on() {
        let body: Vec<u8> = pieces(77, 0).flatten().copied().take(200_000).collect();
        for at in [0, 1, 65_535, 65_536, 65_537, 199_999, 200_000] {
            assert!(is_right(77, at, &body[at..]), "{at}");
        }
        assert!(!is_right(78, 0, &body) && !is_right(77, 1, &body));
        let mut changed = body;
        changed[150_000] ^= 1;
        assert!(!is_right(77, 0, &changed) && is_right(77, 0, &changed[..150_000]));
    }
}
