//! The frames in memory: free, shared by readers, or used by one alone (section 4).
//!
//! A frame is a buffer. Whoever has the buffer itself uses it alone. Once it holds a page it is shared: readers are given
//! pins, which keep it as it is and give it back when they are dropped. A page that is compacted while it is read gets a
//! second frame; the first one is retired, and free when its last reader has let go of it.
//!
//! This file names nothing of the store, so that its tests can run it under every order of threads.

use super::sync::{Arc, Mutex};

/// Called when a frame that somebody waits for may have become free.
type Released = Box<dyn Fn() + Send + Sync>;

/// A fixed number of frames.
pub struct Pool<B> {
    state: Mutex<State<B>>,
    most_pinned: usize,
    released: Released,
}

struct State<B> {
    free: Vec<B>,
    /// Swapped out while they were read.
    retired: Vec<Arc<B>>,
    /// Frames that readers hold, and how many readers each has.
    pinned: Vec<(Arc<B>, usize)>,
    /// Whether somebody found no frame.
    wanted: bool,
}

impl<B> Pool<B> {
    /// These frames, of which readers may hold so many. `released` is called, without a lock held, when a reader lets go of
    /// a frame after [`Pool::want`].
    pub fn new(frames: Vec<B>, most_pinned: usize, released: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let state = State { free: frames, retired: Vec::new(), pinned: Vec::new(), wanted: false };
        Arc::new(Pool { state: Mutex::new(state), most_pinned, released: Box::new(released) })
    }

    /// A frame that nobody uses; whoever has it uses it alone. `None` if there is none.
    pub fn take(&self) -> Option<B> {
        let mut state = self.state.lock();
        if let Some(free) = state.free.pop() {
            return Some(free);
        }
        for _ in 0..state.retired.len() {
            let retired = state.retired.remove(0);
            match Arc::try_unwrap(retired) {
                Ok(free) => return Some(free),
                Err(read) => state.retired.push(read),
            }
        }
        None
    }

    /// Give back a frame that was taken.
    pub fn give(&self, frame: B) {
        self.state.lock().free.push(frame);
    }

    /// Give back a frame that may still be read: it is free when its last reader has let go of it.
    pub fn retire(&self, frame: Arc<B>) {
        match Arc::try_unwrap(frame) {
            Ok(free) => self.give(free),
            Err(read) => self.state.lock().retired.push(read),
        }
    }

    /// Be told when a reader lets go of a frame next. Whoever found none asks for this, and then looks once more.
    pub fn want(&self) {
        self.state.lock().wanted = true;
    }

    /// Hold a frame of this pool as it is. `None` if readers hold as many frames as they may, and none of them is this one.
    pub fn pin(pool: &Arc<Self>, frame: &Arc<B>) -> Option<Pin<B>> {
        let mut state = pool.state.lock();
        let held = state.pinned.len();
        match state.pinned.iter_mut().find(|(other, _)| Arc::ptr_eq(other, frame)) {
            Some((_, readers)) => *readers += 1,
            None if held >= pool.most_pinned => return None,
            None => state.pinned.push((frame.clone(), 1)),
        }
        drop(state);
        Some(Pin { frame: Some(frame.clone()), pool: pool.clone() })
    }

    fn unpin(&self, frame: Arc<B>) {
        let mut state = self.state.lock();
        if let Some(at) = state.pinned.iter().position(|(other, _)| Arc::ptr_eq(other, &frame))
            && let Some((_, readers)) = state.pinned.get_mut(at)
        {
            *readers -= 1;
            if *readers == 0 {
                state.pinned.swap_remove(at);
            }
        }
        // Before anybody is told, who then looks whether the frame is free.
        drop(frame);
        let wanted = std::mem::take(&mut state.wanted);
        drop(state);
        if wanted {
            (self.released)();
        }
    }
}

/// A frame that a reader holds.
pub struct Pin<B> {
    frame: Option<Arc<B>>,
    pool: Arc<Pool<B>>,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Pin<B> {
    fn as_ref(&self) -> &[u8] {
        self.frame.as_ref().map_or(&[], |frame| (**frame).as_ref())
    }
}

impl<B> Drop for Pin<B> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.pool.unpin(frame);
        }
    }
}
