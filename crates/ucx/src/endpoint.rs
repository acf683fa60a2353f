//! A peer's worker, and its memory.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::rc::Rc;

use crate::bindings::{
    UCP_AM_SEND_FLAG_EAGER, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
    UCP_ERR_HANDLING_MODE_NONE, UCP_OP_ATTR_FIELD_FLAGS, UCS_OK, ucp_ep_h, ucp_request_param_t, ucp_rkey_h,
};
use crate::error::Error;
use crate::limits::MAX_MESSAGE_BYTES;
use crate::message::MESSAGE_ID;
use crate::quarantine::Request;
use crate::started::Started;
use crate::told::{Address, Key, same_version};
use crate::transfer::{Get, Sending, Transfer};

/// A way to a peer's worker. A clone is the same one.
#[derive(Clone)]
pub struct Endpoint(Rc<Connected>);

struct Connected {
    worker: Rc<Started>,
    handle: ucp_ep_h,
}

/// A peer's memory, to be read by one endpoint.
#[derive(Clone)]
pub struct Remote(Rc<Unpacked>);

struct Unpacked {
    handle: ucp_rkey_h,
    base: u64,
    bytes: u64,
    /// It goes before its endpoint does.
    endpoint: Rc<Connected>,
}

/// A request without anything asked for.
fn plain() -> ucp_request_param_t {
    // SAFETY: plain numbers, pointers and a callback that is an option; the mask says which are given: none.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

impl Endpoint {
    pub(crate) fn open(worker: &Rc<Started>, address: &Address) -> Result<Endpoint, Error> {
        same_version("address", address.version, worker.context.ucx.version)?;
        // SAFETY: plain numbers and pointers; the mask says which are given.
        let mut params: crate::bindings::ucp_ep_params_t = unsafe { MaybeUninit::zeroed().assume_init() };
        params.field_mask = u64::from(UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
        params.address = address.bytes.as_ptr().cast();
        // With the other mode UCX reads shared memory with the help of the other process, or not at all.
        params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
        let mut handle = ptr::null_mut();
        // SAFETY: the address is what a worker of this version gave, whole by its checksum, and lives until it returns.
        let status = unsafe { worker.functions().ucp_ep_create(worker.handle, &params, &mut handle) };
        if status != UCS_OK {
            return Err(Error::failed(worker.functions(), "reach the peer", status.into()));
        }
        Ok(Endpoint(Rc::new(Connected { worker: worker.clone(), handle })))
    }

    /// A peer's memory, by its key. Errors: [`Error::Foreign`], [`Error::Failed`] where this endpoint cannot reach it.
    pub fn remote(&self, key: &Key) -> Result<Remote, Error> {
        let worker = &self.0.worker;
        same_version("key", key.version, worker.context.ucx.version)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the key is what a peer of this version gave, whole by its checksum.
        let status = unsafe {
            worker.functions().ucp_ep_rkey_unpack(self.0.handle, key.bytes.as_ptr().cast::<c_void>(), &mut handle)
        };
        if status != UCS_OK {
            return Err(Error::failed(worker.functions(), "take the key of the peer's memory", status.into()));
        }
        Ok(Remote(Rc::new(Unpacked { handle, base: key.base, bytes: key.memory_bytes, endpoint: self.0.clone() })))
    }

    /// Begin to read so many bytes of a peer's memory, from a byte on. Errors: [`Error::Outside`], [`Error::Quarantined`].
    pub fn get(&self, remote: &Remote, at: u64, bytes: usize) -> Result<Get, Error> {
        let remote = &remote.0;
        let is_inside = at.checked_add(bytes as u64).is_some_and(|end| end <= remote.bytes);
        if !is_inside {
            return Err(Error::Outside { at, bytes, most: remote.bytes });
        }
        // The key's own endpoint: UCX wants no other, and its worker is the one that makes it go on. The key keeps both.
        let endpoint = &remote.endpoint;
        let worker = &endpoint.worker;
        worker.quarantine.admit()?;
        let mut buffer = vec![0; bytes].into_boxed_slice();
        let into = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: the buffer is kept until the request is over, by `Get` or by the quarantine; the key and the endpoint too.
        let pointer = unsafe {
            worker.functions().ucp_get_nbx(endpoint.handle, into, bytes, remote.base + at, remote.handle, &plain())
        };
        let (request, worker) = (Request::of(pointer), worker.clone());
        Ok(Get::of(Transfer { request, buffer, kept: remote.clone(), worker }))
    }

    /// Begin to send a message. Errors: [`Error::Outside`] where it is too long, [`Error::Quarantined`].
    pub fn send(&self, message: &[u8]) -> Result<Sending, Error> {
        if message.len() > MAX_MESSAGE_BYTES {
            return Err(Error::Outside { at: 0, bytes: message.len(), most: MAX_MESSAGE_BYTES as u64 });
        }
        let worker = &self.0.worker;
        worker.quarantine.admit()?;
        let buffer: Box<[u8]> = message.into();
        let mut params = plain();
        // So that the receiver has it whole when it is told of it.
        (params.op_attr_mask, params.flags) = (UCP_OP_ATTR_FIELD_FLAGS, UCP_AM_SEND_FLAG_EAGER);
        let from = buffer.as_ptr().cast::<c_void>();
        // SAFETY: the buffer is kept until the request is over, and so is the endpoint.
        let pointer = unsafe {
            worker.functions().ucp_am_send_nbx(self.0.handle, MESSAGE_ID, ptr::null(), 0, from, buffer.len(), &params)
        };
        let (request, worker) = (Request::of(pointer), worker.clone());
        Ok(Sending::of(Transfer { request, buffer, kept: self.0.clone(), worker }))
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // SAFETY: nobody has the endpoint any more; the close is a request of the worker's.
        let pointer = unsafe { self.worker.functions().ucp_ep_close_nbx(self.handle, &plain()) };
        let request = Request::of(pointer);
        if let Request::Open(_) = request {
            self.worker.quarantine.put(request, Box::default(), None);
        }
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // SAFETY: no read with it is under way: each keeps it.
        unsafe { self.endpoint.worker.functions().ucp_rkey_destroy(self.handle) };
    }
}
