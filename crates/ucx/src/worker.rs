//! What makes reads and messages go on.

use std::ptr;
use std::rc::Rc;
use std::slice;
use std::time::Duration;

use tinaja_clock::Clock;

use crate::bindings::UCS_OK;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::started::Started;
use crate::told::Address;

/// A worker: it reads from peers, and sends and takes messages, on the thread that made it. Nothing goes on between calls of [`Worker::progress`]; only
/// reads of its memory by peers do, where they are one-sided. Memory: some MB of UCX's own, and what [`crate::MAX_WAITING_MESSAGES`] and
/// [`crate::MAX_QUARANTINED_BYTES`] say.
pub struct Worker(Rc<Started>);

impl Worker {
    /// Start one. Errors: [`Error::Failed`].
    pub fn start(context: &Context, clock: Clock) -> Result<Worker, Error> {
        Ok(Worker(Rc::new(Started::start(context.0.clone(), clock)?)))
    }

    /// Where it is reached. Errors: [`Error::Failed`].
    pub fn address(&self) -> Result<Address, Error> {
        let (functions, version) = (self.0.functions(), self.0.context.ucx.version);
        let (mut address, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: a worker, and places to write to.
        let status = unsafe { functions.ucp_worker_get_address(self.0.handle, &mut address, &mut bytes) };
        if status != UCS_OK {
            return Err(Error::failed(functions, "say where it is reached", status.into()));
        }
        // SAFETY: so many bytes at that place, until they are released.
        let copied = unsafe { slice::from_raw_parts(address.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: got above, and released once.
        unsafe { functions.ucp_worker_release_address(self.0.handle, address) };
        Ok(Address { version, bytes: copied })
    }

    /// A way to a peer's worker. It is made when it is first used, so that this does not tell whether anybody is there. Errors: [`Error::Foreign`],
    /// [`Error::Failed`].
    pub fn connect(&self, address: &Address) -> Result<Endpoint, Error> {
        Endpoint::open(&self.0, address)
    }

    /// Make everything go on; how much did.
    pub fn progress(&self) -> u32 {
        self.0.progress()
    }

    /// Wait until there is something to make go on, and no longer than that. It may return early, for no reason.
    pub fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }

    /// The next message that has come.
    pub fn message(&self) -> Option<Vec<u8>> {
        self.0.inbox.take()
    }

    /// Messages for which there was no room.
    pub fn dropped_messages(&self) -> u64 {
        self.0.inbox.dropped()
    }

    /// Bytes that reads which were given up hold until UCX is done with them.
    pub fn quarantined_bytes(&self) -> usize {
        self.0.quarantine.bytes()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // What was given up keeps the worker, and the worker keeps it: if it is not over by now, both are left to UCX, which may still write there.
        if !self.0.settle() {
            self.0.quarantine.leak();
        }
    }
}
