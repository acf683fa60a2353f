//! Buffers that direct I/O accepts.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// What every buffer and every request is aligned to, in bytes. No disk in service has larger logical blocks.
pub const ALIGN: usize = 4096;

/// Buffers of this many bytes or more ask for huge pages: the kernel pins one page of a large write then and not 512,
/// and a copy into it looks up one.
const HUGE_PAGE: usize = 2 << 20;

/// The next multiple of `to`, a power of two.
pub fn round_up(value: u64, to: u64) -> u64 {
    value.saturating_add(to - 1) & !(to - 1)
}

/// The multiple of `to`, a power of two, at or before `value`.
pub fn round_down(value: u64, to: u64) -> u64 {
    value & !(to - 1)
}

/// A byte buffer aligned to 4096 bytes, `ALIGN`. Memory: its length when it was made.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    /// Bytes allocated, all of them initialised.
    allocated: usize,
    /// Whether they are pages of its own.
    mapped: bool,
}

// SAFETY: the buffer owns its allocation alone, as a Box<[u8]> would; shared access is read-only through `&self`.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// A buffer of `len` zero bytes. Aborts like any allocation when there is no memory.
    pub fn zeroed(len: usize) -> Self {
        let Some(layout) = layout(len) else {
            return AlignedBuf { start: NonNull::dangling(), len: 0, allocated: 0, mapped: false };
        };
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        if len >= HUGE_PAGE {
            // Before it is touched. The kernel may decline: then its pages are small.
            // SAFETY: the range was allocated just now, and the call changes no contents.
            let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
        }
        // SAFETY: `len` bytes were allocated here.
        unsafe { start.write_bytes(0, len) };
        AlignedBuf { start, len, allocated: len, mapped: false }
    }

    /// A buffer of `len` zero bytes in pages of its own, which go back to the system when it is dropped. The C
    /// library's heap cannot put an aligned buffer where one of the same size was, and would grow with every long one that comes and goes.
    pub fn with_own_pages(len: usize) -> Self {
        match (layout(len), pages(len)) {
            (None, _) => Self::zeroed(len),
            (Some(_), Some(start)) => AlignedBuf { start, len, allocated: len, mapped: true },
            (Some(layout), None) => handle_alloc_error(layout),
        }
    }

    /// Bytes allocated: the longest it can be.
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Make it so long, or as long as it can be. What it held stays.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.allocated);
    }
}

/// Pages of zeroes of their own; `None` for nothing, and if the system has none.
fn pages(len: usize) -> Option<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place of the system's choice touches no memory that is in use.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) }.ok()?;
    NonNull::new(start.cast())
}

/// `None` for nothing, and for what no address space holds.
fn layout(len: usize) -> Option<Layout> {
    let align = if len >= HUGE_PAGE { HUGE_PAGE } else { ALIGN };
    if len == 0 { None } else { Layout::from_size_align(len, align).ok() }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: mapped in `with_own_pages` with this length, and unmapped only here.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.allocated) };
            return;
        }
        if let Some(layout) = layout(self.allocated) {
            // SAFETY: allocated in `zeroed` with this layout, and freed only here.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: at least `len` initialised bytes start here and live as long as `self`; a dangling start goes with len 0.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_writable() {
        for make in [AlignedBuf::zeroed, AlignedBuf::with_own_pages] {
            for len in [0, 1, 4096, 100_001, 1 << 20, HUGE_PAGE] {
                let mut buffer = make(len);
                assert_eq!((buffer.len(), buffer.allocated()), (len, len));
                assert!(buffer.iter().all(|&byte| byte == 0));
                assert!(len == 0 || (buffer.as_ptr() as usize).is_multiple_of(ALIGN));
                buffer.fill(7);
                assert!(bytes::Bytes::from_owner(buffer).iter().all(|&byte| byte == 7));
            }
        }
    }

    #[test]
    fn rounding_goes_to_the_neighbour() {
        assert_eq!((round_up(1, 512), round_up(512, 512), round_down(1023, 512)), (512, 512, 512));
    }
}
