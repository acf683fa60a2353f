//! Memory: aligned buffers for the device, and the hot objects.

pub mod aligned;
pub mod hot;

pub use aligned::AlignedBuf;
pub use hot::HotObjects;
