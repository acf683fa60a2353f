//! Threads that take turns, in virtual time: a whole engine, with all that it does by itself, on a disk that is a model.
//!
//! A thread that an engine starts runs only when whoever drives the experiment gives it a turn, and until it sleeps or waits. So what the
//! processor does takes no time, a request takes what the model says, and a run is over as soon as it is reckoned.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tinaja_clock::{Clock, Source, Work};

/// 2026-06-01, when all of it begins.
const BEGINS: Duration = Duration::from_secs(1_780_272_000);
/// A thread whose turn takes so long, by the system's clock, waits for something that has no turns.
const STUCK: Duration = Duration::from_secs(60);

/// What a thread says when it gives way; times since the beginning.
#[derive(Clone, Copy)]
enum Said {
    SleepsUntil(Duration),
    WaitsUntil(Duration),
    Ended,
}

/// What a thread has of its turns.
struct Turn {
    mine: Receiver<()>,
    give: Sender<Said>,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

struct Thread {
    name: String,
    go: Sender<()>,
    back: Receiver<Said>,
    said: Said,
}

/// Time, which stands still until it is told to go on, and threads. Dropped, it goes on by itself, and so do they: whatever still runs
/// comes to its end.
pub struct Turns(Arc<House>);

struct House {
    began: Instant,
    time: Mutex<Time>,
    threads: Mutex<Vec<Thread>>,
}

#[derive(Default)]
struct Time {
    by: Duration,
    /// When it was let go of.
    runs_since: Option<Instant>,
}

impl Default for Turns {
    /// It stands at zero.
    fn default() -> Turns {
        Turns(Arc::new(House { began: Instant::now(), time: Mutex::default(), threads: Mutex::default() }))
    }
}

impl Turns {
    /// The clock to hand about.
    pub fn clock(&self) -> Clock {
        Clock::of(self.0.clone())
    }

    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        self.0.passed()
    }

    /// What moves the time.
    pub fn hands(&self) -> impl Fn(Duration) + Send + Sync + 'static {
        let house = self.0.clone();
        move |by| house.time.lock().by += by
    }

    /// When the next thread is due that sleeps or waits for a time.
    pub fn next(&self) -> Option<Duration> {
        self.0.threads.lock().iter().filter_map(|thread| thread.said.until()).min()
    }

    /// Give each thread a turn that waits for something, or whose time has come; whether any had one. Errors: one does not give way
    /// again, since it waits for something that has no turns; or it has panicked.
    pub fn give(&self) -> Result<bool, String> {
        // They may start others meanwhile.
        let (threads, now) = (std::mem::take(&mut *self.0.threads.lock()), self.now());
        let (mut any, mut left) = (false, Vec::with_capacity(threads.len()));
        for thread in threads {
            if matches!(thread.said, Said::SleepsUntil(until) if until > now) {
                left.push(thread);
                continue;
            }
            any = true;
            match thread.go.send(()).map(|()| thread.back.recv_timeout(STUCK)) {
                Ok(Ok(Said::Ended)) => {}
                Ok(Ok(said)) => left.push(Thread { said, ..thread }),
                Ok(Err(RecvTimeoutError::Timeout)) => return Err(format!("{} does not give way", thread.name)),
                Ok(Err(RecvTimeoutError::Disconnected)) | Err(_) => return Err(format!("{} panicked", thread.name)),
            }
        }
        let mut all = self.0.threads.lock();
        left.append(&mut all);
        *all = left;
        Ok(any)
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.0.time.lock().runs_since = Some(Instant::now());
        self.0.threads.lock().clear();
    }
}

impl Said {
    fn until(self) -> Option<Duration> {
        match self {
            Said::SleepsUntil(until) | Said::WaitsUntil(until) => Some(until),
            Said::Ended => None,
        }
    }
}

impl House {
    fn passed(&self) -> Duration {
        let time = self.time.lock();
        time.by + time.runs_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn at(&self, until: Instant) -> Duration {
        until.saturating_duration_since(self.began)
    }
}

/// Whether the calling thread is one of those that take turns.
fn is_turn() -> bool {
    TURN.with_borrow(Option::is_some)
}

/// Lets others have their turns. Once nobody gives any, the thread goes on as all threads do.
fn give_way(said: Said) {
    let turn = TURN.take();
    let Some(Turn { mine, give }) = turn else { return };
    if give.send(said).is_ok() && mine.recv().is_ok() {
        TURN.set(Some(Turn { mine, give }));
    }
}

impl Source for House {
    fn now(&self) -> Instant {
        self.began + self.passed()
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + BEGINS + self.passed()
    }

    fn sleep(&self, time: Duration) {
        let until = self.passed() + time;
        while self.passed() < until {
            match is_turn() {
                true => give_way(Said::SleepsUntil(until)),
                false => std::thread::sleep(until.saturating_sub(self.passed()).min(Duration::from_millis(1))),
            }
        }
    }

    fn patience(&self, _until: Instant) -> Duration {
        Duration::from_millis(1)
    }

    fn takes_turns(&self) -> bool {
        is_turn()
    }

    fn give_way(&self, until: Instant) {
        match is_turn() {
            true => give_way(Said::WaitsUntil(self.at(until))),
            // It began to wait while there were turns.
            false => std::thread::sleep(Duration::from_millis(1)),
        }
    }

    fn spawn(&self, name: &str, work: Work) -> io::Result<JoinHandle<()>> {
        let ((go, mine), (give, back)) = (channel(), channel());
        let thread = Builder::new().name(name.into()).spawn(move || {
            if mine.recv().is_ok() {
                TURN.set(Some(Turn { mine, give }));
            }
            work();
            // Whoever gives turns may have gone.
            if let Some(turn) = TURN.take() {
                let _ = turn.give.send(Said::Ended);
            }
        })?;
        let (name, said) = (name.to_owned(), Said::WaitsUntil(self.passed()));
        let mut threads = self.threads.lock();
        // Else it runs as all threads do: nobody gives turns any more.
        if self.time.lock().runs_since.is_none() {
            threads.push(Thread { name, go, back, said });
        }
        Ok(thread)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use parking_lot::Condvar;

    use super::*;

    #[test]
    fn a_thread_runs_in_its_turns_alone_and_by_the_time_that_it_is_told() {
        let (turns, laps) = (Turns::default(), Arc::new(AtomicU64::new(0)));
        let (clock, of_thread, move_on) = (turns.clock(), laps.clone(), turns.hands());
        let slept = clock.clone();
        let thread = clock.spawn("of-a-test", move || {
            for _ in 0..3 {
                of_thread.fetch_add(1, SeqCst);
                slept.sleep(Duration::from_secs(60));
            }
        });
        assert_eq!(laps.load(SeqCst), 0, "nobody has given it a turn");
        assert!(turns.give().unwrap());
        assert_eq!((laps.load(SeqCst), turns.next()), (1, Some(Duration::from_secs(60))));
        move_on(Duration::from_secs(59));
        assert!(!turns.give().unwrap(), "it sleeps");
        move_on(Duration::from_secs(1));
        assert!(turns.give().unwrap());
        assert_eq!((laps.load(SeqCst), turns.now()), (2, Duration::from_secs(60)));
        for _ in 0..2 {
            move_on(Duration::from_secs(60));
            turns.give().unwrap();
        }
        thread.unwrap().join().unwrap();
        assert!(!turns.give().unwrap() && turns.next().is_none());
    }

    #[test]
    fn one_that_panics_is_no_one_that_has_ended() {
        let turns = Turns::default();
        let thread = turns.clock().spawn("of-a-test", || panic!("as a test wants it"));
        assert_eq!(turns.give(), Err("of-a-test panicked".to_owned()));
        assert!(thread.unwrap().join().is_err());
    }

    #[test]
    fn who_waits_is_asked_again_and_comes_to_an_end_when_nobody_gives_turns_any_more() {
        let turns = Turns::default();
        let (clock, pair) = (turns.clock(), Arc::new((Mutex::new(false), Condvar::new())));
        let (by, of_thread) = (clock.clone(), pair.clone());
        let thread = clock.spawn("of-a-test", move || {
            let mut is_told = of_thread.0.lock();
            while !*is_told {
                by.wait_for(&of_thread.1, &mut is_told, Duration::from_secs(3600));
            }
        });
        assert!(turns.give().unwrap() && turns.give().unwrap(), "it waits");
        drop(turns);
        *pair.0.lock() = true;
        pair.1.notify_all();
        thread.unwrap().join().unwrap();
    }
}
