//! What the store's tests share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Device, Medium, Memory, Request};
use tinaja_store::engine::hashcache::{HashCacheLog, HashCacheLogOptions};
use tinaja_store::layout::Stamp;
use tinaja_store::{Cache, Commit, Hint, Key, Secret, Store, block_on};

pub const DISK_BYTES: usize = 8 << 20;
pub const BASE: u64 = 4096;

/// An empty disk.
pub fn blank() -> Medium {
    Medium::zeroed(DISK_BYTES)
}

/// A disk whose requests end at once, as the plan says. What the medium holds outlives the store over it.
pub fn disk(medium: &Medium, plan: impl Fn(u64, &Request) -> Option<Fault> + Send + Sync + 'static) -> Arc<Faulty> {
    Arc::new(Faulty::new(Arc::new(Memory::over(medium)), plan))
}

/// A disk without a fault.
pub fn sound(medium: &Medium) -> Arc<Memory> {
    Arc::new(Memory::over(medium))
}

/// How [`open`] cuts a disk of so many bytes.
pub fn plan(disk_bytes: u64) -> HashCacheLogOptions {
    let stamp = Stamp { seed: Secret::from_bytes(SECRET).seed() };
    HashCacheLog::plan(disk_bytes, BASE, 4096, 4096, stamp).unwrap()
}

const SECRET: [u8; 32] = [7; 32];

/// A store over the whole of a disk; `Err` when it cannot even be read.
pub fn open(disk: Arc<dyn Device>) -> Result<Cache, String> {
    let options = plan(disk.geometry().bytes);
    let engine = HashCacheLog::open(disk, &options)?;
    Ok(Cache::over(Arc::new(engine), Secret::from_bytes(SECRET), 0).unwrap())
}

pub fn key(n: u64) -> Key {
    Key::from_name(&n.to_le_bytes())
}

/// Bodies are a function of key and version, so that a reader can tell what it was given.
pub fn put(store: &Cache, n: u64, version: u64, size: usize) -> Commit {
    let hint = Hint { expected_bytes: Some(size as u64), ..Hint::default() };
    let mut writer = store.put(&key(n), Bytes::from(version.to_string()), hint);
    block_on(async {
        writer.write(bytes_of(n * 1000 + version, size)).await;
        writer.commit().await
    })
}

/// The version found, with every byte compared; `None` for a miss or an error after the head.
pub fn get(store: &Cache, n: u64) -> Option<u64> {
    let mut hit = block_on(store.find(&key(n)))?;
    let version: u64 = std::str::from_utf8(&hit.head).unwrap().parse().unwrap();
    let body = block_on(hit.body.collect(usize::MAX)).ok()?;
    assert!(body == bytes_of(n * 1000 + version, body.len()), "wrong bytes for object {n}");
    Some(version)
}
