//! Dámelo's frames in memory with sixteen threads in random orders, many seeds: what `pool_loom` tries with two and three.
//!
//! ```text
//! TINAJA_ORDERS=100000 cargo test --release -p tinaja-store --test pool_shuttle
//! ```

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../src/engine/damelo/pool.rs"]
#[allow(dead_code, reason = "the engine uses more of it")]
mod pool;

mod sync {
    pub(super) use shuttle::sync::Arc;

    /// As the engine's lock: without poison.
    pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

use pool::Pool;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Condvar;
use shuttle::thread;
use sync::{Arc, Mutex};

const THREADS: usize = 16;
const PAGES: usize = 3;
const FRAMES: usize = 5;
const MOST_PINNED: usize = 2;

type Frame = [u32; 2];

struct World {
    pool: Arc<Pool<Frame>>,
    pages: Mutex<[Option<Arc<Frame>>; PAGES]>,
    told: Arc<(shuttle::sync::Mutex<u32>, Condvar)>,
}

impl World {
    fn new() -> Arc<World> {
        let told: Arc<(shuttle::sync::Mutex<u32>, Condvar)> = Arc::new(Default::default());
        let tell = told.clone();
        let pool = Pool::new(vec![[0, 0]; FRAMES], MOST_PINNED, move || {
            *tell.0.lock().unwrap() += 1;
            tell.1.notify_all();
        });
        Arc::new(World { pool, pages: Mutex::new([None, None, None]), told })
    }

    fn read(&self, page: usize) {
        let frame = self.pages.lock()[page].clone();
        let Some(frame) = frame else { return };
        let pin = Pool::pin(&self.pool, &frame);
        let before = *frame;
        thread::yield_now();
        assert_eq!((before[0], *frame), (before[1], before), "a frame changed under its reader");
        drop(frame);
        drop(pin);
    }

    /// A frame: a free one, or that of a page that nobody reads; or wait.
    fn frame(&self) -> Frame {
        let mut heard = *self.told.0.lock().unwrap();
        loop {
            if let Some(free) = self.pool.take() {
                return free;
            }
            for page in &mut *self.pages.lock() {
                if page.as_ref().is_some_and(|frame| Arc::strong_count(frame) == 1) {
                    self.pool.retire(page.take().unwrap());
                }
            }
            self.pool.want();
            if let Some(free) = self.pool.take() {
                return free;
            }
            let mut told = self.told.0.lock().unwrap();
            if *told == heard {
                // Frames that others are about to give back are told by nobody: they are no readers'.
                drop(told);
                thread::yield_now();
                told = self.told.0.lock().unwrap();
            }
            heard = *told;
        }
    }

    fn swap(&self, page: usize) {
        let mut second = self.frame();
        let mut pages = self.pages.lock();
        let first = pages[page].take();
        let version = first.as_ref().map_or(0, |first| first[0]) + 1;
        second = [version, second[1]];
        second[1] = version;
        pages[page] = Some(Arc::new(second));
        drop(pages);
        first.into_iter().for_each(|first| self.pool.retire(first));
    }

    fn change(&self, page: usize) {
        if let Some(own) = self.pages.lock()[page].as_mut().and_then(Arc::get_mut) {
            own[0] += 1;
            own[1] += 1;
        }
    }
}

#[test]
fn sixteen_threads() {
    let orders = std::env::var("TINAJA_ORDERS").ok().map_or(2000, |text| text.parse().unwrap());
    let test = || {
        let world = World::new();
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let world = world.clone();
                thread::spawn(move || {
                    for _ in 0..4 {
                        let page = thread_rng().gen_range(0..PAGES);
                        match thread_rng().gen_range(0..4) {
                            0 => world.swap(page),
                            1 => world.change(page),
                            _ => world.read(page),
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let pages = std::mem::take(&mut *world.pages.lock());
        pages.into_iter().flatten().for_each(|frame| world.pool.retire(frame));
        let frames = std::iter::from_fn(|| world.pool.take()).count();
        assert_eq!(frames, FRAMES, "each frame is there once");
    };
    shuttle::check_random(test, orders);
    shuttle::check_pct(test, orders / 2, 3);
}
