//! Memory as words.

use std::sync::atomic::AtomicU64;

/// Memory that this process changes by whole words, and that others may read at any time.
pub trait Arena: Send + Sync {
    /// All of it. The same words each time.
    fn words(&self) -> &[AtomicU64];
}

impl Arena for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

impl Arena for Vec<AtomicU64> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

impl<A: Arena + ?Sized> Arena for std::sync::Arc<A> {
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }
}
