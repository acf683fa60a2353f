//! Memory: how much there is, aligned buffers for the device, buffers of reads used again, one cut into locked parts, copies past the caches,
//! shares of what may be held, the heap, given back after a peak, and memory that the kernel may take back if that is wanted.

pub mod aligned;
pub mod arena;
pub mod heap;
pub mod held;
pub(crate) mod limits;
pub mod machine;
pub mod parts;
pub mod pool;
pub mod room;
pub mod stream;
pub mod yielding;

pub use aligned::AlignedBuf;
pub use parts::Parts;
pub use pool::Pool;
