//! The papers' own figures, to stand beside ours.

pub mod hashcache;
