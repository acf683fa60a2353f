//! What the pool of frames is guarded by. The pool's tests put in its place what tries all orders of threads.

pub(super) use std::sync::Arc;

/// A lock without poison.
pub(super) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> parking_lot::MutexGuard<'_, T> {
        self.0.lock()
    }
}
