//! Memory: aligned buffers for the device, and the hot objects.

pub mod aligned;
pub mod hot;
pub mod stream;

pub use aligned::AlignedBuf;
pub use hot::HotObjects;
