//! The heap, given back after a peak.

/// Gives memory back to the kernel that was freed and that the C library keeps. It gives back the end of a heap by itself, and most of what
/// was freed lies before something that is in use: of what ten thousand connections took, nothing came back. Takes some milliseconds
/// for each 100 MiB of heap, in which other threads wait for memory.
///
/// Does nothing where the C library is not glibc, nor for what another allocator has.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it may be called at any time, from any thread, and touches nothing that is in use.
        unsafe { libc::malloc_trim(0) };
    }
}
