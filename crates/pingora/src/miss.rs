//! Writing the body of a response that is on its way to a client.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use pingora_cache::meta::CacheMeta;
use pingora_cache::storage::streaming_write::U64WriteId;
use pingora_cache::storage::{HandleMiss, MissFinishType};
use pingora_error::Result;
use tinaja_store::{Commit, FillId, Writer};

use crate::relay::{Pull, RELAY_FREE_BYTES, Relay, Relays};

/// A fill. Dropped before [`HandleMiss::finish`], it is aborted.
pub(crate) struct MissWriter {
    relays: &'static Relays,
    /// There until the commit.
    writer: Option<Writer>,
    relay: Arc<Relay>,
    tag: U64WriteId,
    written_bytes: usize,
}

impl MissWriter {
    pub(crate) fn new(relays: &'static Relays, writer: Writer) -> Self {
        let fill = writer.id();
        let relay = relays.open(fill);
        MissWriter { relays, writer: Some(writer), relay, tag: fill.0.into(), written_bytes: 0 }
    }

    /// Write all of `data`. While the store pushes back, read ahead for this fill's own client: see [`crate::relay`].
    async fn write(&mut self, mut data: Bytes) {
        let MissWriter { writer: Some(writer), relay, .. } = self else {
            return;
        };
        let mut limit_bytes = RELAY_FREE_BYTES;
        let (writing_since, mut waited) = (relay.clock().now(), false);
        loop {
            let written = poll_fn(|cx| {
                while writer.poll_write(cx, &mut data).is_pending() {
                    waited = true;
                    match relay.pull(cx, limit_bytes) {
                        Pull::Piece => continue,
                        Pull::Nothing => return Poll::Pending,
                        Pull::Full => return Poll::Ready(false),
                    }
                }
                Poll::Ready(true)
            });
            if written.await {
                break;
            }
            let later = poll_fn(|cx| writer.poll_write(cx, &mut data));
            if tokio::time::timeout(relay.pause(), later).await.is_ok() {
                break;
            }
            limit_bytes = relay.one_more(writing_since).unwrap_or_else(|| {
                tracing::warn!(
                    "the store cannot keep an object and its client is too slow to pass it on: giving it up"
                );
                RELAY_FREE_BYTES
            });
        }
        if waited {
            relay.wake_reader();
        }
    }
}

impl Drop for MissWriter {
    fn drop(&mut self) {
        self.relays.close(FillId(self.tag.into()));
    }
}

#[async_trait]
impl HandleMiss for MissWriter {
    // `eof` says that no more is written, not that the body is whole: that is what finish says.
    async fn write_body(&mut self, data: Bytes, _eof: bool) -> Result<()> {
        self.written_bytes = self.written_bytes.saturating_add(data.len());
        if !data.is_empty() {
            self.write(data).await;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<MissFinishType> {
        let written = MissFinishType::Created(self.written_bytes);
        let Some(writer) = self.writer.take() else {
            return Ok(written);
        };
        match writer.commit().await {
            Commit::Stored { bytes } => Ok(MissFinishType::Created(usize::try_from(bytes).unwrap_or(usize::MAX))),
            Commit::NotStored(why) => {
                // An error here would end the client's download, which has nothing to do with it.
                tracing::debug!("an object was not stored: {why}");
                Ok(written)
            }
        }
    }

    fn streaming_write_tag(&self) -> Option<&[u8]> {
        Some(self.tag.as_bytes())
    }
}

/// The length of the body that `meta` announces; `None` where the response has none or gives none.
pub fn announced_bytes(meta: &CacheMeta) -> Option<u64> {
    if matches!(meta.response_header().status.as_u16(), 100..=199 | 204 | 304) {
        return None;
    }
    let mut lengths = meta.headers().get_all("content-length").iter();
    let length = lengths.next()?.to_str().ok()?.trim();
    let all_digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits && lengths.next().is_none() { length.parse().ok() } else { None }
}
