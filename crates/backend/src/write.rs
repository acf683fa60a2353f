//! Writing into a stream: in memory as far as there is room, else in a file of the stream's own (Log-structured cache,
//! section 3.2.2: an entry is buffered until it is closed).
//!
//! If an entry finds no memory, the longest of its streams goes into a file at once; without a directory for files, the write
//! is refused. So what is being written is bounded, whatever the load.

use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::wait::Turn;

use super::error::{BackendError, STREAMS};
use super::files::{FileFault, StreamFile};
use super::shared::{EntryState, Shared, Stream, not_written};

/// What is to be written.
pub(super) struct Change {
    pub(super) stream: usize,
    pub(super) offset: u64,
    pub(super) data: Bytes,
    pub(super) truncate: bool,
}

/// What is to be done next so that it is written.
enum Step {
    Done,
    /// Write it into this file.
    ToFile(Arc<StreamFile>),
    /// Put a stream with these contents into a file, first or instead.
    Spill(usize, Bytes, Then),
}

/// What a stream's way into a file is followed by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It had what it had before.
    GoOn,
    /// It had what was to be written.
    Written,
}

impl Change {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }

    /// How long the stream will be.
    fn bytes_after(&self, before: u64) -> u64 {
        match (self.truncate, self.data.is_empty()) {
            (true, _) => self.end(),
            (false, true) => before,
            (false, false) => before.max(self.end()),
        }
    }

    /// Whether nothing of what was there stays.
    fn replaces_all(&self) -> bool {
        self.truncate && self.offset == 0
    }

    fn apply(&self, stream: &mut Stream) {
        let mut bytes = match std::mem::replace(stream, Stream::Own(Vec::new())) {
            Stream::Own(bytes) => bytes,
            Stream::Kept(bytes) if !self.replaces_all() => bytes.to_vec(),
            _ => Vec::new(),
        };
        let (start, end) = (self.offset as usize, self.end() as usize);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes.get_mut(start..end).unwrap_or_default().copy_from_slice(&self.data);
        if self.truncate {
            bytes.truncate(end);
        }
        *stream = Stream::Own(bytes);
    }
}

impl Shared {
    /// See [`super::calls::Entry::write_data`].
    pub(super) async fn write(self: Arc<Self>, change: Change) -> Result<(), BackendError> {
        let _turn = self.turn.enter().await;
        if !self.may_write(&change)? {
            return Ok(());
        }
        let before = {
            let state = self.lock();
            (!state.changed).then(|| state.streams.clone())
        };
        let written = self.write_in_turn(&change).await;
        if let (Err(_), Some(streams)) = (&written, before) {
            let mut state = self.lock();
            if !state.changed {
                // It is as it was, and takes no more than it did.
                state.streams = streams;
                state.memory = None;
            }
        }
        written
    }

    /// Whether there is anything to write. Errors: it may not be written.
    fn may_write(&self, change: &Change) -> Result<bool, BackendError> {
        self.inner.is_running()?;
        let state = self.lock();
        let before = state.streams.get(change.stream).ok_or(BackendError::NoSuchStream(change.stream))?.bytes();
        if state.doomed {
            return Err(BackendError::Doomed);
        }
        if let Some(broken) = &state.broken {
            return Err(broken.clone());
        }
        let others = state.streams.iter().map(Stream::bytes).sum::<u64>() - before;
        let most = self.inner.most_bytes(&self.key);
        let asked = change.offset.max(change.bytes_after(before)).saturating_add(others);
        if asked > most {
            return Err(BackendError::OutOfRange { asked, most });
        }
        Ok(change.truncate || !change.data.is_empty())
    }

    async fn write_in_turn(&self, change: &Change) -> Result<(), BackendError> {
        let _few = self.load().await?;
        loop {
            match self.next_step(change)? {
                Step::Done => return Ok(()),
                Step::Spill(stream, bytes, then) => {
                    self.spill(stream, bytes, then).await?;
                    if then == Then::Written {
                        return Ok(());
                    }
                }
                Step::ToFile(file) => return self.write_file(change, file).await,
            }
        }
    }

    /// Take what is in the stored record into memory: all of it will be written anew (3.2.5). Where there is no memory for it,
    /// few may do so at a time, and put it into files.
    async fn load(&self) -> Result<Option<Turn>, BackendError> {
        let (place, head, memory_bytes) = {
            let state = self.lock();
            let lying = state.streams.iter().filter(|stream| matches!(stream, Stream::InRecord(_)));
            let bytes: u64 = lying.map(Stream::bytes).sum();
            let Some(stored) = state.stored.as_ref().filter(|_| bytes > 0) else { return Ok(None) };
            (stored.place, stored.head.clone(), bytes as usize)
        };
        let turn = match self.may_charge(memory_bytes) {
            true => None,
            false if self.inner.files.is_none() => return Err(no_memory()),
            false => Some(self.inner.spilling.enter().await),
        };
        let body = self.stored_body(place, &head).await?;
        for stream in &mut self.lock().streams {
            if let Stream::InRecord(range) = stream {
                *stream = Stream::Kept(body.slice(range.start as usize..range.end as usize));
            }
        }
        Ok(turn)
    }

    fn may_charge(&self, bytes: usize) -> bool {
        self.charge(&mut self.lock(), bytes)
    }

    /// Take so much of the memory for what is being written, all in all; false if there is no room.
    fn charge(&self, state: &mut EntryState, bytes: usize) -> bool {
        let most = self.inner.options.written_bytes;
        match &mut state.memory {
            Some(share) => share.resize(bytes, most),
            none => {
                *none = self.inner.written.hold(bytes, most);
                none.is_some()
            }
        }
    }

    fn next_step(&self, change: &Change) -> Result<Step, BackendError> {
        let state = &mut *self.lock();
        let Some(stream) = state.streams.get(change.stream) else {
            return Err(BackendError::NoSuchStream(change.stream));
        };
        match stream {
            // What replaces all of a stored file may fit a record again.
            Stream::File(file) if !(file.is_finished() && change.replaces_all()) => {
                return Ok(Step::ToFile(file.clone()));
            }
            _ => {}
        }
        let after = change.bytes_after(if change.replaces_all() { 0 } else { stream.bytes() });
        let mut sizes: [u64; STREAMS] = [0; STREAMS];
        for (n, (size, stream)) in sizes.iter_mut().zip(&state.streams).enumerate() {
            *size = if n == change.stream { after } else { stream.memory_bytes() as u64 };
        }
        let (all, room) = (sizes.iter().sum::<u64>(), self.inner.record_room(&self.key) as u64);
        if all <= room && self.charge(state, all as usize) {
            state.changed = true;
            state.streams.get_mut(change.stream).into_iter().for_each(|stream| change.apply(stream));
            return Ok(Step::Done);
        }
        if self.inner.files.is_none() {
            return Err(if all > room { BackendError::OutOfRange { asked: all, most: room } } else { no_memory() });
        }
        let longest = (0..STREAMS).max_by_key(|n| sizes.get(*n)).unwrap_or(change.stream);
        if longest == change.stream && change.replaces_all() {
            return Ok(Step::Spill(longest, change.data.clone(), Then::Written));
        }
        Ok(Step::Spill(longest, spilled(state, longest), Then::GoOn))
    }

    /// Put a stream into a file of its own.
    async fn spill(&self, stream: usize, bytes: Bytes, then: Then) -> Result<(), BackendError> {
        let Some(files) = self.inner.files.clone() else { return Err(no_memory()) };
        let (id, all) = (self.id, files.clone());
        let write = move || {
            let file = StreamFile::create(&all, id)?;
            file.write(0, &bytes, false)?;
            Ok(Arc::new(file))
        };
        let file = files.run(write).await?.map_err(not_written)?;
        let state = &mut *self.lock();
        if let Some(stream) = state.streams.get_mut(stream) {
            *stream = Stream::File(file);
        }
        state.changed |= then == Then::Written;
        let memory_bytes = state.streams.iter().map(Stream::memory_bytes).sum();
        self.charge(state, memory_bytes);
        Ok(())
    }

    /// Write into a stream's file, or into a copy of it if it is stored.
    async fn write_file(&self, change: &Change, file: Arc<StreamFile>) -> Result<(), BackendError> {
        let Some(files) = self.inner.files.clone() else { return Err(no_memory()) };
        let file = if file.is_finished() {
            let copy = files.run(move || file.copy()).await?.map_err(not_written)?;
            Arc::new(copy)
        } else {
            file
        };
        let (into, Change { offset, data, truncate, .. }) = (file.clone(), change);
        let (offset, data, truncate) = (*offset, data.clone(), *truncate);
        let written = files.run(move || into.write(offset, &data, truncate)).await?;
        let mut state = self.lock();
        match written {
            Err(FileFault::Full) => return Err(not_written(FileFault::Full)),
            Err(fault) => {
                let broken = not_written(fault);
                state.broken = Some(broken.clone());
                state.changed = true;
                return Err(broken);
            }
            Ok(()) => {}
        }
        state.changed = true;
        if let Some(stream) = state.streams.get_mut(change.stream) {
            *stream = Stream::File(file);
        }
        Ok(())
    }
}

/// What a stream that is to go into a file has; one that is in memory stays readable meanwhile.
fn spilled(state: &mut EntryState, number: usize) -> Bytes {
    match state.streams.get_mut(number) {
        Some(Stream::Own(bytes)) => {
            let bytes = Bytes::from(std::mem::take(bytes));
            if let Some(stream) = state.streams.get_mut(number) {
                *stream = Stream::Kept(bytes.clone());
            }
            bytes
        }
        Some(Stream::Kept(bytes)) => bytes.clone(),
        _ => Bytes::new(),
    }
}

fn no_memory() -> BackendError {
    BackendError::Full("entries that are being written take all the memory they may")
}
