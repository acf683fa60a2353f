//! A handle of an entry of the rival.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bytes::Bytes;
use tinaja_store::backend::{Answer, BackendError, Entry, STREAMS};

use super::{Shared, answer};

/// One who has an entry open.
pub struct Handle {
    shared: Arc<Shared>,
    id: u64,
    key: Box<[u8]>,
    closed: AtomicBool,
}

impl Handle {
    pub fn new(shared: Arc<Shared>, id: u64, key: &[u8]) -> Self {
        Handle { shared, id, key: key.into(), closed: AtomicBool::new(false) }
    }

    fn check(&self, stream: usize) -> Result<(), BackendError> {
        match stream {
            _ if self.closed.load(SeqCst) => Err(BackendError::Closed),
            0..STREAMS => Ok(()),
            _ => Err(BackendError::NoSuchStream(stream)),
        }
    }

    fn end(&self) -> Result<(), BackendError> {
        if self.closed.swap(true, SeqCst) { Err(BackendError::Closed) } else { self.shared.state.lock().close(self.id) }
    }
}

impl Entry for Handle {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn data_bytes(&self, stream: usize) -> Result<u64, BackendError> {
        self.check(stream).and_then(|()| self.shared.state.lock().data_bytes(self.id, stream))
    }

    fn read_data(&self, stream: usize, offset: u64, most_bytes: usize) -> Answer<Bytes> {
        let read = || self.shared.state.lock().read(self.id, stream, offset, most_bytes);
        answer(self.check(stream).and_then(|()| read()))
    }

    fn write_data(&self, stream: usize, offset: u64, data: Bytes, truncate: bool) -> Answer<()> {
        let write = || self.shared.state.lock().write(self.id, stream, offset, &data, truncate);
        answer(self.check(stream).and_then(|()| write()))
    }

    fn doom(&self) {
        if !self.closed.load(SeqCst) {
            self.shared.state.lock().doom(self.id);
        }
    }

    fn close(self: Arc<Self>) -> Answer<()> {
        answer(self.end())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody hears how it ended.
        let _ = self.end();
    }
}
