//! What UCX takes from a program when it is loaded: the handlers of signals that tell of faults, of which one is Rust's for a stack that overflows.

use std::mem::MaybeUninit;
use std::ptr;

/// The signals that UCX handles (`UCX_ERROR_SIGNALS`).
const SIGNALS: [libc::c_int; 4] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

/// Handlers of these signals.
pub(crate) struct Handlers([Option<libc::sigaction>; 4]);

impl Handlers {
    /// Those that there are now.
    pub fn of_now() -> Handlers {
        Handlers(SIGNALS.map(|signal| {
            let mut found = MaybeUninit::uninit();
            // SAFETY: a signal that there is, and a place to write to, which is written when it returns 0.
            let ok = unsafe { libc::sigaction(signal, ptr::null(), found.as_mut_ptr()) } == 0;
            // SAFETY: as above.
            ok.then(|| unsafe { found.assume_init() })
        }))
    }

    /// Put them back.
    pub fn put_back(&self) {
        for (signal, handler) in SIGNALS.iter().zip(&self.0) {
            if let Some(handler) = handler {
                // SAFETY: a handler that the process had for this signal.
                unsafe { libc::sigaction(*signal, handler, ptr::null_mut()) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Ucx;

    /// With UCX's a stack that overflows would be told as a fault without a cause.
    #[test]
    fn loading_changes_no_handler() {
        let handlers = || Handlers::of_now().0.map(|handler| handler.unwrap().sa_sigaction);
        let before = handlers();
        let _ucx = Ucx::load().unwrap();
        assert_eq!(handlers(), before);
    }
}
