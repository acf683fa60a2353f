//! Tinaja's store, measured.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::device::IoEngine;
use tinaja_store::{Cache, CacheOptions, Commit, EngineRef, Hint, Key, Lookup, Settings, Stats, Store, engines};

use crate::objects::Objects;
use crate::phase::Side;

/// A cache with nothing hot, and an index for objects of the measured size.
#[derive(Clone)]
pub struct Tinaja {
    cache: Arc<Cache>,
    objects: Objects,
}

impl Tinaja {
    pub fn open(dir: &Path, objects: Objects, disk_bytes: u64) -> Self {
        Self::open_as(dir, engines::HASHCACHE_LOG, Settings::new(), objects, disk_bytes)
    }

    pub fn open_as(dir: &Path, engine: EngineRef, settings: Settings, objects: Objects, disk_bytes: u64) -> Self {
        let threads = std::env::args().any(|argument| argument == "--threads");
        let options = CacheOptions::new(dir)
            .io(if threads { IoEngine::Threads } else { IoEngine::Auto })
            .engine(engine)
            .settings(settings)
            .disk_bytes(disk_bytes)
            .memory_bytes(0)
            .mean_object_bytes(objects.size as u64);
        Tinaja { cache: Arc::new(Cache::open(options).unwrap()), objects }
    }

    pub fn stats(&self) -> Stats {
        self.cache.stats()
    }

    pub async fn close(&self) {
        self.cache.close().await.unwrap();
    }
}

impl Side for Tinaja {
    const NAME: &'static str = "tinaja";

    fn payload_bytes(&self, number: u64) -> u64 {
        self.objects.payload_bytes(number)
    }

    async fn put(&self, number: u64) -> bool {
        let hint = Hint { expected_bytes: Some(self.objects.size_of(number) as u64), ..Hint::default() };
        let mut writer = self.cache.put(&Key::from_name(&Objects::name(number)), Bytes::new(), hint);
        writer.write(self.objects.body(number)).await;
        matches!(writer.commit().await, Commit::Stored { .. })
    }

    async fn get(&self, number: u64) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        let hit = match self.cache.lookup(&Key::from_name(&Objects::name(number)), deadline) {
            Lookup::Absent => None,
            Lookup::Here(hit) => Some(hit),
            Lookup::Wait(pending) => pending.await,
        };
        let Some(mut hit) = hit else { return false };
        let Ok(Some(mut body)) = hit.body.next(usize::MAX).await else { return false };
        if body.len() < self.objects.size_of(number) {
            // On small disks the larger ones lie in several pieces.
            let Ok(rest) = hit.body.collect(usize::MAX).await else { return false };
            body = [body, rest].concat().into();
        }
        assert!(self.objects.is_body(number, &body), "wrong bytes");
        true
    }

    async fn settle(&self) {
        self.cache.flush().await.unwrap();
    }
}
