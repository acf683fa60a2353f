//! Waiting without a runtime: answers from other threads, turns, deadlines, and futures on a plain thread.

mod alarm;
mod promise;
mod turns;

pub(crate) use alarm::{Alarm, At};
pub use promise::{Answer, Promise, promise};
pub use turns::{Entering, Turn, Turns};

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tinaja_clock::Clock;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Run a future of the store's to its end on this thread. For tools, tests and threads without a runtime; inside
/// an async runtime `await` it instead.
pub fn block_on<F: Future>(future: F) -> F::Output {
    block_on_by(&Clock::system(), future)
}

/// The same on a thread of a clock's.
pub(crate) fn block_on_by<F: Future>(clock: &Clock, future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => clock.park(),
        }
    }
}
