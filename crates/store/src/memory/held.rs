//! Bytes of memory that many share the right to, counted for all of them: what readers hold between two pieces, and
//! what is being written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;

/// How many bytes all of them hold.
#[derive(Clone, Default)]
pub struct Held(Arc<AtomicUsize>);

/// One's share; given back when dropped.
pub struct Share {
    bytes: usize,
    all: Held,
}

impl Held {
    /// A share of nothing yet.
    pub fn share(&self) -> Share {
        Share { bytes: 0, all: self.clone() }
    }

    /// Hold so many bytes, unless all would then hold more than `most`.
    pub fn hold(&self, bytes: usize, most: usize) -> Option<Share> {
        let before = self.0.fetch_add(bytes, Relaxed);
        let share = Share { bytes, all: self.clone() };
        (before + bytes <= most).then_some(share)
    }
}

impl Share {
    /// Hold so many bytes from now on, unless that is more than before and all would then hold more than `most`.
    pub fn resize(&mut self, bytes: usize, most: usize) -> bool {
        if bytes > self.bytes {
            let Some(mut more) = self.all.hold(bytes - self.bytes, most) else { return false };
            more.bytes = 0;
        } else {
            self.all.0.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
        true
    }
}

impl Share {
    /// Hold so many bytes from now on, whatever all hold then: they are there already.
    pub fn set(&mut self, bytes: usize) {
        self.resize(bytes, usize::MAX);
    }

    /// Whether all hold more than `most`.
    pub fn is_beyond(&self, most: usize) -> bool {
        self.all.0.load(Relaxed) > most
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Relaxed);
    }
}

/// Bytes that count as long as anybody has a piece of them: a small piece keeps all that was read with it.
struct Counted {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// `bytes`, which give their share back with the last piece of them and of all others of that share.
pub fn counted(bytes: Bytes, share: &Arc<Share>) -> Bytes {
    Bytes::from_owner(Counted { bytes, _share: share.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_grows_as_far_as_there_is_room_and_shrinks_always() {
        let held = Held::default();
        let (mut one, other) = (held.hold(0, 100).unwrap(), held.hold(50, 100).unwrap());
        assert!(one.resize(50, 100) && !one.resize(51, 100) && one.resize(10, 0));
        assert!(held.hold(41, 100).is_none() && held.hold(40, 100).is_some());
        drop((one, other));
        assert!(held.hold(100, 100).is_some());
    }

    #[test]
    fn shares_are_bounded_and_given_back_with_the_last_piece() {
        let held = Held::default();
        let first = held.hold(60, 100).unwrap();
        assert!(held.hold(41, 100).is_none());
        let second = Arc::new(held.hold(40, 100).unwrap());
        drop(first);
        let all: Vec<_> = (0..3).map(|n| counted(Bytes::from(vec![n; 10]), &second)).collect();
        drop(second);
        let piece = all[1].slice(3..4);
        drop(all);
        assert!(piece[..] == [1] && held.hold(61, 100).is_none(), "a piece keeps all of it");
        drop(piece);
        assert!(held.hold(100, 100).is_some());
    }
}
