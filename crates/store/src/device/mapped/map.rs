//! A file mapped into memory, and copies out of it that a cut file cannot hurt.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A file mapped to be read, for as long as this lives. Memory: page tables, 1/512 of what was read of it.
pub(super) struct Mapping {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: the address is only ever given to the kernel, which checks it and copies; that may be done on any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first bytes of a file, as many as it may come to have. Errors: the system's, as of too little address space.
    pub fn new(file: &File, bytes: usize) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start).ok_or(ErrorKind::OutOfMemory)?;
        let mapping = Mapping { start, bytes };
        // SAFETY: the range is the mapping just made, and this advice changes no byte of it.
        unsafe { rustix::mm::madvise(start.as_ptr(), bytes, Advice::Random) }?;
        Ok(mapping)
    }

    /// Fill `into` from an offset on. Errors: `UnexpectedEof` where the file ends before, or was cut.
    pub fn read(&self, at: usize, into: &mut [u8]) -> io::Result<()> {
        if at.checked_add(into.len()).is_none_or(|end| end > self.bytes) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: self.start.as_ptr().wrapping_byte_add(at), iov_len: into.len() };
        // SAFETY: `local` is a slice that we have alone. `remote` lies in our own mapping, and the kernel reads it as it would
        // another process's memory: a page that cannot be read makes an error, no signal.
        let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(copied) {
            Ok(copied) if copied == into.len() => Ok(()),
            // The pages before the end of the file.
            Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EFAULT) => ErrorKind::UnexpectedEof.into(),
                error => error,
            }),
        }
    }
}

impl Mapping {
    /// Whether each page of a range is in memory; empty if the kernel does not say. The range begins with a page.
    pub fn resident(&self, at: usize, bytes: usize) -> Vec<bool> {
        let bytes = bytes.min(self.bytes.saturating_sub(at));
        let mut pages = vec![0_u8; bytes.div_ceil(rustix::param::page_size())];
        if bytes == 0 {
            return Vec::new();
        }
        // SAFETY: the range lies in our mapping, and the kernel writes a byte a page of it into `pages`, which has so many.
        let told = unsafe { libc::mincore(self.start.as_ptr().wrapping_byte_add(at), bytes, pages.as_mut_ptr()) };
        if told == 0 { pages.into_iter().map(|page| page & 1 == 1).collect() } else { Vec::new() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, and nobody has an address in it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
    }
}
