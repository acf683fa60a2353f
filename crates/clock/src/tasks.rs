//! Timers and tasks on a tokio runtime, for programs whose waits are futures.
//!
//! A timer of the system's clock is tokio's. By any other clock it looks whether it is time as often as that clock says
//! ([`Source::patience`]), so that a clock that a test moves moves tasks as well.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tokio::task::{JoinHandle, unconstrained};

use crate::clock::Clock;
use crate::source::Source;

/// What stands for a time that no clock reaches.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// It took longer than it might.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate;

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it took too long")
    }
}

impl std::error::Error for TooLate {}

impl From<TooLate> for std::io::Error {
    fn from(late: TooLate) -> Self {
        std::io::Error::new(std::io::ErrorKind::TimedOut, late)
    }
}

pin_project! {
    /// A future that is ready when its time has come.
    pub struct Timer {
        source: Option<Arc<dyn Source>>,
        until: Instant,
        #[pin]
        look: tokio::time::Sleep,
    }
}

pin_project! {
    /// A future that ends with [`TooLate`] if the other one takes too long.
    pub struct Timeout<F> {
        #[pin]
        work: F,
        #[pin]
        timer: Timer,
    }
}

impl Clock {
    /// A timer that is ready in `time`, or somewhat later. It needs a tokio runtime, as all in this module does.
    pub fn timer(&self, time: Duration) -> Timer {
        self.timer_until(later(self.now(), time))
    }

    /// The same for a point of time.
    pub fn timer_until(&self, until: Instant) -> Timer {
        let source = self.source.clone().filter(|source| !source.is_steady());
        let look = match &source {
            None => tokio::time::sleep_until(until.into()),
            Some(_) => tokio::time::sleep(Duration::ZERO),
        };
        Timer { source, until, look }
    }

    /// What `work` comes to, if it does within `time`.
    pub fn timeout<F: Future>(&self, time: Duration, work: F) -> Timeout<F> {
        Timeout { work, timer: self.timer(time) }
    }

    /// Start a task on the runtime of the caller.
    pub fn start<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tokio::spawn(task)
    }

    /// Run what blocks on a thread of the runtime's for such work; in a task of its own where the clock says so ([`Source::blocks_at_once`]).
    pub fn block<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        if self.source().blocks_at_once() {
            return tokio::spawn(async move { work() });
        }
        tokio::task::spawn_blocking(work)
    }
}

fn later(now: Instant, time: Duration) -> Instant {
    now.checked_add(time.min(FAR)).unwrap_or(now)
}

impl Timer {
    /// Make it ready at another time.
    pub fn reset(self: Pin<&mut Self>, until: Instant) {
        let this = self.project();
        *this.until = until;
        match this.source {
            None => this.look.reset(until.into()),
            Some(_) => this.look.reset(tokio::time::Instant::now()),
        }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            ready!(this.look.as_mut().poll(cx));
            match this.source {
                Some(source) if source.now() < *this.until => {
                    this.look.as_mut().reset(tokio::time::Instant::now() + source.patience(*this.until));
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, TooLate>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(done) = this.work.poll(cx) {
            return Poll::Ready(Ok(done));
        }
        // Work that always finds something to do uses up what a task may do in one turn; the timer is to be heard all the same.
        pin!(unconstrained(this.timer)).poll(cx).map(|()| Err(TooLate))
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a timer until {:?}", self.until)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::manual::ManualClock;
    use crate::source::System;

    #[tokio::test(start_paused = true)]
    async fn the_systems_timers_are_the_runtimes() {
        let (clock, began) = (Clock::system(), tokio::time::Instant::now());
        clock.timer(Duration::from_secs(60)).await;
        assert!(began.elapsed() >= Duration::from_secs(59), "{:?}", began.elapsed());
        assert_eq!(clock.timeout(Duration::from_secs(1), pending::<()>()).await, Err(TooLate));
        assert_eq!(clock.timeout(Duration::MAX, ready(5)).await, Ok(5));
        assert_eq!(clock.start(async { 6 }).await.unwrap(), 6);
        assert_eq!(clock.block(|| 7).await.unwrap(), 7);
    }

    /// Where a simulation says so, what blocks runs on its one thread, also by a clock over its own.
    #[tokio::test]
    async fn what_blocks_is_a_task_where_the_clock_says_so() {
        struct Alone;
        impl Source for Alone {
            fn beneath(&self) -> Option<&dyn Source> {
                Some(&System)
            }

            fn blocks_at_once(&self) -> bool {
                true
            }
        }
        struct Over(Clock);
        impl Source for Over {
            fn beneath(&self) -> Option<&dyn Source> {
                Some(self.0.source())
            }
        }
        let here = std::thread::current().id();
        let alone = Clock::of(Arc::new(Alone));
        for clock in [alone.clone(), Clock::of(Arc::new(Over(alone)))] {
            assert_eq!(clock.block(|| std::thread::current().id()).await.unwrap(), here);
            assert!(clock.block(|| panic!("of the work alone")).await.unwrap_err().is_panic());
        }
        assert_ne!(Clock::system().block(|| std::thread::current().id()).await.unwrap(), here);
    }

    /// A client that never stops sending must not keep a timeout from ending what reads it.
    #[tokio::test]
    async fn work_that_never_rests_is_ended() {
        let busy = async {
            loop {
                tokio::task::consume_budget().await;
            }
        };
        assert_eq!(Clock::system().timeout(Duration::from_millis(20), busy).await, Err(TooLate));
    }

    #[tokio::test]
    async fn a_clock_that_is_moved_moves_timers() {
        let hand = ManualClock::new();
        let (clock, hour) = (hand.clock(), Duration::from_secs(3600));
        let task = clock.clone().start(async move { clock.timeout(hour, pending::<()>()).await });
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(!task.is_finished(), "the clock stands still");
        }
        hand.advance(hour);
        assert_eq!(task.await.unwrap(), Err(TooLate));
        let mut timer = std::pin::pin!(hand.clock().timer(hour));
        timer.as_mut().reset(hand.clock().now());
        timer.await;
    }
}
