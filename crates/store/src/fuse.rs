//! What stops an engine that finds one of its invariants broken, and nothing else.
//!
//! An engine is written so that it never panics, whatever the disk holds. Should it, then what it has in memory is not
//! what it took it for, and nothing more that it says can be trusted: it might name the wrong place, or write over what
//! is whole. So the first panic, on whatever thread, blows the fuse of that engine. From then on it is not called, its
//! disk is neither read nor written, and the store above it finds nothing there and stores nothing there: a proxy passes
//! requests through. The disk is left as after a kill, which every engine can open.
//!
//! Other disks go on. One thing stays: a thread of the engine that waits for an answer may wait until the process ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// Called once when a fuse blows.
type Then = Box<dyn FnOnce() + Send>;

/// One for each engine: whole, or blown for good.
#[derive(Default)]
pub(crate) struct Fuse {
    why: OnceLock<String>,
    then: Mutex<Option<Then>>,
}

impl Fuse {
    /// A whole one.
    pub(crate) fn new() -> Arc<Fuse> {
        Arc::default()
    }

    /// Do `work`, which may panic; `None` if it did, or if the fuse is blown already and nothing was done.
    pub(crate) fn guard<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        if self.is_blown() {
            return None;
        }
        // What the panic leaves behind is looked at by nobody, and no lock of the store's is poisoned.
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| self.blow(&text_of(&*panic))).ok()
    }

    /// Whether it is blown.
    pub(crate) fn is_blown(&self) -> bool {
        self.why.get().is_some()
    }

    /// What to say of it, and what to do; empty while it is whole.
    pub(crate) fn why(&self) -> &str {
        self.why.get().map_or("", String::as_str)
    }

    /// Blow it. Only the first reason is kept.
    pub(crate) fn blow(&self, found: &str) {
        let why = format!(
            "one of the engine's invariants does not hold, which is a fault of Tinaja's, please report it: {found}. Its \
             disk is left alone until a restart, which opens it as after a crash"
        );
        if self.why.set(why).is_ok() {
            tracing::error!("{}; until then nothing is found or stored there", self.why());
            let then = self.then.lock().take();
            then.into_iter().for_each(|then| then());
        }
    }

    /// Do this once it blows.
    pub(crate) fn when_blown(&self, then: impl FnOnce() + Send + 'static) {
        *self.then.lock() = Some(Box::new(then));
    }
}

/// What a panic said.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no more is known").to_owned()
}
