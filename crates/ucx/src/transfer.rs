//! Reads and messages under way.

use std::any::Any;
use std::rc::Rc;
use std::time::Duration;

use crate::error::Error;
use crate::quarantine::Request;
use crate::started::Started;

/// How often a waiting thread looks before it sleeps: a read of shared memory is done by then.
const LOOKS_BEFORE_SLEEP: u32 = 200;

/// Nobody waits for longer.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What a transfer has until it is over.
pub(crate) struct Transfer {
    pub request: Request,
    pub buffer: Box<[u8]>,
    /// The endpoint, and the key of the memory that is read.
    pub kept: Rc<dyn Any>,
    pub worker: Rc<Started>,
}

/// One that may be over already.
struct Held {
    open: Option<Transfer>,
    what: &'static str,
}

impl Held {
    fn poll(&mut self) -> Option<Result<Box<[u8]>, Error>> {
        let open = self.open.as_mut()?;
        let ended = open.request.poll(open.worker.functions())?;
        let Transfer { buffer, worker, .. } = self.open.take()?;
        Some(ended.map(|()| buffer).map_err(|status| Error::failed(worker.functions(), self.what, status)))
    }

    fn wait(mut self, patience: Duration) -> Result<Box<[u8]>, Error> {
        let Some(worker) = self.open.as_ref().map(|open| open.worker.clone()) else { return Err(Error::TooLate) };
        let now = worker.clock.now();
        let until = now.checked_add(patience).unwrap_or(now + LONGEST);
        let mut looks = 0_u32;
        loop {
            if let Some(result) = self.poll() {
                return result;
            }
            let moved = worker.progress();
            let left = until.saturating_duration_since(worker.clock.now());
            if left.is_zero() {
                return self.poll().unwrap_or(Err(Error::TooLate));
            }
            looks += 1;
            if moved == 0 && looks > LOOKS_BEFORE_SLEEP {
                worker.sleep(left);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(Transfer { mut request, buffer, kept, worker }) = self.open.take() else { return };
        if request.poll(worker.functions()).is_none() {
            worker.quarantine.put(request, buffer, Some(kept));
        }
    }
}

/// A read under way. Given up, by being dropped or by its deadline, its buffer goes to the worker's quarantine.
#[must_use]
pub struct Get(Held);

impl Get {
    pub(crate) fn of(transfer: Transfer) -> Get {
        Get(Held { open: Some(transfer), what: "read a peer's memory" })
    }

    /// The bytes, once they are there; [`crate::Worker::progress`] brings them. Nothing after that. Errors: [`Error::Failed`].
    pub fn poll(&mut self) -> Option<Result<Box<[u8]>, Error>> {
        self.0.poll()
    }

    /// Wait for the bytes, and no longer than that. Errors: [`Error::TooLate`], [`Error::Failed`].
    pub fn wait(self, patience: Duration) -> Result<Box<[u8]>, Error> {
        self.0.wait(patience)
    }
}

/// A message on its way. Dropped, it goes on: its bytes stay in the worker's quarantine until they are sent.
#[must_use]
pub struct Sending(Held);

impl Sending {
    pub(crate) fn of(transfer: Transfer) -> Sending {
        Sending(Held { open: Some(transfer), what: "send a message" })
    }

    /// Wait until it has left, which is not that it has arrived. Errors: [`Error::TooLate`], [`Error::Failed`].
    pub fn wait(self, patience: Duration) -> Result<(), Error> {
        self.0.wait(patience).map(drop)
    }

    /// Let it go on by itself.
    pub fn go(self) {}
}
