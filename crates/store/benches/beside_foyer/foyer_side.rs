//! foyer, measured: its block engine on a directory with direct I/O, and nothing kept in memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCachePolicy,
    IoEngineConfig, Load, PsyncIoEngineConfig, UringIoEngineConfig,
};
use tokio::sync::Semaphore;

use crate::objects::Objects;
use crate::phase::Side;

/// foyer drops puts in silence when its write buffer of 16 MiB is full. So no more than 12 MiB are given to it before
/// it has said that they are written: nothing is dropped, and it always has enough to write.
const AHEAD_PAGES: usize = (12 << 20) / PAGE;
const WINDOW_PAGES: usize = (2 << 20) / PAGE;
const PAGE: usize = 4096;

/// As a program would use it: through the hybrid cache.
#[derive(Clone)]
pub struct FoyerHybrid {
    cache: HybridCache<Vec<u8>, Bytes>,
    objects: Objects,
    room: Arc<Semaphore>,
    unacknowledged: Arc<AtomicUsize>,
}

impl FoyerHybrid {
    pub async fn open(dir: &Path, objects: Objects, disk_bytes: u64) -> Self {
        let device = FsDeviceBuilder::new(dir).with_capacity(disk_bytes as usize).with_direct(true).build().unwrap();
        let io: Box<dyn IoEngineConfig> = if std::env::args().any(|argument| argument == "--foyer-uring") {
            UringIoEngineConfig::new().boxed()
        } else {
            PsyncIoEngineConfig::new().boxed()
        };
        let cache = HybridCacheBuilder::new()
            .with_policy(HybridCachePolicy::WriteOnInsertion)
            .memory(1)
            .with_filter(|_: &Vec<u8>, _: &Bytes| false)
            .storage()
            .with_io_engine_config(io)
            .with_engine_config(BlockEngineConfig::new(device))
            .build()
            .await
            .unwrap();
        let room = Arc::new(Semaphore::new(AHEAD_PAGES));
        FoyerHybrid { cache, objects, room, unacknowledged: Arc::default() }
    }

    /// How many of the objects numbered from 0 on its index has, of as many as its disk has room for.
    pub fn found(&self) -> u64 {
        self.found_of(self.cache.storage().device().capacity() as u64 / self.objects.bytes_on_foyer())
    }

    /// How many of the first so many objects its index has.
    pub fn found_of(&self, objects: u64) -> u64 {
        (0..objects).map(|number| u64::from(self.cache.storage().may_contains(&Objects::name(number)))).sum()
    }

    /// What an object takes on its disk.
    pub fn bytes_on_disk(&self) -> u64 {
        self.objects.bytes_on_foyer()
    }

    pub async fn close(&self) {
        self.cache.close().await.unwrap();
    }

    fn written(&self, pages: usize) {
        let (storage, room) = (self.cache.storage().clone(), self.room.clone());
        tokio::spawn(async move {
            storage.wait().await;
            room.add_permits(pages);
        });
    }
}

impl Side for FoyerHybrid {
    const NAME: &'static str = "foyer";

    fn payload_bytes(&self, number: u64) -> u64 {
        self.objects.payload_bytes(number)
    }

    async fn put(&self, number: u64) -> bool {
        let pages = self.objects.one_on_foyer(number) as usize / PAGE;
        self.room.acquire_many(pages as u32).await.unwrap().forget();
        drop(self.cache.insert(Objects::name(number), self.objects.body(number)));
        if self.unacknowledged.fetch_add(pages, Relaxed) + pages >= WINDOW_PAGES {
            self.written(self.unacknowledged.swap(0, Relaxed));
        }
        true
    }

    async fn get(&self, number: u64) -> bool {
        let Some(entry) = self.cache.get(&Objects::name(number)).await.unwrap() else { return false };
        assert!(self.objects.is_body(number, entry.value()), "wrong bytes");
        true
    }

    async fn settle(&self) {
        self.written(self.unacknowledged.swap(0, Relaxed));
        let all = self.room.acquire_many(AHEAD_PAGES as u32).await.unwrap();
        drop(all);
    }
}

/// Gets of its storage alone, past the hybrid cache: less work than a program gets away with.
#[derive(Clone)]
pub struct FoyerStorage(pub FoyerHybrid);

impl Side for FoyerStorage {
    const NAME: &'static str = "foyer's";

    fn payload_bytes(&self, number: u64) -> u64 {
        self.0.payload_bytes(number)
    }

    async fn put(&self, number: u64) -> bool {
        self.0.put(number).await
    }

    async fn get(&self, number: u64) -> bool {
        match self.0.cache.storage().load(&Objects::name(number)).await.unwrap() {
            Load::Entry { value, .. } => {
                assert!(self.0.objects.is_body(number, &value), "wrong bytes");
                true
            }
            Load::Piece { piece, .. } => self.0.objects.is_body(number, piece.value()),
            Load::Miss | Load::Throttled => false,
        }
    }

    async fn settle(&self) {
        self.0.settle().await;
    }
}
