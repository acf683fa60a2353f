//! Memory: aligned buffers for the device, buffers of reads used again, copies past the caches, and the hot objects.

pub mod aligned;
pub mod hot;
pub mod pool;
pub mod stream;

pub use aligned::AlignedBuf;
pub use hot::HotObjects;
pub use pool::Pool;
