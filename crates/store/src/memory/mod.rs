//! Memory: aligned buffers for the device, buffers of reads used again, one cut into locked parts, copies past the caches, and the hot objects.

pub mod aligned;
pub mod hot;
pub mod parts;
pub mod pool;
pub mod stream;

pub use aligned::AlignedBuf;
pub use hot::HotObjects;
pub use parts::Parts;
pub use pool::Pool;
