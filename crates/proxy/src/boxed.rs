//! Futures on the heap.

use std::pin::Pin;

/// The future that `make` returns, on the heap. Optimised, it is made where it stays; `Box::pin` would make it on the stack and move all of
/// it: up to 12 KB for a miss. For the futures that carry requests out; elsewhere `Box::pin` will do.
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}
