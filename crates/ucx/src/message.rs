//! Messages that have come and wait to be taken.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::slice;

use crate::bindings::{UCP_AM_RECV_ATTR_FLAG_RNDV, UCS_OK, ucp_am_recv_param_t, ucs_status_t};
use crate::limits::{MAX_MESSAGE_BYTES, MAX_WAITING_BYTES, MAX_WAITING_MESSAGES};

/// The number under which all our messages go.
pub(crate) const MESSAGE_ID: u32 = 7;

/// What has come, in the order in which it came.
#[derive(Default)]
pub(crate) struct Inbox {
    waiting: RefCell<VecDeque<Vec<u8>>>,
    bytes: Cell<usize>,
    dropped: Cell<u64>,
}

impl Inbox {
    /// The next one.
    pub fn take(&self) -> Option<Vec<u8>> {
        let message = self.waiting.borrow_mut().pop_front()?;
        self.bytes.set(self.bytes.get() - message.len());
        Some(message)
    }

    /// Those for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    fn put(&self, message: Option<&[u8]>) {
        let mut waiting = self.waiting.borrow_mut();
        let fits = |message: &&[u8]| {
            let bytes = self.bytes.get() + message.len();
            message.len() <= MAX_MESSAGE_BYTES && waiting.len() < MAX_WAITING_MESSAGES && bytes <= MAX_WAITING_BYTES
        };
        match message.filter(fits) {
            Some(message) => {
                self.bytes.set(self.bytes.get() + message.len());
                waiting.push_back(message.to_vec());
            }
            None => self.dropped.set(self.dropped.get() + 1),
        }
    }
}

/// Called by UCX, during [`crate::Worker::progress`] only.
///
/// # Safety
/// `arg` is the worker's [`Inbox`], `data` has `length` bytes unless the parameter says that they are still to be fetched.
pub(crate) unsafe extern "C" fn arrived(
    arg: *mut c_void,
    _header: *const c_void,
    _header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const ucp_am_recv_param_t,
) -> ucs_status_t {
    // SAFETY: the worker keeps the inbox where it is for as long as it has this handler.
    let inbox = unsafe { &*arg.cast::<Inbox>() };
    // SAFETY: valid for the call.
    let is_elsewhere = unsafe { (*param).recv_attr } & u64::from(UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    let message = if is_elsewhere {
        None
    } else if length == 0 {
        Some(&[][..])
    } else {
        // SAFETY: so many bytes, for the duration of the call.
        Some(unsafe { slice::from_raw_parts(data.cast::<u8>(), length) })
    };
    inbox.put(message);
    UCS_OK
}
