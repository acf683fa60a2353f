//! The bytes of a write that are not with the engine yet.

use std::mem;
use std::ops::Deref;

use bytes::{Buf, Bytes, BytesMut};

/// Bytes that arrived, to be handed on in one piece. Memory: one extent, or [`crate::limits::RELAY_BYTES`] in a relay;
/// a piece that is kept as it was given holds the buffer that its giver cut it from.
#[derive(Default)]
pub(crate) struct Tail {
    /// One piece as it was given, when that is all there will be. Either this or `gathered` is empty.
    given: Bytes,
    /// Pieces, copied together.
    gathered: BytesMut,
}

impl Tail {
    /// Add a piece behind what is here. `whole_bytes` is how much will be here when it is handed on, as far as known: a
    /// piece of just that length is not copied, and for several pieces room is made once.
    pub(crate) fn push(&mut self, piece: Bytes, whole_bytes: Option<usize>) {
        if self.is_empty() && whole_bytes == Some(piece.len()) {
            self.given = piece;
            return;
        }
        let given = mem::take(&mut self.given);
        let missing = whole_bytes.map_or(0, |whole| whole.saturating_sub(self.gathered.len()));
        self.gathered.reserve(missing.max(given.len() + piece.len()));
        self.gathered.extend_from_slice(&given);
        self.gathered.extend_from_slice(&piece);
    }

    /// Up to so many bytes from this offset on. They are copied, but for a whole body of `whole_bytes` that is kept as it was given: a part
    /// would hold on to more than its reader is known to hold.
    pub(crate) fn piece(&self, from: usize, most: usize, whole_bytes: Option<u64>) -> Bytes {
        let to = from.saturating_add(most).min(self.len());
        match self.get(from..to) {
            None => Bytes::new(),
            Some(piece) if piece.len() == self.given.len() && whole_bytes == Some(piece.len() as u64) => {
                self.given.clone()
            }
            Some(piece) => Bytes::copy_from_slice(piece),
        }
    }

    /// Drop so many bytes from the front, or all there are.
    pub(crate) fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len());
        match self.given.len() {
            0 => self.gathered.advance(bytes),
            all if all == bytes => self.given = Bytes::new(),
            _ => self.given.advance(bytes),
        }
    }

    /// Drop everything.
    pub(crate) fn clear(&mut self) {
        // An empty piece would still hold its giver's buffer.
        self.given = Bytes::new();
        self.gathered.clear();
    }
}

impl Deref for Tail {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.given.is_empty() { &self.gathered } else { &self.given }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_whole_is_kept_as_it_was_given() {
        let piece = Bytes::from(vec![1; 1000]);
        let mut tail = Tail::default();
        tail.push(piece.clone(), Some(1000));
        assert_eq!((&tail[..], tail.as_ptr()), (&piece[..], piece.as_ptr()));
        tail.clear();
        assert!(tail.is_empty() && piece.is_unique(), "given back");
        for whole in [None, Some(2000), Some(10)] {
            tail.push(piece.clone(), whole);
            assert!(tail[..] == piece[..] && piece.is_unique(), "copied");
            tail.clear();
        }
    }

    #[test]
    fn readers_share_a_whole_body_that_is_kept_as_it_was_given() {
        let mut tail = Tail::default();
        tail.push("abcdef".into(), Some(6));
        let whole = tail.piece(0, usize::MAX, Some(6));
        assert_eq!((&whole[..], whole.as_ptr()), (&b"abcdef"[..], tail.as_ptr()));
        for (from, most, of) in [(0, 6, None), (0, 6, Some(7)), (0, 5, Some(6)), (2, 3, Some(6)), (2, 4, Some(4))] {
            let part = tail.piece(from, most, of);
            assert!(part[..] == tail[from..][..part.len()] && part.as_ptr() != tail[from..].as_ptr(), "copied");
        }
        tail.push("gh".into(), None);
        assert_eq!((&whole[..], &tail.piece(5, 2, Some(2))[..]), (&b"abcdef"[..], &b"fg"[..]));
        for (from, most) in [(8, 1), (9, usize::MAX), (0, 0)] {
            assert!(tail.piece(from, most, None).is_empty());
        }
        assert_eq!(&tail.piece(7, usize::MAX, None)[..], b"h");
    }

    #[test]
    fn pieces_follow_each_other_whatever_was_kept() {
        let mut tail = Tail::default();
        tail.push("abc".into(), Some(3));
        tail.advance(1);
        tail.push("de".into(), Some(3));
        tail.push("".into(), None);
        tail.push("f".into(), None);
        assert_eq!(&tail[..], b"bcdef");
        tail.advance(2);
        assert_eq!(&tail[..], b"def");
        tail.advance(9);
        assert!(tail.is_empty());
        tail.push("".into(), Some(0));
        assert!(tail.is_empty());
    }
}
