//! Time, and threads that take turns.
//!
//! The runtime's clock is everybody's. It stands still while anybody has something to do, and then goes to whatever is due next.
//!
//! A thread that somebody starts is a real one, and runs only while a task of the runtime, its shepherd, waits for it. It runs until it
//! sleeps, or waits for a condition or another thread; then the shepherd sleeps for it. What a waiting thread is woken for it finds when
//! its turn comes, a moment later that the seed decides: as threads do that are not scheduled at once.

use std::cell::RefCell;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tinaja_clock::{Clock, Source, Work};
use tokio::runtime::Handle;
use tokio::time::sleep_until;

use crate::events::Events;
use crate::panics::{Panics, hear};
use crate::random::Random;

/// 2026-06-01, when all of it begins.
const BEGINS: Duration = Duration::from_secs(1_780_272_000);
/// A thread whose turn takes so long, by the system's clock, waits for something that is not simulated.
const STUCK: Duration = Duration::from_secs(60);
/// How long a thread is left waiting that could go on, in milliseconds: mostly less, and now and then much more.
const LOOKS: [u64; 3] = [10, 50, 200];
/// A thread that sleeps or waits while nothing has happened for so long does that so many times as long, as on a machine that saves
/// power.
const SLOTH: [(Duration, u32); 2] = [(Duration::from_secs(30), 100), (Duration::from_millis(300), 20)];

/// What a thread says when it gives way.
enum Said {
    Until(Instant),
    Ended,
}

/// What a thread has of its shepherd.
struct Turn {
    mine: Receiver<()>,
    give: Sender<Said>,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Time and threads of one simulation.
pub struct House {
    runtime: Handle,
    events: Events,
    began: Instant,
    random: Mutex<Random>,
    panics: Panics,
    look_ms: u64,
    /// Threads that there are.
    threads: Arc<AtomicUsize>,
    started: AtomicUsize,
}

impl House {
    /// On the runtime of the caller, whose time is paused.
    pub fn new(events: Events, mut random: Random, panics: Panics) -> Arc<House> {
        Arc::new(House {
            look_ms: *random.one(&LOOKS),

            runtime: Handle::current(),
            events,
            began: tokio::time::Instant::now().into_std(),
            random: Mutex::new(random),
            panics,
            threads: Arc::default(),
            started: AtomicUsize::new(0),
        })
    }

    /// The clock that everybody goes by.
    pub fn clock(self: &Arc<Self>) -> Clock {
        Clock::of(self.clone())
    }

    /// How many times as long threads sleep now.
    fn sloth(&self) -> u32 {
        let quiet = self.events.quiet();
        SLOTH.iter().find(|(after, _)| quiet >= *after).map_or(1, |(_, times)| *times)
    }

    /// Threads that have not ended.
    pub fn threads(&self) -> usize {
        self.threads.load(SeqCst)
    }
}

/// Lets others have their turns, on a thread that has one.
fn give_way(until: Instant) {
    TURN.with_borrow(|turn| {
        let turn = turn.as_ref().expect("the simulation's own thread never sleeps");
        let told = turn.give.send(Said::Until(until)).is_ok() && turn.mine.recv().is_ok();
        if !told {
            // The simulation is over. Nobody is to hear of this.
            resume_unwind(Box::new("the simulation is over"));
        }
    });
}

/// Whether the calling thread is one of those that take turns.
pub fn is_turn() -> bool {
    TURN.with_borrow(Option::is_some)
}

/// Tells the shepherd, however the thread ends.
struct Ends {
    threads: Arc<AtomicUsize>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.threads.fetch_sub(1, SeqCst);
        TURN.with_borrow(|turn| turn.as_ref().map(|turn| turn.give.send(Said::Ended)));
    }
}

async fn shepherd(number: u64, name: String, events: Events, go: Sender<()>, back: Receiver<Said>) {
    loop {
        events.note("turn", &[number]);
        if go.send(()).is_err() {
            return;
        }
        let until = match back.recv_timeout(STUCK) {
            Ok(Said::Until(until)) => until,
            Ok(Said::Ended) => return,
            Err(error) => {
                // Everything stands: not even a panic would be seen.
                eprintln!("the thread {name} waits for something that is not simulated: {error}");
                std::process::exit(101);
            }
        };
        sleep_until(until.into()).await;
    }
}

impl Source for House {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + BEGINS + self.now().saturating_duration_since(self.began)
    }

    fn is_steady(&self) -> bool {
        true
    }

    fn sleep(&self, time: Duration) {
        let until = self.now() + time * self.sloth();
        while self.now() < until {
            give_way(until);
        }
    }

    fn takes_turns(&self) -> bool {
        is_turn()
    }

    fn blocks_at_once(&self) -> bool {
        true
    }

    fn give_way(&self, until: Instant) {
        let (now, sloth) = (self.now(), self.sloth());
        let look = now + self.random.lock().around(self.look_ms).max(Duration::from_millis(1)) * sloth;
        // As a thread that slept too long, it may also come later than it wanted to.
        let late = if sloth > 1 { Duration::from_secs(1) } else { Duration::ZERO };
        give_way(until.max(now + late).min(look));
    }

    fn spawn(&self, name: &str, work: Work) -> io::Result<JoinHandle<()>> {
        let number = self.started.fetch_add(1, SeqCst) as u64;
        let ((go, mine), (give, back)) = (channel(), channel());
        let (runtime, threads, panics) = (self.runtime.clone(), self.threads.clone(), self.panics.clone());
        threads.fetch_add(1, SeqCst);
        let ends = Ends { threads };
        let thread = Builder::new().name(name.into()).spawn(move || {
            // For the time.
            let _inside = runtime.enter();
            hear(Some(panics));
            let _ends = ends;
            if mine.recv().is_ok() {
                TURN.set(Some(Turn { mine, give }));
                work();
            }
        })?;
        self.runtime.spawn(shepherd(number, name.to_owned(), self.events.clone(), go, back));
        Ok(thread)
    }
}
