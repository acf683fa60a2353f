//! Objects in memory that the kernel may take back: heads and bodies in an [`Arena`], each with a checksum.
//!
//! This is off unless it is asked for. A hit costs a copy, a checksum and a system call more: 5 to 10 us for a small object,
//! instead of 0.5. And a machine of its own gives Tinaja its whole budget anyway.

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::arena::Arena;
use super::room::Room;

/// Bytes that were written and not offered to the kernel yet, and pieces of them. Offering takes a system call for each
/// piece, and interrupts other threads, so some are offered together.
const MAX_UNOFFERED_BYTES: usize = 256 << 10;
const MAX_UNOFFERED: usize = 64;

/// Room for objects. Memory: what was written and not taken back, up to its bytes, and 100 for each object.
pub struct Yielding {
    arena: Arena,
    room: Room,
    unoffered: Vec<(usize, usize)>,
    unoffered_bytes: usize,
}

/// An object in it.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    at: usize,
    head_bytes: usize,
    body_bytes: usize,
    sum: u64,
}

impl Lent {
    /// Bytes of head and body.
    pub fn bytes(&self) -> usize {
        self.head_bytes + self.body_bytes
    }
}

fn sum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut sum = Xxh3::new();
    parts.into_iter().for_each(|part| sum.update(part));
    sum.digest()
}

impl Yielding {
    /// Room for so many bytes; `None` if the system has none.
    pub fn of(bytes: usize) -> Option<Self> {
        let arena = Arena::of(bytes)?;
        let room = Room::of(arena.bytes());
        Some(Yielding { arena, room, unoffered: Vec::new(), unoffered_bytes: 0 })
    }

    /// Copy an object in; `None` if there is no room for it.
    pub fn put(&mut self, head: &[u8], body: &[u8]) -> Option<Lent> {
        let at = self.room.take(head.len() + body.len())?;
        self.arena.write(at, head);
        self.arena.write(at + head.len(), body);
        let lent = Lent { at, head_bytes: head.len(), body_bytes: body.len(), sum: sum([head, body]) };
        self.unoffered.push((at, lent.bytes()));
        self.unoffered_bytes += lent.bytes();
        if self.unoffered_bytes >= MAX_UNOFFERED_BYTES || self.unoffered.len() >= MAX_UNOFFERED {
            self.offer();
        }
        Some(lent)
    }

    fn offer(&mut self) {
        self.unoffered.sort_unstable();
        let mut pieces = self.unoffered.drain(..);
        let mut open = pieces.next().unwrap_or((0, 0));
        for (at, len) in pieces {
            // Objects lie on multiples of a few bytes: such a gap is none to pages.
            if at <= open.0 + open.1 + super::aligned::ALIGN {
                open.1 = (at + len).max(open.0 + open.1) - open.0;
            } else {
                self.arena.offer(open.0, open.1);
                open = (at, len);
            }
        }
        self.arena.offer(open.0, open.1);
        self.unoffered_bytes = 0;
    }

    /// A copy of an object's head and body; `None` if any of it was taken.
    pub fn get(&self, lent: &Lent) -> Option<(Bytes, Bytes)> {
        let copy = Bytes::from(self.arena.read(lent.at, lent.bytes())?);
        let (head, body) = (copy.slice(..lent.head_bytes), copy.slice(lent.head_bytes..));
        (sum([&copy[..]]) == lent.sum).then_some((head, body))
    }

    /// Let go of an object.
    pub fn free(&mut self, lent: &Lent) {
        self.room.give(lent.at, lent.bytes());
    }

    /// What the kernel does when it is short of memory, for tests: a page of this object is gone.
    #[cfg(test)]
    pub fn take(&self, lent: &Lent) {
        self.arena.take(lent.at, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back_whole_or_not_at_all() {
        let mut objects = Yielding::of(1 << 20).unwrap();
        let body = |n: usize| vec![n as u8 + 1; 3000 + n];
        let lent: Vec<_> = (0..200).map(|n| objects.put(b"head", &body(n)).unwrap()).collect();
        let is_whole = |objects: &Yielding, n: usize| {
            let both = objects.get(&lent[n])?;
            assert!(both.0[..] == *b"head" && both.1[..] == body(n)[..]);
            Some(())
        };
        // Unless the machine is short of memory now.
        assert!((0..200).filter(|n| is_whole(&objects, *n).is_some()).count() > 0);
        objects.take(&lent[100]);
        assert!(is_whole(&objects, 100).is_none());
        // Its page comes back with another object, and the neighbour on it is not what it was.
        lent[98..103].iter().for_each(|lent| objects.free(lent));
        assert!(objects.put(b"", &[7; 14_000]).is_some());
        let left = (0..200).filter(|n| !(98..103).contains(n) && is_whole(&objects, *n).is_some()).count();
        assert!(left <= 195);
    }

    #[test]
    fn room_that_was_given_back_is_used_again() {
        let mut objects = Yielding::of(100_000).unwrap();
        for n in 0..1000_usize {
            let lent = objects.put(&[], &vec![1; 90_000]).unwrap();
            assert!(objects.put(&[], &vec![1; 90_000]).is_none(), "{n}");
            assert!(objects.get(&lent).is_none_or(|(_, body)| body.len() == 90_000));
            objects.free(&lent);
        }
    }
}
