//! How many of something there are, and whether any is left.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// At most so many at once.
pub(super) struct Count {
    now: Arc<AtomicUsize>,
    most: usize,
}

/// One of them; given back when dropped.
pub(super) struct One(Arc<AtomicUsize>);

impl Count {
    pub(super) fn new(most: usize) -> Self {
        Count { now: Arc::default(), most }
    }

    /// One more, unless there are as many as there may be.
    pub(super) fn take(&self) -> Option<One> {
        let before = self.now.fetch_add(1, SeqCst);
        let one = One(self.now.clone());
        (before < self.most).then_some(one)
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// What was begun and has not ended, in the order in which it began.
#[derive(Clone, Default)]
pub(super) struct Ongoing(Arc<Mutex<OngoingState>>);

#[derive(Default)]
struct OngoingState {
    next: u64,
    under_way: BTreeSet<u64>,
    waiting: Vec<Waker>,
}

/// Something under way; it has ended when this is dropped.
pub(super) struct Begun {
    all: Ongoing,
    number: u64,
}

impl Ongoing {
    /// Something begins.
    pub(super) fn begin(&self) -> Begun {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        state.under_way.insert(number);
        Begun { all: self.clone(), number }
    }

    /// Wait until all that has begun so far has ended.
    pub(super) async fn wait(&self) {
        let end = self.0.lock().next;
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.under_way.first().is_none_or(|oldest| *oldest >= end) {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut state = self.all.0.lock();
        state.under_way.remove(&self.number);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tinaja_store::block_on;

    #[test]
    fn what_begins_later_is_not_waited_for() {
        let all = Ongoing::default();
        let (first, mut waiting) = (all.begin(), Box::pin(all.wait()));
        let mut poll = || waiting.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        let _later = all.begin();
        drop(first);
        assert!(poll().is_ready());
        let count = Count::new(1);
        let one = count.take();
        assert!(one.is_some() && count.take().is_none());
        drop(one);
        assert!(count.take().is_some());
        block_on(Ongoing::default().wait());
    }
}
