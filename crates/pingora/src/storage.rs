//! Pingora's storage interface, answered by a store.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora_cache::key::CacheHashKey;
use pingora_cache::lock::CacheKeyLockImpl;
use pingora_cache::meta::CacheMeta;
use pingora_cache::storage::streaming_write::U64WriteId;
use pingora_cache::storage::{HitHandler, MissHandler, PurgeOutcome, PurgeTarget, Storage};
use pingora_cache::trace::SpanHandle;
use pingora_cache::{CacheKey, PurgeType};
use pingora_error::{Error, ErrorType, Result};
use tinaja_store::{FillId, Hint, Hit, Key, Removed, Store, Updated};

use crate::fault::fault;
use crate::head::{StoredHead, encode, is_old};
use crate::hit::HitReader;
use crate::lock::{FillLock, looked_up};
use crate::miss::{MissWriter, announced_bytes};
use crate::name::store_key;
use crate::relay::Relays;

/// A Tinaja store as Pingora's cache storage. See the [crate's page](crate) for what it promises.
pub struct TinajaStorage {
    store: Arc<dyn Store>,
    relays: Relays,
}

impl TinajaStorage {
    /// Put `store` behind Pingora's interface.
    ///
    /// Pingora wants a storage that lives for ever, so this leaks a few hundred bytes and keeps the store open until
    /// the process ends: call it once for each store. To end in order, stop the server, then `store().close()`.
    // A constructor that is not `Self` on purpose: no other form of it is of use.
    #[allow(clippy::new_ret_no_self)]
    pub fn new(store: Arc<dyn Store>) -> &'static TinajaStorage {
        Box::leak(Box::new(TinajaStorage { relays: Relays::by(store.clock()), store }))
    }

    /// A cache lock for this storage, to be given to `session.cache.enable`: of many requests for one new object one
    /// asks the origin, the others read along. Pingora's own [`CacheLock`] now and then lets two ask (`lock.rs` says
    /// when). A fill that has not begun after `age_timeout` is no longer waited for; 10 s is usual.
    ///
    /// Pingora wants a lock that lives for ever, so this leaks a few kilobytes: call it once for each storage.
    ///
    /// [`CacheLock`]: pingora_cache::lock::CacheLock
    pub fn lock(&'static self, age_timeout: Duration) -> &'static CacheKeyLockImpl {
        Box::leak(Box::new(FillLock::new(self.store.clone(), age_timeout)))
    }

    /// The store behind: for its counters, listings, flushes, and to close it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What an object is called in the store: its combined hash alone, since purges know no more. The primary key is
    /// in the head ([`crate::primary_key`]).
    pub fn store_key(key: &impl CacheHashKey) -> Key {
        store_key(key)
    }

    /// How many requests read along the fill that `tag` names ([`HandleMiss::streaming_write_tag`]), the one that causes
    /// it included; 0 once it has ended. A fill whose client has left may go on for the others.
    ///
    /// [`HandleMiss::streaming_write_tag`]: pingora_cache::storage::HandleMiss::streaming_write_tag
    pub fn followers(&self, key: &impl CacheHashKey, tag: &[u8]) -> usize {
        let Ok(write) = U64WriteId::try_from(tag) else {
            return 0;
        };
        self.store.followers(&Self::store_key(key), FillId(write.into()))
    }

    /// The metadata of a found object; `None` if it is another key's, or cannot be read and was removed.
    async fn meta(&self, place: &Key, key: &CacheKey, hit: &Hit) -> Option<CacheMeta> {
        match StoredHead::decode(&hit.head).map(|head| head.belongs_to(key).then(|| head.meta())) {
            Some(None) => None,
            Some(Some(Some(meta))) => Some(meta),
            None | Some(Some(None)) => {
                if is_old(&hit.head) {
                    tracing::debug!("removing an object that an earlier version stored: {place:?}");
                } else {
                    tracing::warn!("removing an object whose head cannot be read: {place:?}");
                }
                if let Err(error) = self.store.remove(place).await {
                    tracing::warn!("an object whose head cannot be read was not removed: {error}");
                }
                None
            }
        }
    }

    async fn remove(&self, place: &Key) -> Result<PurgeOutcome> {
        match self.store.remove(place).await {
            Ok(Removed::Gone | Removed::Elsewhere) => Ok(PurgeOutcome::Purged(None)),
            Ok(Removed::Absent) => Ok(PurgeOutcome::NotFound),
            Err(error) => Err(fault("purging", error)),
        }
    }
}

/// The store's name for a target; `None` for one that names a generation, as this storage hands out no such names.
fn place_of(target: PurgeTarget<'_>) -> Option<Key> {
    match target {
        PurgeTarget::Exact(entry) if entry.entry_id().is_some() => None,
        target => Some(TinajaStorage::store_key(target.key())),
    }
}

#[async_trait]
impl Storage for TinajaStorage {
    async fn lookup(&'static self, key: &CacheKey, _: &SpanHandle) -> Result<Option<(CacheMeta, HitHandler)>> {
        let place = Self::store_key(key);
        let found = self.store.find(&place).await;
        looked_up(key, found.is_none());
        let Some(hit) = found else {
            return Ok(None);
        };
        let Some(meta) = self.meta(&place, key, &hit).await else {
            return Ok(None);
        };
        match HitReader::open(hit, key).await {
            Ok(reader) => Ok(Some((meta, Box::new(reader)))),
            Err(error) => {
                tracing::debug!("a stored object counts as a miss: {error}");
                Ok(None)
            }
        }
    }

    /// Only ever the write that the tag names: Pingora sends the header of that write, and the body must be its own.
    /// An error, never `None` (which Pingora answers with a panic), once that write has ended or was purged; Pingora
    /// then passes the response on without the cache.
    async fn lookup_streaming_write(
        &'static self,
        key: &CacheKey,
        tag: Option<&[u8]>,
        trace: &SpanHandle,
    ) -> Result<Option<(CacheMeta, HitHandler)>> {
        let Some(tag) = tag else {
            return self.lookup(key, trace).await;
        };
        let write = U64WriteId::try_from(tag).map_err(|error| fault("reading a streaming write tag", error))?;
        let (place, fill) = (Self::store_key(key), FillId(write.into()));
        let ended = || Error::explain(ErrorType::InternalError, "the write to read along has ended or was purged");
        let hit = self.store.follow(&place, fill).ok_or_else(ended)?;
        let meta = self.meta(&place, key, &hit).await.ok_or_else(ended)?;
        let Hit { head, state, source, body } = hit;
        match self.relays.get(fill).map(|relay| relay.reader(body)) {
            Some(Ok(own)) => Ok(Some((meta, Box::new(own)))),
            Some(Err(body)) => {
                let hit = Hit { head, state, source, body };
                let reader = HitReader::open(hit, key).await.map_err(|error| fault("reading along a fill", error))?;
                Ok(Some((meta, Box::new(reader))))
            }
            None => Err(ended()),
        }
    }

    async fn get_miss_handler(&'static self, key: &CacheKey, meta: &CacheMeta, _: &SpanHandle) -> Result<MissHandler> {
        let can_validate = ["etag", "last-modified"].iter().any(|name| meta.headers().contains_key(*name));
        let hint = Hint {
            expected_bytes: announced_bytes(meta),
            fresh_until: Some(meta.fresh_until()),
            can_validate: Some(can_validate),
            ..Hint::default()
        };
        let writer = self.store.put(&Self::store_key(key), encode(key, meta)?, hint);
        Ok(Box::new(MissWriter::new(&self.relays, writer)))
    }

    async fn purge(&'static self, target: PurgeTarget<'_>, _: PurgeType, _: &SpanHandle) -> Result<PurgeOutcome> {
        match place_of(target) {
            Some(place) => self.remove(&place).await,
            None => Ok(PurgeOutcome::NotFound),
        }
    }

    /// Marks the stored object stale; what cannot be marked is removed.
    async fn expire(&'static self, target: PurgeTarget<'_>, _: &SpanHandle) -> Result<PurgeOutcome> {
        let Some(place) = place_of(target) else {
            return Ok(PurgeOutcome::NotFound);
        };
        let now = self.store.clock().wall();
        let edit = move |present: &bytes::Bytes| {
            let head = StoredHead::decode(present)?;
            let mut meta = head.meta()?;
            meta.expire_at(now);
            head.with_meta(&meta).ok()
        };
        match self.store.update_head(&place, Box::new(edit)).await {
            Ok(Updated::Done) => Ok(PurgeOutcome::Expired),
            Ok(Updated::Absent) => Ok(PurgeOutcome::NotFound),
            Ok(Updated::Unchanged | Updated::NotStored(_)) | Err(_) => self.remove(&place).await,
        }
    }

    /// `Ok(false)` when the object was forgotten or replaced meanwhile: metadata never move to another body. Pingora
    /// keeps `created` through a revalidation, so that tells one body from the next.
    async fn update_meta(&'static self, key: &CacheKey, meta: &CacheMeta, _: &SpanHandle) -> Result<bool> {
        let new = encode(key, meta)?;
        let (key_then, created) = (key.clone(), meta.created());
        let edit = move |present: &bytes::Bytes| {
            let head = StoredHead::decode(present).filter(|head| head.belongs_to(&key_then))?;
            (head.meta()?.created() == created).then_some(new)
        };
        match self.store.update_head(&Self::store_key(key), Box::new(edit)).await {
            Ok(updated) => Ok(updated == Updated::Done),
            Err(error) => Err(fault("updating metadata", error)),
        }
    }

    fn support_streaming_partial_write(&self) -> bool {
        true
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync + 'static) {
        self
    }
}
