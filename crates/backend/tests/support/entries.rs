//! Backends over engines, and entries in them.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tinaja_backend::{Backend, BackendError, EngineBackend, EngineBackendOptions, Entry, StreamFiles};
use tinaja_store::device::Device;
use tinaja_store::engine::Engine;
use tinaja_store::{block_on, engines};

use super::{open_as, secret};

/// Options with files in this directory.
pub fn with_files(directory: &Path, most_bytes: u64) -> EngineBackendOptions {
    let files = StreamFiles { directory: directory.into(), most_bytes };
    EngineBackendOptions { files: Some(files), ..EngineBackendOptions::default() }
}

/// A backend over an engine.
pub fn over(engine: Arc<dyn Engine>, options: &EngineBackendOptions) -> EngineBackend {
    EngineBackend::over(engine, secret(), options.clone()).unwrap()
}

/// A backend over segments on a disk; `Err` when it cannot even be read.
pub fn open_backend(disk: Arc<dyn Device>, options: &EngineBackendOptions) -> Result<EngineBackend, String> {
    Ok(over(open_as(engines::SEGMENTED, disk)?, options))
}

pub fn create(backend: &dyn Backend, key: &[u8]) -> Result<Arc<dyn Entry>, BackendError> {
    block_on(backend.create_entry(key))
}

pub fn open_entry(backend: &dyn Backend, key: &[u8]) -> Result<Arc<dyn Entry>, BackendError> {
    block_on(backend.open_entry(key))
}

pub fn write(
    entry: &Arc<dyn Entry>,
    stream: usize,
    offset: u64,
    data: Bytes,
    truncate: bool,
) -> Result<(), BackendError> {
    block_on(entry.write_data(stream, offset, data, truncate))
}

/// All of a stream, however long.
pub fn read(entry: &Arc<dyn Entry>, stream: usize) -> Result<Bytes, BackendError> {
    let (bytes, mut all) = (entry.data_bytes(stream)?, Vec::new());
    while (all.len() as u64) < bytes {
        let piece = block_on(entry.read_data(stream, all.len() as u64, usize::MAX))?;
        assert!(!piece.is_empty(), "a read before the end gives something");
        all.extend_from_slice(&piece);
    }
    Ok(all.into())
}

/// Make an entry with these streams, or write them all anew, and close it.
pub fn keep(backend: &dyn Backend, key: &[u8], streams: [Bytes; 3]) -> Result<(), BackendError> {
    let entry = match create(backend, key) {
        Err(BackendError::Exists) => open_entry(backend, key),
        other => other,
    }?;
    for (n, data) in streams.into_iter().enumerate() {
        write(&entry, n, 0, data, true)?;
    }
    block_on(entry.close())
}

/// All streams of an entry.
pub fn get(backend: &dyn Backend, key: &[u8]) -> Result<[Bytes; 3], BackendError> {
    let entry = open_entry(backend, key)?;
    let streams = [read(&entry, 0)?, read(&entry, 1)?, read(&entry, 2)?];
    block_on(entry.close())?;
    Ok(streams)
}
