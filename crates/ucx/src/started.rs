//! A worker of UCX's, with what it needs for as long as anything uses it.

use std::mem::{self, MaybeUninit};
use std::os::fd::BorrowedFd;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tinaja_clock::Clock;

use crate::bindings::{
    Functions, UCP_AM_FLAG_WHOLE_MSG, UCP_AM_HANDLER_PARAM_FIELD_ARG, UCP_AM_HANDLER_PARAM_FIELD_CB,
    UCP_AM_HANDLER_PARAM_FIELD_FLAGS, UCP_AM_HANDLER_PARAM_FIELD_ID, UCP_WORKER_PARAM_FIELD_THREAD_MODE, UCS_ERR_BUSY,
    UCS_OK, UCS_THREAD_MODE_SINGLE, ucp_worker_h,
};
use crate::context::Opened;
use crate::error::Error;
use crate::message::{Inbox, MESSAGE_ID, arrived};
use crate::quarantine::Quarantine;

/// How long the end of a worker waits for what was given up, and for the ends of its endpoints.
const LAST_PATIENCE: Duration = Duration::from_millis(200);

/// A worker, on the thread that started it. Endpoints and transfers keep it.
pub(crate) struct Started {
    pub context: Arc<Opened>,
    pub handle: ucp_worker_h,
    pub clock: Clock,
    pub quarantine: Quarantine,
    /// UCX has its address.
    pub inbox: Rc<Inbox>,
    events: i32,
}

impl Started {
    /// Errors: [`Error::Failed`].
    pub fn start(context: Arc<Opened>, clock: Clock) -> Result<Started, Error> {
        let functions = context.ucx.functions.clone();
        // SAFETY: plain numbers and pointers; the mask says which are given.
        let mut params: crate::bindings::ucp_worker_params_t = unsafe { MaybeUninit::zeroed().assume_init() };
        params.field_mask = u64::from(UCP_WORKER_PARAM_FIELD_THREAD_MODE);
        params.thread_mode = UCS_THREAD_MODE_SINGLE;
        let mut handle = ptr::null_mut();
        // SAFETY: an open context, parameters and a place for the handle.
        let status = unsafe { functions.ucp_worker_create(context.handle, &params, &mut handle) };
        if status != UCS_OK {
            return Err(Error::failed(&functions, "start a worker", status.into()));
        }
        let (inbox, quarantine) = (Rc::<Inbox>::default(), Quarantine::default());
        let mut started = Started { context, handle, clock, quarantine, inbox, events: -1 };
        started.listen()?;
        // SAFETY: a worker, and a place to write to; the descriptor stays the worker's.
        let status = unsafe { functions.ucp_worker_get_efd(handle, &mut started.events) };
        if status != UCS_OK {
            return Err(Error::failed(&functions, "tell when something happens", status.into()));
        }
        Ok(started)
    }

    pub fn functions(&self) -> &Functions {
        &self.context.ucx.functions
    }

    fn listen(&self) -> Result<(), Error> {
        let fields = UCP_AM_HANDLER_PARAM_FIELD_ID
            | UCP_AM_HANDLER_PARAM_FIELD_FLAGS
            | UCP_AM_HANDLER_PARAM_FIELD_CB
            | UCP_AM_HANDLER_PARAM_FIELD_ARG;
        let params = crate::bindings::ucp_am_handler_param_t {
            field_mask: fields.into(),
            id: MESSAGE_ID,
            flags: UCP_AM_FLAG_WHOLE_MSG,
            cb: Some(arrived),
            arg: Rc::as_ptr(&self.inbox).cast_mut().cast(),
        };
        // SAFETY: the inbox stays where it is and outlives the worker's handle; the handler takes it for shared use only.
        let status = unsafe { self.functions().ucp_worker_set_am_recv_handler(self.handle, &params) };
        if status == UCS_OK { Ok(()) } else { Err(Error::failed(self.functions(), "take messages", status.into())) }
    }

    /// Make everything go on; how much did.
    pub fn progress(&self) -> u32 {
        // SAFETY: a worker, on its thread. The handler that it may call takes the inbox alone, which nobody has borrowed here.
        let moved = unsafe { self.functions().ucp_worker_progress(self.handle) };
        if !self.quarantine.is_empty() {
            self.quarantine.sweep(self.functions());
        }
        moved
    }

    /// Wait until there is something to make go on, and no longer than that.
    pub fn sleep(&self, time: Duration) {
        // SAFETY: a worker, on its thread.
        let status = unsafe { self.functions().ucp_worker_arm(self.handle) };
        if status == UCS_ERR_BUSY {
            // Something has happened already.
            return;
        }
        // A transport without events: whoever waits looks a thousand times a second.
        let time = if status == UCS_OK { time } else { time.min(Duration::from_millis(1)) };
        // SAFETY: open for as long as the worker is.
        let events = unsafe { BorrowedFd::borrow_raw(self.events) };
        let time = Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        // Interrupted or not, whoever waits looks again.
        let _ = poll(&mut [PollFd::new(&events, PollFlags::IN)], Some(&time));
    }

    /// Wait a little for all that was given up; whether it is over.
    pub fn settle(&self) -> bool {
        let until = self.clock.now() + LAST_PATIENCE;
        while self.quarantine.sweep(self.functions()) > 0 {
            if self.clock.now() >= until {
                return false;
            }
            // SAFETY: a worker, on its thread.
            if unsafe { self.functions().ucp_worker_progress(self.handle) } == 0 {
                self.sleep(Duration::from_millis(1));
            }
        }
        true
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Nothing but the ends of endpoints is left.
        if !self.settle() {
            self.quarantine.leak();
            mem::forget((self.context.clone(), self.inbox.clone()));
            return;
        }
        // SAFETY: its endpoints are closed, and nothing is under way.
        unsafe { self.functions().ucp_worker_destroy(self.handle) };
    }
}
