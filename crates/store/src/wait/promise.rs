//! One value from one thread to one future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

struct Cell<T> {
    value: Option<T>,
    dropped: bool,
    waker: Option<Waker>,
}

/// The sending end. Dropped unused, the answer is `None`.
pub struct Promise<T>(Arc<Mutex<Cell<T>>>);

/// The receiving end.
pub struct Answer<T>(Arc<Mutex<Cell<T>>>);

/// A promise and its answer.
pub fn promise<T>() -> (Promise<T>, Answer<T>) {
    let cell = Arc::new(Mutex::new(Cell { value: None, dropped: false, waker: None }));
    (Promise(cell.clone()), Answer(cell))
}

impl<T> Promise<T> {
    /// Give the value and wake whoever waits for it.
    pub fn keep(self, value: T) {
        self.0.lock().value = Some(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let mut cell = self.0.lock();
        cell.dropped = true;
        let waker = cell.waker.take();
        drop(cell);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut cell = self.0.lock();
        if cell.dropped {
            return Poll::Ready(cell.value.take());
        }
        cell.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
