//! A long body on its way into its file.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::engine::Inner;
use super::files::Whence;
use super::format::{self, END_BYTES, Within};
use crate::engine::{BodyWriter, Kind, Place, Record};
use crate::layout::record;
use crate::terms::{Digest, WhyNot};

/// One body. Dropped before its end, its file goes.
pub(super) struct Body {
    inner: Arc<Inner>,
    digest: Digest,
    whence: Whence,
    /// From the first part on.
    file: Option<u64>,
    parts: u64,
    ended: bool,
}

impl Body {
    pub(super) fn new(inner: Arc<Inner>, digest: Digest, whence: Whence) -> Body {
        Body { inner, digest, whence, file: None, parts: 0, ended: false }
    }
}

impl BodyWriter for Body {
    fn poll_part(&mut self, cx: &mut Context<'_>, part: &[u8]) -> Poll<Result<Place, WhyNot>> {
        let record = Record { id: self.digest, kind: Kind::Extent, name: &[], head: &[], body: part, related_bytes: 0 };
        let Some(bytes) = record::record_bytes(&record) else { return Poll::Ready(Err(WhyNot::TooLarge)) };
        let sum = self.inner.stamp().payload_sum(&record);
        let inner = self.inner.clone();
        inner.change(|files, tasks| {
            ready!(inner.poll_room(cx, files, bytes))?;
            let file = match self.file.or_else(|| files.begin(self.digest, &self.whence, None, tasks)) {
                Some(file) => file,
                None => return inner.wait(cx, files),
            };
            self.file = Some(file);
            let place = format::place(file, Within::Part(self.parts)).ok_or(WhyNot::TooLarge)?;
            let bytes = format::encode(inner.stamp(), &record, place, sum).ok_or(WhyNot::TooLarge)?;
            // A part that could not be written has taken the file with it.
            files.part(file, place, bytes.into(), tasks).ok_or(WhyNot::Device)?;
            self.parts += 1;
            Poll::Ready(Ok(place))
        })
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let Some((file, bytes)) = self.file.zip(record::record_bytes(record)) else {
            return Poll::Ready(Err(WhyNot::TooLarge));
        };
        let sum = self.inner.stamp().payload_sum(record);
        let inner = self.inner.clone();
        inner.change(|files, tasks| {
            ready!(inner.poll_room(cx, files, bytes + END_BYTES))?;
            let parts_bytes = files.get(file).ok_or(WhyNot::Device)?.parts_bytes;
            let place = format::place(file, Within::Record(0)).ok_or(WhyNot::TooLarge)?;
            let bytes = inner.encode_last(files, record, place, sum, parts_bytes).ok_or(WhyNot::TooLarge)?;
            files.publish(file, place, bytes, tasks).ok_or(WhyNot::Device)?;
            self.ended = true;
            Poll::Ready(Ok(place))
        })
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(file) = self.file.filter(|_| !self.ended) {
            self.inner.change(|files, tasks| files.drop_file(file, tasks));
        }
    }
}
