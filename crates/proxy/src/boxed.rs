//! Futures on the heap.

use std::pin::Pin;

/// The future that `make` returns, on the heap. It is made where it stays.
///
/// `Box::pin` has it made on the stack and moves all of it, though before its first step nothing is there but its arguments. What a miss needs takes 12 KB.
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}
