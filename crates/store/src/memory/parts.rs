//! One allocation cut into parts, each under its own lock.

use std::ptr::NonNull;
use std::slice;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use super::AlignedBuf;

/// Parts of equal length, the last perhaps shorter, of one buffer: in huge pages where it is long enough, since what is
/// looked up at random costs a walk through the page tables each time otherwise. Memory: the bytes, and 24 a part.
pub struct Parts {
    parts: Box<[Mutex<Part>]>,
    /// Looked at only through the parts, which point into it.
    buffer: AlignedBuf,
}

/// A piece of the buffer that no other part overlaps.
struct Part {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a part is used only under its lock, and is the only way to its piece of the buffer, as a `&mut [u8]` would be.
unsafe impl Send for Part {}

impl Parts {
    /// `bytes` zeroes in parts of `part_bytes`. Allocates all of it now.
    pub fn zeroed(bytes: usize, part_bytes: usize) -> Self {
        let mut buffer = AlignedBuf::zeroed(bytes);
        let part = |piece: &mut [u8]| Mutex::new(Part { len: piece.len(), start: NonNull::from(piece).cast() });
        let parts = buffer.chunks_mut(part_bytes.max(1)).map(part).collect();
        Parts { parts, buffer }
    }

    /// How many parts there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// One part, locked; `None` if there is no such part.
    pub fn lock(&self, number: usize) -> Option<MappedMutexGuard<'_, [u8]>> {
        let part = self.parts.get(number)?.lock();
        // SAFETY: the piece lies in the buffer, which lives as long as `self`, and all of it is initialised. No other part
        // overlaps it, nobody looks at the buffer itself, and the lock is held as long as the reference lives.
        Some(MutexGuard::map(part, |part| unsafe { slice::from_raw_parts_mut(part.start.as_ptr(), part.len) }))
    }

    /// Bytes allocated: the parts, and their locks and pointers.
    pub fn allocated_bytes(&self) -> usize {
        self.buffer.allocated() + size_of_val(&*self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn parts_are_all_of_the_bytes_and_do_not_overlap() {
        for (bytes, part_bytes, parts) in [(0, 10, 0), (25, 10, 3), (30, 10, 3), (3 << 20, 48 << 10, 64)] {
            let all = Parts::zeroed(bytes, part_bytes);
            assert_eq!((all.len(), all.is_empty()), (parts, parts == 0));
            (0..parts).for_each(|n| all.lock(n).unwrap().fill(n as u8 + 1));
            let read: Vec<u8> = (0..parts).flat_map(|n| all.lock(n).unwrap().to_vec()).collect();
            assert_eq!(read.len(), bytes);
            assert!(read.iter().enumerate().all(|(at, &byte)| byte as usize == at / part_bytes + 1));
            assert!(all.lock(parts).is_none());
            assert_eq!(all.allocated_bytes(), bytes + parts * 24);
        }
    }

    #[test]
    fn threads_take_turns_in_a_part() {
        let all = Parts::zeroed(64, 16);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..4000).for_each(|n| all.lock(n % 4).unwrap().iter_mut().for_each(|byte| *byte ^= 1)));
            }
        });
        assert!((0..4).all(|n| all.lock(n).unwrap().iter().all(|&byte| byte == 0)));
    }
}
