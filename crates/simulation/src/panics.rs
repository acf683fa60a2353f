//! Panics of one simulation, wherever they are caught.

use std::cell::RefCell;
use std::sync::{Arc, Once};

use parking_lot::Mutex;

/// Panics of one simulation.
pub type Panics = Arc<Mutex<Vec<String>>>;

thread_local! {
    static PANICS: RefCell<Option<Panics>> = const { RefCell::new(None) };
}

/// Has panics of this thread written down from now on.
pub fn hear(panics: Option<Panics>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            match PANICS.with_borrow(Clone::clone) {
                Some(panics) => panics.lock().push(info.to_string()),
                None => before(info),
            };
        }));
    });
    PANICS.set(panics);
}
