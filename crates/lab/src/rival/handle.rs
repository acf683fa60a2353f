//! A handle of an entry of the rival.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bytes::Bytes;
use tinaja_backend::{Answer, BackendError, Entry, STREAMS};

use super::{Shared, call};

/// One who has an entry open.
pub struct Handle {
    shared: Arc<Shared>,
    id: u64,
    key: Box<[u8]>,
    closed: AtomicBool,
}

impl Handle {
    pub fn new(shared: Arc<Shared>, id: u64, key: Box<[u8]>) -> Self {
        Handle { shared, id, key, closed: AtomicBool::new(false) }
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
        let (checked, shared, id) = (self.check(stream), self.shared.clone(), self.id);
        call(move || checked.and_then(|()| shared.state.lock().read(id, stream, offset, most_bytes)))
    }

    fn write_data(&self, stream: usize, offset: u64, data: Bytes, truncate: bool) -> Answer<()> {
        let (checked, shared, id) = (self.check(stream), self.shared.clone(), self.id);
        call(move || checked.and_then(|()| shared.state.lock().write(id, stream, offset, &data, truncate)))
    }

    fn doom(&self) {
        if !self.closed.load(SeqCst) {
            self.shared.state.lock().doom(self.id);
        }
    }

    fn close(self: Arc<Self>) -> Answer<()> {
        call(move || self.end())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody hears how it ended.
        let _ = self.end();
    }
}
