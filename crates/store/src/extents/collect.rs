//! A whole body, put together from the pieces that a reader is given.

use bytes::Bytes;

use crate::memory::held::Share;

/// Takes a whole body, once.
pub(crate) type WhenRead = Box<dyn FnOnce(Vec<u8>) + Send + Sync>;

/// What has been read of a body. Memory: the body, from its first piece on, within the share.
pub(crate) struct Collected {
    body: Vec<u8>,
    bytes: usize,
    told: WhenRead,
    _share: Share,
}

impl Collected {
    /// Nothing yet of a body of so many bytes, which `told` is to have.
    pub(crate) fn new(bytes: usize, share: Share, told: WhenRead) -> Self {
        Collected { body: Vec::new(), bytes, told, _share: share }
    }

    /// Whether a reader who wants so many bytes from there on will have read all of it.
    pub(crate) fn goes_on(&self, from: u64, bytes: usize) -> bool {
        from == self.body.len() as u64 && self.body.len().saturating_add(bytes) == self.bytes
    }

    /// With a piece that lies there. `None` when it is whole, which is told, and where the piece does not come next.
    pub(crate) fn with(mut self, at: u64, piece: &Bytes) -> Option<Self> {
        if at != self.body.len() as u64 {
            return None;
        }
        // No more than the body, so that nothing is left over when it is kept.
        self.body.reserve_exact(self.bytes.saturating_sub(self.body.len()));
        self.body.extend_from_slice(piece);
        if self.body.len() < self.bytes {
            return Some(self);
        }
        (self.told)(self.body);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::memory::held::Held;

    fn collected(told: &Arc<AtomicUsize>) -> Collected {
        let told = told.clone();
        let when = move |whole: Vec<u8>| {
            assert!(whole == b"abcdef" && whole.capacity() == 6);
            told.fetch_add(1, Relaxed);
        };
        Collected::new(6, Held::default().share(), Box::new(when))
    }

    #[test]
    fn pieces_in_order_are_a_body_and_others_are_not() {
        let told = Arc::default();
        let with = |pieces: &[(u64, &'static str)]| {
            let one = |collected: Option<Collected>, (at, piece): &(u64, &'static str)| {
                collected?.with(*at, &Bytes::from_static(piece.as_bytes()))
            };
            let left = pieces.iter().fold(Some(collected(&told)), one);
            (left.is_some(), told.swap(0, Relaxed))
        };
        assert_eq!(with(&[(0, "abc"), (3, "d"), (4, "ef")]), (false, 1));
        assert_eq!(with(&[(0, "abcdef")]), (false, 1));
        assert_eq!(with(&[(0, "abc"), (3, "de")]), (true, 0));
        assert_eq!(with(&[(3, "def")]), (false, 0));
        assert_eq!(with(&[(0, "abc"), (4, "ef"), (3, "def")]), (false, 0));
    }

    #[test]
    fn who_wants_a_part_alone_will_not_have_read_all() {
        let begun = collected(&Arc::default()).with(0, &Bytes::from_static(b"ab")).unwrap();
        assert!(begun.goes_on(2, 4));
        assert!(!begun.goes_on(0, 6) && !begun.goes_on(2, 3) && !begun.goes_on(3, 3));
    }
}
