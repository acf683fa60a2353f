//! Dámelo's frames in memory under every order of threads: two threads exhaustively, three with up to three preemptions.
//!
//! The pool is the file that the engine is built of, over loom's locks and counts. What the engine does with it stands here
//! as it does in the engine: one lock guards which frame holds the page, a reader pins that frame, a page is compacted into
//! a second frame that takes the place of the first, and whoever finds no frame asks to be told and looks once more.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../src/engine/damelo/pool.rs"]
#[allow(dead_code, reason = "the engine uses more of it")]
mod pool;

mod sync {
    pub(super) use loom::sync::Arc;

    /// As the engine's lock: without poison.
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

use loom::sync::Condvar;
use loom::thread;
use pool::Pool;
use sync::{Arc, Mutex};

/// A frame says which version of the page it holds, twice: a reader that sees two numbers saw it change.
type Frame = [u32; 2];

/// A page in one frame, and another frame.
struct World {
    pool: Arc<Pool<Frame>>,
    /// The engine's lock, and what it guards: the frame of the page.
    page: Mutex<Option<Arc<Frame>>>,
    /// How often somebody was told that a frame may be free.
    told: Arc<(loom::sync::Mutex<u32>, Condvar)>,
}

impl World {
    fn new(others: usize, most_pinned: usize) -> Arc<World> {
        let told: Arc<(loom::sync::Mutex<u32>, Condvar)> = Arc::new(Default::default());
        let tell = told.clone();
        let released = move || {
            *tell.0.lock().unwrap() += 1;
            tell.1.notify_all();
        };
        let pool = Pool::new(vec![[0, 0]; others], most_pinned, released);
        Arc::new(World { pool, page: Mutex::new(Some(Arc::new([1, 1]))), told })
    }

    /// A reader: what it pins stays as it is until it lets go.
    fn read(&self) {
        let frame = self.page.lock().clone();
        let Some(frame) = frame else { return };
        let seen = *frame;
        let pin = Pool::pin(&self.pool, &frame);
        drop(frame);
        assert_eq!(seen[0], seen[1], "a frame changed under its reader");
        drop(pin);
    }

    /// The cleaner: a new version in a second frame, if there is one.
    fn swap(&self) {
        let Some(mut second) = self.pool.take() else { return };
        let mut page = self.page.lock();
        let Some(first) = page.take() else {
            drop(page);
            return self.pool.give(second);
        };
        second = [first[0] + 1, second[1]];
        second[1] = second[0];
        *page = Some(Arc::new(second));
        drop(page);
        self.pool.retire(first);
    }

    /// A create: in place, if nobody else has the frame.
    fn change(&self) {
        if let Some(own) = self.page.lock().as_mut().and_then(Arc::get_mut) {
            own[0] += 1;
            own[1] += 1;
        }
    }

    /// Somebody who wants the page's own frame, and waits until its readers have let go. As the engine does, he looks once
    /// more after he has asked to be told.
    fn evict(&self) -> Frame {
        let mut heard = *self.told.0.lock().unwrap();
        loop {
            if let Some(free) = self.pool.take() {
                return free;
            }
            if let Some(first) = self.page.lock().take() {
                self.pool.retire(first);
            }
            self.pool.want();
            if let Some(free) = self.pool.take() {
                return free;
            }
            let mut told = self.told.0.lock().unwrap();
            while *told == heard {
                // Were a release not told, this would wait for ever, and loom would say so.
                told = self.told.1.wait(told).unwrap();
            }
            heard = *told;
        }
    }
}

fn orders(preemptions: Option<usize>, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(test);
}

#[test]
fn two_threads_a_reader_and_one_who_wants_its_frame() {
    orders(None, || {
        let world = World::new(0, 1);
        let other = world.clone();
        let reader = thread::spawn(move || other.read());
        assert_eq!(world.evict(), [1, 1]);
        reader.join().unwrap();
    });
}

#[test]
fn two_threads_a_reader_and_the_cleaner() {
    orders(None, || {
        let world = World::new(1, 1);
        let other = world.clone();
        let reader = thread::spawn(move || {
            other.read();
            other.read();
        });
        world.swap();
        world.change();
        reader.join().unwrap();
        let page = world.page.lock().take().unwrap();
        assert!(*page == [3, 3] || *page == [2, 2], "changed, or somebody read it: {page:?}");
        assert!(world.pool.take().is_some() && world.pool.take().is_none(), "each frame is there once");
    });
}

#[test]
fn three_threads_a_reader_the_cleaner_and_one_who_wants_a_frame() {
    orders(Some(3), || {
        let world = World::new(1, 1);
        let (first, second) = (world.clone(), world.clone());
        let reader = thread::spawn(move || first.read());
        let cleaner = thread::spawn(move || second.swap());
        let frame = world.evict();
        assert_eq!(frame[0], frame[1]);
        reader.join().unwrap();
        cleaner.join().unwrap();
        if let Some(page) = world.page.lock().take() {
            world.pool.retire(page);
        }
        assert!(world.pool.take().is_some() && world.pool.take().is_none(), "each frame is there once");
    });
}

#[test]
fn three_threads_readers_hold_no_more_than_they_may() {
    orders(Some(3), || {
        let world = World::new(1, 1);
        let other = Arc::new([9, 9]);
        let (first, second) = (world.clone(), world.clone());
        let frame = other.clone();
        let one = thread::spawn(move || Pool::pin(&first.pool, &frame));
        let two = thread::spawn(move || {
            let page = second.page.lock().clone().unwrap();
            Pool::pin(&second.pool, &page)
        });
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        assert!(one.is_some() != two.is_some(), "one of two frames, and one there is");
    });
}
