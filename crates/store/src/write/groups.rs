//! Writing related objects one right behind the other; see [`super::gather`].

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::Poll;

use bytes::Bytes;
use tinaja_clock::Clock;

use super::gather::{Gather, Gathered};
use super::objects::Objects;
use crate::engine::{Engine, Kind, Record};
use crate::store::{Body, HeadEdit, Hint, Hit, Source, State, Updated};
use crate::terms::{Digest, Key, WhyNot};
use crate::wait::block_on_by;
use crate::write::limits::{MAX_GATHERED_OBJECT, MAX_HEAD_BYTES};

fn record<'a>(object: &'a Gathered, related_bytes: usize) -> Record<'a> {
    let Gathered { digest, key, head, body, .. } = object;
    Record { id: *digest, kind: Kind::Whole, name: key.name(), head, body, related_bytes }
}

/// What waits for each disk of an engine; nothing waits for one that does not read related objects together.
pub(super) fn gathers(engine: &dyn Engine, clock: &Clock) -> Arc<[Gather]> {
    let disks = if engine.capabilities().related.is_some() { engine.disks() } else { 0 };
    (0..disks).map(|_| Gather::new(clock.clone())).collect()
}

/// Start the threads that write groups out, one for each disk, so that one that stalls keeps its own. They end when the
/// store is closed or dropped. Errors: the system has no more threads.
pub(super) fn start(store: &Arc<Objects>) -> std::io::Result<()> {
    for disk in 0..store.gathers.len() {
        let (gathers, weak) = (store.gathers.clone(), Arc::downgrade(store));
        let work = move || {
            if let Some(gather) = gathers.get(disk) {
                write_out(gather, &weak);
            }
        };
        store.clock.spawn("tinaja-groups", work)?;
    }
    Ok(())
}

fn write_out(gather: &Gather, store: &Weak<Objects>) {
    while let Some(due) = gather.wait() {
        let Some(store) = store.upgrade() else { return };
        due.iter().for_each(|group| block_on_by(&store.clock, store.write_group(gather, group)));
    }
}

impl Objects {
    fn gather_of(&self, digest: &Digest) -> Option<&Gather> {
        if self.gathers.is_empty() { None } else { self.gathers.get(self.engine.disk_of(digest)) }
    }

    /// Let a whole object wait for its group; false if it is to be written at once. The caller holds the object's turn.
    pub(crate) fn gather(&self, digest: &Digest, key: &Key, head: &Bytes, body: &[u8], hint: &Hint) -> bool {
        let Some(group) = hint.group else { return false };
        let Some(gather) = self.gather_of(digest) else { return false };
        if !self.may_wait(key, head, body.len()) {
            return false;
        }
        let (key, head, body) = (key.clone(), head.clone(), Bytes::copy_from_slice(body));
        gather.put(Gathered { digest: *digest, key, head, body, group, hint: *hint })
    }

    fn may_wait(&self, key: &Key, head: &Bytes, body_bytes: usize) -> bool {
        let most = MAX_GATHERED_OBJECT.min(self.limits.max_record_bytes / 2);
        key.name().len() + head.len() + body_bytes <= most
    }

    /// An object was written or removed: no older version of it waits any more. The caller holds the object's turn.
    pub(crate) fn ungather(&self, digest: &Digest) {
        if let Some(gather) = self.gather_of(digest) {
            gather.take(digest);
        }
    }

    /// The object, if it waits for its group.
    pub(crate) fn gathered(&self, digest: &Digest, key: &Key) -> Option<Arc<Gathered>> {
        self.gather_of(digest)?.get(digest, key)
    }

    /// A hit, if it waits for its group.
    pub(crate) fn find_gathered(&self, digest: &Digest, key: &Key) -> Option<Hit> {
        let object = self.gathered(digest, key)?;
        self.counters.found(Source::Memory);
        self.reuse.found(digest, (object.head.len() + object.body.len()) as u64);
        let body = Body::from_bytes(object.body.clone());
        Some(Hit { head: object.head.clone(), state: State::Whole, source: Source::Memory, body })
    }

    /// Replace the head of an object that waits; gives `edit` back if none does.
    pub(crate) fn update_gathered(&self, digest: &Digest, key: &Key, edit: HeadEdit) -> Result<Updated, HeadEdit> {
        let _order = self.stripe(digest);
        let found = self.gather_of(digest).and_then(|gather| Some((gather, gather.get(digest, key)?)));
        let Some((gather, object)) = found else { return Err(edit) };
        let Some(head) = edit(&object.head) else { return Ok(Updated::Unchanged) };
        if head.len() > MAX_HEAD_BYTES || !self.may_wait(key, &head, object.body.len()) {
            return Ok(Updated::NotStored(WhyNot::TooLarge));
        }
        let (key, body) = (key.clone(), object.body.clone());
        let is_kept = gather.put(Gathered { digest: *digest, key, head, body, group: object.group, hint: object.hint });
        Ok(if is_kept { Updated::Done } else { Updated::NotStored(WhyNot::Busy) })
    }

    /// Write all that waits.
    pub(crate) async fn write_waiting(&self) {
        for gather in &*self.gathers {
            for group in gather.all() {
                self.write_group(gather, &group).await;
            }
        }
    }

    /// Write all that waits, and then tell what could not be written since this was last asked. Errors: the device's.
    pub(crate) async fn write_gathered(&self) -> Result<(), String> {
        self.write_waiting().await;
        let lost = self.gathers.iter().fold(None, |lost, gather| gather.take_lost().or(lost));
        lost.map_or(Ok(()), Err)
    }

    /// Write what waits of a group that is over.
    pub(crate) async fn end_group(&self, group: u64) {
        for gather in &*self.gathers {
            self.write_group(gather, &gather.end(group)).await;
        }
    }

    /// Write the objects of a group one right behind the other, but for those that were written or replaced meanwhile.
    async fn write_group(&self, gather: &Gather, group: &[Arc<Gathered>]) {
        let related = self.engine.capabilities().related;
        let size = |object: &Arc<Gathered>| related.map_or(0, |related| related.log_bytes(&record(object, 0)));
        let sizes: Vec<_> = group.iter().map(size).collect();
        let mut related_bytes = sizes.iter().sum();
        for (object, bytes) in group.iter().zip(sizes) {
            self.write_one(gather, object, related_bytes).await;
            related_bytes -= bytes;
        }
    }

    async fn write_one(&self, gather: &Gather, object: &Arc<Gathered>, related_bytes: usize) {
        let at = object.hint.placement(object.digest, &object.key);
        let place = poll_fn(|cx| {
            let _order = self.stripe(&object.digest);
            if !gather.has(object) {
                return Poll::Ready(None);
            }
            let appended = std::task::ready!(self.engine.poll_append(cx, &at, &record(object, related_bytes)));
            // Found on the engine from here on.
            match &appended {
                Ok(_) => gather.take(&object.digest),
                Err(why) => {
                    gather.lose(&object.digest, format!("an object that had been stored was not written: {why}"))
                }
            }
            Poll::Ready(appended.ok())
        })
        .await;
        if let Some(place) = place {
            self.hot.remove(&object.digest);
            self.keep_hot(&object.key, &object.digest, &object.head, (&object.body[..]).into(), place);
        }
    }
}
