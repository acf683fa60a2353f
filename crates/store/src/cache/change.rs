//! Changes of whole objects: their removal, and new heads.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use super::Inner;
use crate::engine::{Found, Kind, Placement, Places, Probe, Record};
use crate::layout::table::{Extent, Table};
use crate::memory::aligned::ALIGN;
use crate::store::{HeadEdit, Hint, Removed, Updated};
use crate::terms::{Digest, Key, StoreError, WhyNot};
use crate::wait::promise;
use crate::write::limits::MAX_HEAD_BYTES;

impl Inner {
    pub(super) async fn sync(&self, of: Option<&Digest>) -> Result<(), StoreError> {
        let written = if of.is_none() { self.write_gathered().await } else { Ok(()) };
        let (done, answer) = promise();
        self.engine.sync(of, Box::new(move |result| done.keep(result)));
        let synced = answer.await.unwrap_or_else(|| Err("the device was stopped".into()));
        written.and(synced).map_err(StoreError::Device)
    }

    pub(super) async fn remove(self: Arc<Self>, key: Key, digest: Digest) -> Result<Removed, StoreError> {
        let fills = self.fills.take(&digest, &key);
        fills.iter().for_each(|fill| fill.give_up(WhyNot::Removed));
        let was_there = !fills.is_empty()
            || self.hot.get(&digest, &key).is_some()
            || self.gathered(&digest, &key).is_some()
            || match self.engine.probe(&Placement::of(digest).named(key.name())) {
                Probe::Absent => false,
                Probe::At(_) => true,
                Probe::AskDisk => self.fetch(&key, &digest, &Hint::default(), Places::default()).await.is_some(),
            };
        let removed = std::future::poll_fn(|cx| {
            let _order = self.stripe(&digest);
            self.ungather(&digest);
            self.engine.poll_remove(cx, &Placement::of(digest).named(key.name()))
        })
        .await;
        self.hot.remove(&digest);
        self.reuse.removed(&digest);
        match removed {
            Ok(place) => {
                self.sync(Some(&digest)).await?;
                // A failure that another caller was told of first may have taken what says so.
                if place.is_some_and(|place| !self.engine.is_live(place)) {
                    return Err(StoreError::Device("the removal was written and lost".into()));
                }
            }
            Err(WhyNot::Closed) => return Err(StoreError::Closed),
            Err(why) => return Err(StoreError::Device(format!("the removal was not written: {why}"))),
        }
        Ok(if was_there { Removed::Gone } else { Removed::Absent })
    }

    pub(super) async fn update_head(
        self: Arc<Self>,
        key: Key,
        digest: Digest,
        edit: HeadEdit,
    ) -> Result<Updated, StoreError> {
        let edit = match self.update_gathered(&digest, &key, edit) {
            Ok(updated) => return Ok(updated),
            Err(edit) => edit,
        };
        let at = Placement::of(digest).named(key.name());
        let seen = match self.engine.probe(&at) {
            Probe::At(seen) => seen,
            Probe::Absent | Probe::AskDisk => Places::default(),
        };
        let Some(found) = self.fetch(&key, &digest, &Hint::default(), seen).await else {
            // It may be served from memory still, though its record was overwritten: then it stays as it is, or not at all.
            let in_memory = self.hot.get(&digest, &key);
            if in_memory.is_some_and(|(head, ..)| edit(&head).is_none()) {
                return Ok(Updated::Unchanged);
            }
            self.hot.remove(&digest);
            return Ok(Updated::Absent);
        };
        let Some(head) = edit(&found.head) else {
            return Ok(Updated::Unchanged);
        };
        if head.len() > MAX_HEAD_BYTES {
            return Ok(Updated::NotStored(WhyNot::TooLarge));
        }
        // A long body that is in memory stays there with its new head.
        let in_memory = || self.hot.get(&digest, &key).filter(|(.., place)| *place == found.place);
        let hot_body =
            if found.kind == Kind::Whole { Some(found.body.clone()) } else { in_memory().map(|(_, body, _)| body) };
        let (kind, body) = self.with_body_in_place(&found);
        let record = Record { id: digest, kind, name: key.name(), head: &head, body: &body, related_bytes: 0 };
        let appended = std::future::poll_fn(|cx| {
            let _order = self.stripe(&digest);
            match self.engine.is_newest(&at, found.place, seen) && self.gathered(&digest, &key).is_none() {
                true => self.engine.poll_append(cx, &at, &record),
                false => Poll::Ready(Err(WhyNot::Superseded)),
            }
        })
        .await;
        self.hot.remove(&digest);
        if let (Ok(place), Some(body)) = (&appended, hot_body) {
            self.keep_hot(&key, &digest, &head, (&body[..]).into(), *place);
        }
        Ok(appended.map_or_else(Updated::NotStored, |_| Updated::Done))
    }

    /// What a head record is written with so that the body stays where it is: the table of a large object, or, for a body
    /// that takes more than a block, a table that points into the record it came with. A shorter one is cheaper to copy
    /// than to look up.
    fn with_body_in_place(&self, found: &Found) -> (Kind, Bytes) {
        let bytes = found.body.len() as u32;
        if found.kind != Kind::Whole || bytes as usize <= ALIGN || !self.engine.keeps_body_at(found.place) {
            return (found.kind, found.body.clone());
        }
        let extents = vec![Extent { place: found.place, bytes }];
        let table = Table { first: Bytes::new(), rest_bytes: u64::from(bytes), extent_bytes: bytes, extents };
        (Kind::Large, table.encode().into())
    }
}
