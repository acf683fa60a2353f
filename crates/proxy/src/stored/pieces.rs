//! Which pieces of an object's body are stored (RFC 9111 3.3 and 3.4).

use std::ops::RangeInclusive;

use bytes::Buf;
use http::header::CONTENT_LENGTH;
use tinaja_http::limits::MAX_PIECES;
use tinaja_http::partial::Pieces;

use super::head::{Kind, StoredHead};

/// One piece: an object of its own, or the list's own body, which is the object's beginning. No other piece of any object
/// has its `id`, so what was stored for one list is never taken for part of another; a list's own has the list's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub first: u64,
    pub last: u64,
    pub id: [u8; 16],
}

/// Bytes of one piece in a list.
const PIECE_BYTES: usize = 32;
/// Bytes of what a piece's own head says of it.
const MARK_BYTES: usize = 24;

impl Piece {
    /// What its own head says of it, and what it is found by. Where it ends is not known when it begins.
    pub fn mark(&self) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        let (first, id) = mark.split_at_mut(8);
        first.copy_from_slice(&self.first.to_le_bytes());
        id.copy_from_slice(&self.id);
        mark
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<Piece> {
        if bytes.len() != PIECE_BYTES {
            return None;
        }
        let (first, last, id) = (bytes.get_u64_le(), bytes.get_u64_le(), bytes.get_u128_le().to_le_bytes());
        (first <= last).then_some(Piece { first, last, id })
    }

    /// Whether this is the head of the object that holds it.
    pub fn is_of(&self, head: &StoredHead) -> bool {
        head.kind == Kind::Piece && head.pieces()[..] == self.mark()
    }

    /// Whether all of another piece is in this one.
    fn contains(&self, other: &Piece) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

/// The pieces that are stored of one object, the oldest first; at most [`MAX_PIECES`]. They may overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PieceList {
    /// No other list has it: what began to be stored for one that was purged is not added to the next.
    pub id: [u8; 16],
    pieces: Vec<Piece>,
}

impl PieceList {
    /// The list in a head, and the length of the whole object; `None` if it has none.
    pub fn of(head: &StoredHead) -> Option<(PieceList, u64)> {
        if head.kind != Kind::Pieces {
            return None;
        }
        let length = head.fields(|line| line.is(&CONTENT_LENGTH))?;
        let length = length.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()?;
        let (id, pieces) = head.pieces().split_first_chunk()?;
        let pieces: Vec<Piece> = pieces.chunks(PIECE_BYTES).map(Piece::from_bytes).collect::<Option<_>>()?;
        let fits = pieces.len() <= MAX_PIECES && pieces.iter().all(|piece| piece.last < length);
        fits.then_some((PieceList { id: *id, pieces }, length))
    }

    /// A list of nothing.
    pub fn new(id: [u8; 16]) -> PieceList {
        PieceList { id, pieces: Vec::new() }
    }

    /// The list as a head holds it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.id.to_vec();
        for piece in &self.pieces {
            bytes.extend_from_slice(&piece.first.to_le_bytes());
            bytes.extend_from_slice(&piece.last.to_le_bytes());
            bytes.extend_from_slice(&piece.id);
        }
        bytes
    }

    /// Adds a piece. Those that it makes useless, or for which there is no room any more, are given back.
    pub fn add(&mut self, piece: Piece) -> Vec<Piece> {
        let (mut gone, mut kept): (Vec<_>, Vec<_>) = self.pieces.iter().partition(|old| piece.contains(old));
        if kept.len() == MAX_PIECES {
            gone.push(kept.remove(0));
        }
        kept.push(piece);
        self.pieces = kept;
        gone
    }

    /// Adds the object's beginning, of so many bytes, which is to be the list's own body. Those that it makes useless, or
    /// for which there is no room any more, are given back.
    pub fn begin(&mut self, bytes: u64) -> Vec<Piece> {
        let Some(last) = bytes.checked_sub(1) else { return Vec::new() };
        self.add(Piece { first: 0, last, id: self.id })
    }

    /// How many bytes of the object its own body has.
    pub fn begins_with(&self) -> u64 {
        self.pieces.iter().find(|piece| self.is_beginning(piece)).map_or(0, |piece| piece.last + 1)
    }

    /// Whether a piece is its own body.
    pub fn is_beginning(&self, piece: &Piece) -> bool {
        piece.id == self.id
    }

    /// The piece that holds a byte; the one that goes on for longest.
    pub fn at(&self, byte: u64) -> Option<&Piece> {
        self.pieces.iter().filter(|piece| piece.first <= byte && byte <= piece.last).max_by_key(|piece| piece.last)
    }

    /// The bytes of a range from the first to the last one that is not there; `None` where all are.
    pub fn gap(&self, wanted: &RangeInclusive<u64>) -> Option<RangeInclusive<u64>> {
        let mut pieces = Pieces::default();
        for piece in &self.pieces {
            // There is room for all: the list is no longer.
            let _ = pieces.add(piece.first..=piece.last);
        }
        let missing = pieces.missing(wanted);
        Some(*missing.first()?.start()..=*missing.last()?.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(first: u64, last: u64) -> Piece {
        Piece { first, last, id: [first as u8; 16] }
    }

    fn list(pieces: &[(u64, u64)]) -> PieceList {
        let mut list = PieceList::new([1; 16]);
        for (first, last) in pieces {
            list.add(piece(*first, *last));
        }
        list
    }

    #[test]
    fn what_is_missing() {
        let some = list(&[(10, 19), (30, 39), (15, 24)]);
        for (wanted, gap) in [
            (10..=19, None),
            (10..=24, None),
            (10..=25, Some(25..=25)),
            (0..=12, Some(0..=9)),
            (12..=32, Some(25..=29)),
            (0..=50, Some(0..=50)),
            (5..=35, Some(5..=29)),
            (50..=60, Some(50..=60)),
        ] {
            assert_eq!(some.gap(&wanted), gap, "{wanted:?}");
        }
        assert_eq!((some.at(16), some.at(12), some.at(25)), (Some(&piece(15, 24)), Some(&piece(10, 19)), None));
    }

    #[test]
    fn useless_and_too_many() {
        let mut some = list(&[(10, 19), (30, 39)]);
        assert_eq!(some.add(piece(10, 19)), [piece(10, 19)]);
        assert_eq!(some.add(piece(0, 35)), [piece(10, 19)]);
        assert_eq!(some, list(&[(30, 39), (0, 35)]));
        let mut many = list(&(0..MAX_PIECES as u64).map(|n| (n * 2, n * 2)).collect::<Vec<_>>());
        assert_eq!(many.add(piece(5000, 5000)), [piece(0, 0)]);
        assert_eq!(many.pieces.len(), MAX_PIECES);
    }

    #[test]
    fn a_beginning() {
        let mut some = list(&[(10, 19), (30, 39)]);
        assert_eq!((some.begins_with(), some.begin(0)), (0, vec![]));
        assert_eq!(some.begin(25), [piece(10, 19)]);
        assert_eq!((some.begins_with(), some.gap(&(0..=39))), (25, Some(25..=29)));
        // A longer one takes its place, and others stay.
        let shorter = *some.at(0).unwrap();
        assert!(some.is_beginning(&shorter) && !some.is_beginning(some.at(30).unwrap()));
        assert_eq!(some.begin(30), [shorter]);
        assert_eq!((some.begins_with(), some.gap(&(0..=39)), some.bytes().len()), (30, None, 16 + 2 * PIECE_BYTES));
        // What holds all of it makes it useless.
        assert_eq!(some.add(piece(0, 50)).len(), 2);
        assert_eq!(some.begins_with(), 0);
    }

    #[test]
    fn there_and_back() {
        let one = piece(7, u64::MAX);
        let bytes = list(&[(7, u64::MAX)]).bytes();
        assert_eq!(bytes.len(), 16 + PIECE_BYTES);
        assert_eq!(Piece::from_bytes(&bytes[16..]), Some(one));
        assert_eq!(Piece::from_bytes(&bytes[17..]), None);
        let (other, id) = (Piece { first: 8, ..one }, Piece { id: [8; 16], ..one });
        assert!(one.mark() != other.mark() && one.mark() != id.mark());
        assert_eq!(Piece::from_bytes(&list(&[(2, 1)]).bytes()[16..]), None);
    }
}
