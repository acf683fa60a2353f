//! The writing end of an unfinished write.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::fill::{Fill, Phase};
use super::objects::Objects;
use crate::layout::table::Table;
use crate::store::{Commit, FillId, Hit, Sink};
use crate::terms::{Kind, Pending, Record, WhyNot};
use crate::wait::At;

pub(crate) struct FillSink {
    store: Arc<Objects>,
    fill: Arc<Fill>,
    lease: Option<At>,
    ended: bool,
}

impl FillSink {
    pub(crate) fn new(store: Arc<Objects>, fill: Arc<Fill>) -> Self {
        FillSink { store, fill, lease: None, ended: false }
    }

    /// Ends the write: with all that was announced, or, where there is a head for that, with what has come.
    async fn finish(mut self, of_beginning: Option<Bytes>) -> Commit {
        let fill = self.fill.clone();
        let arrived = fill.lock().arrived();
        let short = fill.hint.expected_bytes.is_some_and(|expected| expected != arrived);
        let outcome = match &of_beginning {
            Some(head) if head.len() > self.store.most_head_bytes() => Err(WhyNot::TooLarge),
            Some(head) => self.store_last(arrived, head, true).await,
            None if short => Err(WhyNot::LengthMismatch),
            None => self.store_last(arrived, &fill.head, false).await,
        };
        self.ended = true;
        if let Err(why) = outcome {
            fill.give_up(why);
        }
        fill.end(if short || of_beginning.is_some() { Phase::Aborted } else { Phase::Whole });
        self.store.fills.remove(&fill);
        self.store.counters.ended(outcome.ok());
        if let Ok(bytes) = outcome {
            self.store.reuse.stored(&fill.digest, bytes);
        }
        outcome.map_or_else(Commit::NotStored, |bytes| Commit::Stored { bytes })
    }

    /// Store what is left and then the record that lookups find, with this head. A beginning is not stored over what has
    /// been stored since. Returns the object's size.
    async fn store_last(&self, arrived: u64, head: &Bytes, is_beginning: bool) -> Result<u64, WhyNot> {
        let fill = &self.fill;
        let large = {
            let state = fill.lock();
            let whole = fill.key.name().len() + head.len() + state.tail.len();
            !state.extents.is_empty()
                || whole > self.store.limits.max_record_bytes - crate::layout::record::HEADER_BYTES
        };
        let mut record = Vec::new();
        if large {
            poll_fn(|cx| {
                let mut state = fill.lock();
                if state.phase == Phase::Open && !state.tail.is_empty() {
                    return fill.poll_extent(&self.store.engine, cx, &mut state);
                }
                Poll::Ready(())
            })
            .await;
            let mut state = fill.lock();
            // From then on a newer version may come. Whoever follows this one reads on.
            let places: Vec<_> = state.extents.iter().map(|extent| extent.place).collect();
            state.hold = self.store.engine.hold(&places);
            record = Table {
                first: state.first.clone(),
                rest_bytes: arrived - state.first.len() as u64,
                extent_bytes: fill.extent_bytes as u32,
                extents: state.extents.clone(),
            }
            .encode();
        }
        let kind = if large { Kind::Large } else { Kind::Whole };
        let place = poll_fn(|cx| {
            let _order = self.store.stripe(&fill.digest);
            let mut guard = fill.lock();
            let state = &mut *guard;
            match state.phase {
                Phase::Open if is_beginning && fill.overtaken.load(Ordering::Relaxed) => {
                    return Poll::Ready(Err(WhyNot::Superseded));
                }
                Phase::Open => {}
                Phase::Relay(why) => return Poll::Ready(Err(why)),
                Phase::Whole | Phase::Aborted => return Poll::Ready(Err(WhyNot::Closed)),
            }
            if state.extents.iter().any(|extent| !self.store.engine.is_live(extent.place)) {
                // So slow that the log went round meanwhile, or a write or sync of a part failed, which others may have been told.
                return Poll::Ready(Err(WhyNot::Evicted));
            }
            let body = if large { &record[..] } else { &state.tail[..] };
            if !large && self.store.gather(&fill.digest, &fill.key, head, body, &fill.hint) {
                drop(guard);
                self.store.fills.overtake(fill);
                return Poll::Ready(Ok(None));
            }
            let (id, name, related_bytes) = (fill.digest, fill.key.name(), 0);
            let record = Record { id, kind, name, head, body, related_bytes };
            let appended = std::task::ready!(match &mut state.stream {
                Some(stream) => stream.poll_end(cx, &record),
                None => self.store.engine.poll_append(cx, &fill.placement(), &record),
            });
            drop(guard);
            if appended.is_ok() {
                self.store.ungather(&fill.digest);
                self.store.fills.overtake(fill);
            }
            Poll::Ready(appended.map(Some))
        })
        .await?;
        self.store.hot.remove(&fill.digest);
        // What waits for its group is in memory anyway.
        if let Some(place) = place.filter(|_| !large) {
            self.store.keep_hot(&fill.key, &fill.digest, head, (&fill.lock().tail[..]).into(), place);
        }
        Ok(head.len() as u64 + arrived)
    }
}

impl Sink for FillSink {
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<()> {
        let poll =
            self.fill.poll_take(&self.store.engine, &self.store.clock, self.store.limits.max_object_bytes, cx, data);
        self.lease = None;
        if poll.is_pending()
            && let Some(until) = self.fill.pushed_back_until()
        {
            // Followers push back: go on when they have read, or when their lease ends.
            let lease = self.lease.insert(self.store.alarm.at(until));
            if Pin::new(lease).poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        poll
    }

    fn id(&self) -> FillId {
        self.fill.id
    }

    fn follow(&self) -> Hit {
        self.fill.follow(self.store.extent_reader(self.fill.digest))
    }

    fn break_off(&mut self) {
        self.fill.break_off();
    }

    fn commit(self: Box<Self>) -> Pending<Commit> {
        Box::pin(self.finish(None))
    }

    fn commit_beginning(self: Box<Self>, head: Bytes) -> Pending<Commit> {
        Box::pin(self.finish(Some(head)))
    }
}

impl Drop for FillSink {
    fn drop(&mut self) {
        if !self.ended {
            self.store.fills.remove(&self.fill);
            self.fill.end(Phase::Aborted);
            self.store.counters.ended(None);
        }
    }
}
