//! [`EngineBackend`]: the interface over any engine.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tinaja_store::engine::Engine;
use tinaja_store::wait::promise;
use tinaja_store::{Secret, block_on};

use crate::calls::{Answer, Backend, Entry};
use crate::error::BackendError;
use crate::options::EngineBackendOptions;
use crate::shared::Inner;

/// A [`Backend`] that keeps each entry as one record of an engine, and what fits none in files of its own. Memory: the
/// engine's, and what [`EngineBackendOptions`] and [`crate::limits`] say: entries being written, entries held, records being
/// read.
///
/// Dropped without [`Backend::stop`], it stops itself and waits for the disk.
pub struct EngineBackend(Arc<Inner>);

impl EngineBackend {
    /// A backend over an engine of the caller's, which keeps nothing but this backend's entries. The secret must be the one
    /// with which its records were written. Where streams may go into files this looks at all of them, and blocks meanwhile.
    /// Errors: the directory of files cannot be used, or the system has no more threads.
    pub fn over(engine: Arc<dyn Engine>, secret: Secret, options: EngineBackendOptions) -> io::Result<Self> {
        Inner::over(engine, secret, options).map(EngineBackend)
    }
}

impl Inner {
    async fn flush(self: Arc<Self>) -> Result<(), BackendError> {
        self.ongoing.wait().await;
        let mut synced = Ok(());
        let mut leaving = Vec::new();
        if let Some(files) = &self.files {
            files.have_left().await;
            leaving = files.leaving();
            let all = files.clone();
            synced = files.run(move || all.sync()).await?.map_err(|fault| fault.to_string());
        }
        let (done, answer) = promise();
        self.engine.sync(None, Box::new(move |result| done.keep(result)));
        let records = answer.await.unwrap_or_else(|| Err("the engine was stopped".into()));
        if let (Some(files), true) = (&self.files, records.is_ok() && !leaving.is_empty()) {
            let all = files.clone();
            files.run(move || leaving.into_iter().for_each(|file| all.remove(file))).await?;
        }
        let lost = self.lost.lock().take();
        records.and(synced).and(lost.map_or(Ok(()), Err)).map_err(BackendError::NotKept)
    }

    async fn stop(self: Arc<Self>) -> Result<(), BackendError> {
        self.stopped.store(true, SeqCst);
        let _turn = self.stop_turn.enter().await;
        if let Some(ended) = self.stopping.lock().clone() {
            return ended;
        }
        let flushed = self.clone().flush().await;
        let (done, answer) = promise();
        self.engine.close(Box::new(move |result| done.keep(result)));
        let closed = answer.await.unwrap_or_else(|| Err("the engine was stopped".into()));
        let ended = flushed.and(closed.map_err(BackendError::NotKept));
        *self.stopping.lock() = Some(ended.clone());
        ended
    }
}

impl Backend for EngineBackend {
    fn create_entry(&self, key: &[u8]) -> Answer<Arc<dyn Entry>> {
        let (inner, key) = (self.0.clone(), self.0.checked(key));
        self.0.call(async move { inner.create(key?).await })
    }

    fn open_entry(&self, key: &[u8]) -> Answer<Arc<dyn Entry>> {
        let (inner, key) = (self.0.clone(), self.0.checked(key));
        self.0.call(async move { inner.open(key?).await })
    }

    fn flush(&self) -> Answer<()> {
        let inner = self.0.clone();
        self.0.call(async move {
            inner.is_running()?;
            inner.flush().await
        })
    }

    fn stop(&self) -> Answer<()> {
        let inner = self.0.clone();
        Box::pin(async move {
            let stopping = inner.clone().stop();
            inner.tasks.spawn(stopping).await.unwrap_or(Err(BackendError::Stopped))
        })
    }
}

impl Drop for EngineBackend {
    fn drop(&mut self) {
        if !self.0.stopped.load(SeqCst)
            && let Err(error) = block_on(self.stop())
        {
            tracing::warn!("a cache was dropped, and {error}");
        }
    }
}
