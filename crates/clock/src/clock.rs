//! The value that is handed about.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::source::{Source, System};
use crate::steps::Steps;

/// What stands for no limit.
const FAR: Duration = Duration::from_secs(3600);

/// Time and threads. Three words; a clone is the same clock.
#[derive(Clone, Default)]
pub struct Clock {
    /// `None` is the system's, which then costs no indirect call.
    pub(crate) source: Option<Arc<dyn Source>>,
    /// Where it is noted when the time of day is set, if it is.
    steps: Option<Arc<Steps>>,
}

impl Clock {
    /// The system's.
    pub const fn system() -> Self {
        Clock { source: None, steps: None }
    }

    /// One that takes everything from `source`.
    pub fn of(source: Arc<dyn Source>) -> Self {
        Clock { source: Some(source), steps: None }
    }

    /// What it takes everything from.
    pub fn source(&self) -> &dyn Source {
        self.source.as_deref().unwrap_or(&System)
    }

    /// The monotonic time. It never goes back.
    pub fn now(&self) -> Instant {
        match &self.source {
            None => System.now(),
            Some(source) => source.now(),
        }
    }

    /// The time that has passed since `earlier`; zero if that lies ahead.
    pub fn since(&self, earlier: Instant) -> Duration {
        self.now().saturating_duration_since(earlier)
    }

    /// The time of day, which may go back.
    pub fn wall(&self) -> SystemTime {
        self.source().wall()
    }

    /// This clock, by which it is noted from now on when its time of day is set ([`Clock::note`]). `before`: no time of day that others have
    /// written down is later, if that is known.
    #[must_use]
    pub fn noting(self, before: Option<SystemTime>) -> Clock {
        let steps = Arc::new(Steps::new(self.now(), self.wall(), before));
        Clock { steps: Some(steps), ..self }
    }

    /// Notes whether the time of day was set. For whoever is about to write it down, and will want to know how long ago that was. Two readings of the
    /// clock; nothing for one that notes nothing.
    pub fn note(&self) {
        if let Some(steps) = &self.steps {
            steps.note(self.source());
        }
    }

    /// By how much longer ago this time of day was than the present one says, since that was put back meanwhile: at the most, where it
    /// has come twice. Zero for a clock that notes nothing. Two readings of the clock.
    pub fn put_back_since(&self, then: SystemTime) -> Duration {
        self.steps.as_ref().map_or(Duration::ZERO, |steps| steps.put_back_since(then, self.source()))
    }

    /// By how much the time of day was put back in all, since this is noted.
    pub fn put_back(&self) -> Duration {
        self.steps.as_ref().map_or(Duration::ZERO, |steps| steps.put_back(self.source()))
    }

    /// The same, as far as it was noted: nothing is read anew.
    pub fn put_back_so_far(&self) -> Duration {
        self.steps.as_ref().map_or(Duration::ZERO, |steps| steps.put_back_so_far())
    }

    /// Return after `time`, or somewhat later.
    pub fn sleep(&self, time: Duration) {
        self.source().sleep(time);
    }

    /// Wait on a condition for `time` at the most. It may return early, for no reason.
    pub fn wait_for<T>(&self, changed: &Condvar, guard: &mut MutexGuard<'_, T>, time: Duration) {
        self.wait_until(changed, guard, self.now() + time);
    }

    /// Wait on a condition until `until` at the most. It may return early, for no reason.
    pub fn wait_until<T>(&self, changed: &Condvar, guard: &mut MutexGuard<'_, T>, until: Instant) {
        while self.now() < until {
            if let Some(source) = self.turns() {
                return MutexGuard::unlocked(guard, || source.give_way(until));
            }
            if !changed.wait_for(guard, self.patience(until)).timed_out() {
                return;
            }
        }
    }

    /// For how long, by the system's clock, a thread that waits by other means than these may do so before it looks again whether
    /// it is `until`.
    pub fn patience(&self, until: Instant) -> Duration {
        self.source().patience(until)
    }

    /// Wait for what another thread sends, as [`Receiver::recv`] does. Errors: nobody can send any more.
    pub fn receive<T>(&self, told: &Receiver<T>) -> Result<T, RecvError> {
        let Some(source) = self.turns() else { return told.recv() };
        loop {
            match told.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => source.give_way(source.now() + FAR),
            }
        }
    }

    /// Wait to be unparked, as [`thread::park`] does. It may return early, for no reason.
    pub fn park(&self) {
        match self.turns() {
            None => thread::park(),
            Some(source) => source.give_way(source.now() + FAR),
        }
    }

    /// Lock what another thread may hold while it waits for something, as [`Mutex::lock`] does.
    pub fn lock<'a, T: ?Sized>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        let Some(source) = self.turns() else { return mutex.lock() };
        loop {
            match mutex.try_lock() {
                Some(guard) => return guard,
                None => source.give_way(source.now() + FAR),
            }
        }
    }

    /// The source, if the calling thread must give way in place of waiting.
    fn turns(&self) -> Option<&dyn Source> {
        self.source.as_deref().filter(|source| source.takes_turns())
    }

    /// Start a thread. Errors: the system has no more.
    pub fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        self.source().spawn(name, Box::new(work))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.source.is_none() { "the system's clock" } else { "a clock of its own" })
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn the_systems_time_goes_by_and_its_threads_have_names() {
        let clock = Clock::system();
        let began = clock.now();
        clock.sleep(Duration::from_millis(2));
        assert!(clock.since(began) >= Duration::from_millis(2));
        assert_eq!(clock.since(clock.now() + Duration::from_secs(60)), Duration::ZERO);
        assert!(clock.wall() > SystemTime::UNIX_EPOCH);
        let (tell, told) = std::sync::mpsc::channel();
        let work = move || tell.send(std::thread::current().name().map(str::to_owned)).unwrap_or_default();
        clock.spawn("of-a-test", work).unwrap().join().unwrap();
        assert_eq!(told.recv().unwrap().as_deref(), Some("of-a-test"));
    }

    #[test]
    fn a_wait_ends_when_it_is_told_or_late() {
        let (clock, state, changed) = (Clock::system(), Mutex::new(()), Condvar::new());
        let until = clock.now() + Duration::from_millis(2);
        clock.wait_until(&changed, &mut state.lock(), until);
        assert!(clock.now() >= until, "nobody told it");
        let mut guard = state.lock();
        clock.wait_until(&changed, &mut guard, until);
        std::thread::scope(|scope| {
            scope.spawn(|| drop((state.lock(), changed.notify_all())));
            clock.wait_for(&changed, &mut guard, Duration::from_secs(600));
        });
    }
}
