//! The papers' own figures, to stand beside ours.

pub mod damelo;
pub mod hashcache;
pub mod maltzahn;
pub mod segmented;
