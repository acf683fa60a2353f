//! [`Entry`]: one who has an entry open.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::calls::{Answer, Entry};
use super::counted::One;
use super::error::BackendError;
use super::shared::{Shared, Stream};
use super::write::Change;
use crate::limits::MAX_ENTRY_READ_BYTES;

/// Somebody's way to an entry.
pub(super) struct Handle {
    shared: Arc<Shared>,
    /// `None` once it was closed.
    open: Mutex<Option<One>>,
}

impl Handle {
    /// Of an entry that counts it already.
    pub(super) fn first(one: One, shared: Arc<Shared>) -> Arc<dyn Entry> {
        Arc::new(Handle { shared, open: Mutex::new(Some(one)) })
    }

    fn is_open(&self) -> Result<(), BackendError> {
        if self.open.lock().is_some() { Ok(()) } else { Err(BackendError::Closed) }
    }
}

impl Entry for Handle {
    fn key(&self) -> &[u8] {
        &self.shared.key
    }

    fn data_bytes(&self, stream: usize) -> Result<u64, BackendError> {
        self.is_open()?;
        let state = self.shared.lock();
        state.streams.get(stream).map(Stream::bytes).ok_or(BackendError::NoSuchStream(stream))
    }

    fn read_data(&self, stream: usize, offset: u64, most_bytes: usize) -> Answer<Bytes> {
        let (shared, open) = (self.shared.clone(), self.is_open());
        self.shared.inner.call(async move {
            open?;
            shared.read(stream, offset, most_bytes.min(MAX_ENTRY_READ_BYTES)).await
        })
    }

    fn write_data(&self, stream: usize, offset: u64, data: Bytes, truncate: bool) -> Answer<()> {
        let (shared, open) = (self.shared.clone(), self.is_open());
        self.shared.inner.call(async move {
            open?;
            shared.write(Change { stream, offset, data, truncate }).await
        })
    }

    fn doom(&self) {
        if self.is_open().is_ok() {
            self.shared.doom();
        }
    }

    fn close(self: Arc<Self>) -> Answer<()> {
        Box::pin(async move {
            let one = self.open.lock().take().ok_or(BackendError::Closed)?;
            self.shared.leave(one, true).await
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(one) = self.open.get_mut().take() {
            drop(self.shared.leave(one, false));
        }
    }
}
