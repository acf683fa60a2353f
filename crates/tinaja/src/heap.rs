//! The heap of the program: who allocates, and that what was freed goes back to the system.

/// A request allocates some dozens of times, and nine of these, tasks and pieces, are too long for what malloc of the C library does fast: a miss takes
/// less of the processor with this one (docs/bench/hit-cost.md). Not on other processors: it has the size of a page built in, in which their kernels
/// differ.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// From now on a thread gives back what was freed ten to twenty seconds ago. Without it that would wait until somebody allocates.
///
/// It begins threads: whatever has to be done before there are any has been done.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!(%error, "what was freed may go back to the system late: the heap has no thread for that");
    }
}
