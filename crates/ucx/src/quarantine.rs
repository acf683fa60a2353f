//! Requests of UCX's, and what those that were given up still hold.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::mem;
use std::rc::Rc;

use crate::bindings::{Functions, UCS_ERR_LAST, UCS_INPROGRESS, UCS_OK, ucs_status_ptr_t};
use crate::error::Error;
use crate::limits::{MAX_QUARANTINED_BYTES, REQUEST_BYTES};

/// A request.
pub(crate) enum Request {
    /// It is over; an error has its number.
    Ended(Result<(), i32>),
    Open(*mut c_void),
}

impl Request {
    /// What a call has returned: nothing, an error's number, or a request.
    pub fn of(pointer: ucs_status_ptr_t) -> Request {
        match pointer as isize {
            0 => Request::Ended(Ok(())),
            number if (UCS_ERR_LAST as isize..0).contains(&number) => Request::Ended(Err(number as i32)),
            _ => Request::Open(pointer),
        }
    }

    /// How it ended, if it has; after that it is UCX's no more.
    pub fn poll(&mut self, functions: &Functions) -> Option<Result<(), i32>> {
        if let Request::Open(request) = *self {
            // SAFETY: a request that was not freed, of a worker that is there: what polls keeps it.
            let status = unsafe { functions.ucp_request_check_status(request) };
            if status == UCS_INPROGRESS {
                return None;
            }
            // SAFETY: as above, and it is freed once.
            unsafe { functions.ucp_request_free(request) };
            *self = Request::Ended(if status == UCS_OK { Ok(()) } else { Err(status.into()) });
        }
        match self {
            Request::Ended(result) => Some(*result),
            Request::Open(_) => None,
        }
    }
}

/// What was given up, with all that UCX may still touch.
struct Given {
    request: Request,
    buffer: Box<[u8]>,
    _kept: Option<Rc<dyn Any>>,
}

/// What was given up and is not over.
#[derive(Default)]
pub(crate) struct Quarantine {
    waiting: RefCell<Vec<Given>>,
    bytes: Cell<usize>,
}

impl Quarantine {
    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Errors: [`Error::Quarantined`] when no more may be begun.
    pub fn admit(&self) -> Result<(), Error> {
        let bytes = self.bytes.get() + self.waiting.borrow().len() * REQUEST_BYTES;
        if bytes > MAX_QUARANTINED_BYTES { Err(Error::Quarantined(bytes)) } else { Ok(()) }
    }

    /// A request that nobody waits for, with what it reads or writes and what else it needs.
    pub fn put(&self, request: Request, buffer: Box<[u8]>, kept: Option<Rc<dyn Any>>) {
        self.bytes.set(self.bytes.get() + buffer.len());
        self.waiting.borrow_mut().push(Given { request, buffer, _kept: kept });
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Let go of what is over. Returns how many are not.
    pub fn sweep(&self, functions: &Functions) -> usize {
        // What is dropped here may close an endpoint, which comes back to this list.
        let all = mem::take(&mut *self.waiting.borrow_mut());
        let (mut over, mut open) = (Vec::new(), Vec::new());
        for mut given in all {
            let is_over = given.request.poll(functions).is_some();
            if is_over { &mut over } else { &mut open }.push(given);
        }
        self.bytes.set(open.iter().map(|given| given.buffer.len()).sum());
        *self.waiting.borrow_mut() = open;
        drop(over);
        self.waiting.borrow().len()
    }

    /// Leave what is not over to UCX for ever.
    pub fn leak(&self) {
        mem::take(&mut *self.waiting.borrow_mut()).into_iter().for_each(mem::forget);
    }
}
