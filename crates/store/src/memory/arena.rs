//! Memory that the kernel may take back whenever it is short of it (HashCache, section 4.3).
//!
//! An anonymous mapping. What was written is offered with `MADV_FREE`: the kernel then takes pages without writing them
//! anywhere, and they read as zeroes from then on. Pages that were not offered yet may go to swap where there is any; to
//! read one of those would wait for the disk, so it is asked first which are there (`mincore`). Both can happen between two
//! instructions. So nobody is ever given a reference into the mapping: bytes are copied out, and whoever wants them
//! compares a checksum of the copy.

use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::aligned::{ALIGN, round_down, round_up};

/// Pages that are asked about at once.
const PAGES_AT_ONCE: usize = 64;

/// A mapping. Memory: what was written to it and not taken back, `bytes` at the most.
pub struct Arena {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the arena owns its mapping alone; it is written to through `&mut self` only.
unsafe impl Send for Arena {}

impl Arena {
    /// Room for so many bytes, rounded up to pages, none of which takes memory yet. `None` if the system has no room.
    pub fn of(bytes: usize) -> Option<Self> {
        let bytes = round_up(bytes as u64, ALIGN as u64) as usize;
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at a place of the system's choice touches no memory that is in use.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, kind) }.ok()?;
        // A huge page would be taken, or kept, as a whole.
        // SAFETY: the range was mapped just now, and the call changes no contents.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        NonNull::new(start.cast()).map(|start| Arena { start, bytes })
    }

    /// Bytes of room.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_within(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.bytes)
    }

    /// Copy bytes to a place; nothing happens where they do not fit.
    pub fn write(&mut self, at: usize, from: &[u8]) {
        if self.is_within(at, from.len()) {
            // SAFETY: the range lies in the mapping, which nobody else looks at while it is borrowed for writing.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(at), from.len()) };
        }
    }

    /// A copy of the bytes at a place: those that were written, or zeroes for pages that were taken. `None` if some of it is
    /// known not to be in memory.
    pub fn read(&self, at: usize, len: usize) -> Option<Vec<u8>> {
        if !self.is_within(at, len) || !self.is_resident(at, len) {
            return None;
        }
        let mut copy: Vec<u8> = Vec::with_capacity(len);
        // SAFETY: the range lies in the mapping and is initialised: with what was written, or zeroes. There is room for
        // `len` bytes in the copy. The kernel may turn pages into zeroes meanwhile, which is why no reference is made.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(at), copy.as_mut_ptr(), len);
            copy.set_len(len);
        }
        Some(copy)
    }

    /// Whether every page of a range within the mapping is in memory, as far as the kernel says.
    fn is_resident(&self, at: usize, len: usize) -> bool {
        let (mut from, end) = (round_down(at as u64, ALIGN as u64) as usize, at + len);
        let mut pages = [0_u8; PAGES_AT_ONCE];
        while from < end {
            let count = (end - from).div_ceil(ALIGN).min(PAGES_AT_ONCE);
            // rustix has no mincore.
            // SAFETY: the pages lie in the mapping, whose bytes are a multiple of theirs, and there is a byte for each.
            let said =
                unsafe { libc::mincore(self.start.as_ptr().add(from).cast(), count * ALIGN, pages.as_mut_ptr()) };
            if said != 0 || pages.iter().take(count).any(|page| page & 1 == 0) {
                return false;
            }
            from += count * ALIGN;
        }
        true
    }

    /// Let the kernel take the pages of a range when it is short of memory, until they are written to again.
    pub fn offer(&self, at: usize, len: usize) {
        self.advise(at, len, Advice::LinuxFree);
    }

    fn advise(&self, at: usize, len: usize, advice: Advice) {
        if len == 0 || !self.is_within(at, len) {
            return;
        }
        let from = round_down(at as u64, ALIGN as u64) as usize;
        let end = round_up((at + len) as u64, ALIGN as u64) as usize;
        // SAFETY: the pages lie in the mapping, whose bytes are a multiple of theirs; nobody holds a reference to them, so
        // it is no matter if they turn into zeroes.
        let _ = unsafe { madvise(self.start.as_ptr().add(from).cast(), end - from, advice) };
    }

    /// What the kernel does when it is short of memory, for tests.
    #[cfg(test)]
    pub fn take(&self, at: usize, len: usize) {
        self.advise(at, len, Advice::LinuxDontNeed);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this length, and unmapped only here.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_until_it_is_taken() {
        let mut arena = Arena::of(1_000_000).unwrap();
        assert_eq!(arena.bytes() % ALIGN, 0);
        let bytes: Vec<u8> = (0..500_000).map(|n| (n % 251) as u8).collect();
        arena.write(1234, &bytes);
        arena.offer(1234, bytes.len());
        assert!(arena.read(1234, bytes.len()).is_none_or(|read| read == bytes), "nobody is short of memory");
        arena.write(1234, &bytes);
        assert_eq!(arena.read(1234, bytes.len()), Some(bytes.clone()));
        arena.take(200_000, 1);
        assert_eq!(arena.read(1234, bytes.len()), None, "one page is not there");
        assert_eq!(arena.read(1234, 100_000).unwrap(), bytes[..100_000]);
        // Somebody else's read brought the page back, with nothing in it.
        arena.write(200_704 - 1, &[9]);
        let read = arena.read(1234, bytes.len()).unwrap();
        assert!(read != bytes && read.len() == bytes.len());
    }

    #[test]
    fn nothing_is_read_or_written_outside() {
        assert!(Arena::of(0).is_none());
        let mut arena = Arena::of(10_000).unwrap();
        arena.write(usize::MAX, &[1]);
        arena.write(12_288, &[1]);
        arena.write(12_287, &[7]);
        arena.offer(usize::MAX, 2);
        assert_eq!((arena.read(12_287, 2), arena.read(usize::MAX, 9)), (None, None));
        assert!(arena.read(12_287, 1).is_none_or(|read| read == [7] || read == [0]));
    }
}
