//! Deadlines: one thread that wakes whoever asked to be woken at a time, to within [`TICK`].

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tinaja_clock::Clock;

/// How late a waiter may be woken.
const TICK: Duration = Duration::from_millis(50);

/// Wakes at deadlines. Memory: 64 bytes for each that waits. Its thread looks every [`TICK`] and is told nothing in
/// between: nearly every deadline is met, and waking a thread for each would cost more than the work it watches.
pub(crate) struct Alarm {
    clock: Clock,
    state: Mutex<AlarmState>,
}

#[derive(Default)]
struct AlarmState {
    next: u64,
    waiting: HashMap<u64, (Instant, Waker)>,
}

impl Alarm {
    /// Start the thread, which calls `each_tick` as well; it ends when the alarm is dropped. Errors: the system has no
    /// more threads.
    pub(crate) fn start(clock: &Clock, each_tick: impl Fn() + Send + 'static) -> io::Result<Arc<Self>> {
        let alarm = Arc::new(Alarm { clock: clock.clone(), state: Mutex::default() });
        let weak = Arc::downgrade(&alarm);
        let of_thread = clock.clone();
        clock.spawn("tinaja-alarm", move || ring(&of_thread, &weak, &each_tick))?;
        Ok(alarm)
    }

    /// A future that is ready at `when`.
    pub(crate) fn at(self: &Arc<Self>, when: Instant) -> At {
        At { alarm: self.clone(), when, number: None }
    }

    /// The outcome of `work`, or `None` if it takes beyond `when`.
    pub(crate) async fn within<T>(self: &Arc<Self>, when: Instant, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut late = pin!(self.at(when));
        std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => late.as_mut().poll(cx).map(|()| None),
        })
        .await
    }
}

/// Ready at a time.
pub(crate) struct At {
    alarm: Arc<Alarm>,
    when: Instant,
    number: Option<u64>,
}

impl Future for At {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.alarm.clock.now() >= self.when {
            return Poll::Ready(());
        }
        let alarm = self.alarm.clone();
        let mut state = alarm.state.lock();
        let number = *self.number.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        state.waiting.insert(number, (self.when, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for At {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.alarm.state.lock().waiting.remove(&number);
        }
    }
}

fn ring(clock: &Clock, alarm: &Weak<Alarm>, each_tick: &dyn Fn()) {
    while let Some(alarm) = alarm.upgrade() {
        let now = clock.now();
        let mut state = alarm.state.lock();
        let mut due: Vec<_> = state.waiting.extract_if(|_, (when, _)| *when <= now).collect();
        drop(state);
        drop(alarm);
        // In the order in which they asked, whatever a map's order is.
        due.sort_unstable_by_key(|(number, _)| *number);
        due.into_iter().for_each(|(_, (_, waker))| waker.wake());
        each_tick();
        clock.sleep(TICK);
    }
}

#[cfg(test)]
mod tests {
    use tinaja_clock::ManualClock;

    use super::*;
    use crate::wait::block_on;

    #[test]
    fn work_in_time_is_done_and_late_work_given_up() {
        let hand = ManualClock::new();
        let clock = hand.clock();
        let alarm = Alarm::start(&clock, || {}).unwrap();
        let hour = clock.now() + Duration::from_secs(3600);
        assert_eq!(block_on(alarm.within(hour, async { 5 })), Some(5));
        let mut late = pin!(alarm.within(hour, std::future::pending::<u8>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(late.as_mut().poll(&mut cx).is_pending());
        hand.advance(Duration::from_secs(3599));
        assert!(late.as_mut().poll(&mut cx).is_pending());
        hand.advance(Duration::from_secs(1));
        assert_eq!(block_on(late), None);
        assert!(alarm.state.lock().waiting.is_empty());
    }
}
