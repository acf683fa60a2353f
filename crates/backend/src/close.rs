//! What follows the last close, and a doom: the whole entry is appended (Log-structured cache, sections 3.2.2 and 3.2.5), or
//! removed (3.2.4).
//!
//! An entry that is opened while it is being written out is the same one, from memory, so there is never a second version of
//! an entry that is open. If it is doomed then, it never reaches the disk.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::{Bytes, BytesMut};
use tinaja_store::engine::{Kind, Record};

use super::counted::One;
use super::error::BackendError;
use super::files::StreamFile;
use super::format::{EntryHead, StreamAt};
use super::shared::{EntryState, Shared, Stored, Stream, in_record, not_written};

impl Shared {
    /// One has it open no more. The last one writes it out, if it was changed; that goes on whether or not the answer is
    /// waited for. With `is_heard` false a failure is told by the next flush.
    pub(super) fn leave(
        self: &Arc<Self>,
        one: One,
        is_heard: bool,
    ) -> impl Future<Output = Result<(), BackendError>> + Send + use<> {
        let answer = self.inner.table.leave(self).then(|| {
            let (shared, begun) = (self.clone(), self.inner.ongoing.begin());
            self.inner.tasks.spawn(async move {
                let _until_then = (one, begun);
                let finished = shared.finish().await;
                if let (Err(error), false) = (&finished, is_heard) {
                    shared.inner.lose(error.to_string());
                }
                finished
            })
        });
        async move {
            match answer {
                Some(answer) => answer.await.unwrap_or(Err(BackendError::Stopped)),
                None => Ok(()),
            }
        }
    }

    /// Append it, unless somebody has opened it again or doomed it. Errors: [`BackendError::NotKept`].
    async fn finish(self: &Arc<Self>) -> Result<(), BackendError> {
        let _turn = self.turn.enter().await;
        let broken = {
            let state = self.lock();
            if state.handles > 0 || state.doomed || !state.changed {
                return Ok(());
            }
            state.broken.clone()
        };
        let stored = match broken {
            Some(broken) => Err(broken),
            None => self.store().await,
        };
        self.inner.table.settle(self);
        let Err(why) = stored else { return Ok(()) };
        // Nobody may find the version before, which this one was to replace.
        if let Some(claim) = self.inner.table.doom(self) {
            self.erase(claim.is_some()).await;
        }
        Err(match why {
            BackendError::NotKept(_) => why,
            other => BackendError::NotKept(other.to_string()),
        })
    }

    /// Write out what there is. Whoever opens it meanwhile reads on from memory.
    async fn store(&self) -> Result<(), BackendError> {
        let (unfinished, replaces) = {
            let state = self.lock();
            let unfinished = state.files().into_iter().filter(|file| !file.is_finished());
            (unfinished.collect::<Vec<_>>(), state.stored.is_some())
        };
        for file in unfinished {
            let Some(files) = &self.inner.files else { continue };
            // A record that outlives a cut of the power must not hide the version before if its file does not.
            files.run(move || file.finish(replaces)).await?.map_err(not_written)?;
        }
        let (what, body) = {
            let mut state = self.lock();
            (self.head(&state), body(&mut state))
        };
        let head = Bytes::from(what.encode());
        let record =
            Record { id: self.id, kind: Kind::Whole, name: &self.key, head: &head, body: &body, related_bytes: 0 };
        let left_behind = poll_fn(|cx| {
            // Locked, so that whoever dooms it does so before it is on disk, or knows that it is.
            let mut state = self.lock();
            if state.doomed {
                return Poll::Ready(Ok(state.files()));
            }
            let place = match ready!(self.inner.engine.poll_append(cx, &self.placement(), &record)) {
                Ok(place) => place,
                Err(why) => return Poll::Ready(Err(BackendError::NotKept(why.to_string()))),
            };
            let left_behind = state.files_left_behind();
            let hold = self.inner.engine.hold(&[place]);
            state.stored = Some(Stored { place, head: head.clone(), files: state.files(), _hold: hold });
            if state.handles > 0 {
                // Somebody has opened it meanwhile: it is stored now, and held as others are.
                let held = self.inner.hold(body.clone());
                let streams = state.streams.iter_mut().zip(in_record(&what, held.as_ref()));
                streams.filter(|(now, _)| !matches!(now, Stream::File(_))).for_each(|(now, then)| *now = then);
            }
            (state.changed, state.memory) = (false, None);
            Poll::Ready(Ok(left_behind))
        })
        .await?;
        let doomed = self.lock().doomed;
        self.let_go(left_behind, doomed).await;
        Ok(())
    }

    fn head(&self, state: &EntryState) -> EntryHead {
        let at = |stream: &Stream| {
            let file = if let Stream::File(file) = stream { file.at() } else { None };
            StreamAt { bytes: stream.bytes(), file }
        };
        EntryHead { version: self.inner.next_version(), streams: state.streams.each_ref().map(at) }
    }

    /// See [`super::calls::Entry::doom`].
    pub(super) fn doom(self: &Arc<Self>) {
        let Some(claim) = self.inner.table.doom(self) else { return };
        let (shared, begun) = (self.clone(), self.inner.ongoing.begin());
        drop(self.inner.tasks.spawn(async move {
            let _turn = shared.turn.enter().await;
            shared.erase(claim.is_some()).await;
            drop((claim, begun));
        }));
    }

    /// Remove what is on disk of a doomed entry. What cannot be written down holds until a restart.
    async fn erase(&self, may_be_stored: bool) {
        if may_be_stored && let Err(why) = poll_fn(|cx| self.inner.engine.poll_remove(cx, &self.placement())).await {
            self.inner.lose(format!("a removal was not written, and holds until a restart: {why}"));
        }
        let files = {
            let state = self.lock();
            let stored = state.stored.iter().flat_map(|stored| &stored.files);
            stored.chain(&state.files()).cloned().collect()
        };
        self.let_go(files, true).await;
    }

    /// Nobody needs these files by their names any more: not from now on, or not once what was written lasts.
    async fn let_go(&self, files_of: Vec<Arc<StreamFile>>, now: bool) {
        let Some(files) = self.inner.files.clone().filter(|_| !files_of.is_empty()) else { return };
        let all = files.clone();
        let let_go = move || {
            for at in files_of.iter().filter_map(|file| file.at()) {
                if now { all.remove(at) } else { all.leave(at) }
            }
        };
        if let Err(error) = files.run(let_go).await {
            tracing::warn!("files of streams stay behind until a restart: {error}");
        }
    }
}

/// The streams that go into the record, one behind the other. They are parts of it from now on: nothing is in memory twice.
fn body(state: &mut EntryState) -> Bytes {
    let in_memory = state.streams.iter().filter(|stream| stream.memory_bytes() > 0).count();
    let mut all = BytesMut::new();
    let mut only = Bytes::new();
    let mut ends = Vec::new();
    for stream in &mut state.streams {
        let bytes = match stream {
            Stream::Own(bytes) => Bytes::from(std::mem::take(bytes)),
            Stream::Kept(bytes) => std::mem::take(bytes),
            _ => Bytes::new(),
        };
        let start = all.len() + only.len();
        ends.push(start..start + bytes.len());
        if in_memory > 1 {
            all.extend_from_slice(&bytes);
        } else if !bytes.is_empty() {
            only = bytes;
        }
    }
    let body = if in_memory > 1 { all.freeze() } else { only };
    for (stream, range) in state.streams.iter_mut().zip(ends) {
        if !matches!(stream, Stream::File(_)) {
            *stream = Stream::Kept(body.slice(range));
        }
    }
    body
}
