//! What the store's tests share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::{Counters, Device, Geometry, Op, Outcome, Request};
use tinaja_store::engine::hashcache::HashCacheLog;
use tinaja_store::layout::Stamp;
use tinaja_store::{Cache, Commit, Hint, Key, Secret, Store, block_on};

/// What happens to a request: decided by its number and what it is.
pub type Plan = Box<dyn Fn(u64, &Request) -> Fate + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Done,
    Fails,
    /// It ends only when the device is stopped.
    Stalls,
}

/// A disk in memory whose requests end at once, as the plan says. What it holds outlives the store over it.
pub struct Disk {
    pub bytes: Arc<Mutex<Vec<u8>>>,
    pub calls: AtomicU64,
    plan: Plan,
    stalled: Mutex<Vec<Op>>,
}

pub const DISK_BYTES: usize = 8 << 20;
pub const BASE: u64 = 4096;

impl Disk {
    pub fn new(bytes: Arc<Mutex<Vec<u8>>>, plan: Plan) -> Arc<Self> {
        Arc::new(Disk { bytes, calls: AtomicU64::new(0), plan, stalled: Mutex::default() })
    }

    pub fn empty() -> Arc<Mutex<Vec<u8>>> {
        Arc::new(Mutex::new(vec![0; DISK_BYTES]))
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        Geometry { bytes: DISK_BYTES as u64, block_bytes: 512, direct: false }
    }

    fn submit(&self, op: Op) {
        match (self.plan)(self.calls.fetch_add(1, SeqCst), &op.request) {
            Fate::Stalls => return self.stalled.lock().push(op),
            Fate::Fails => {
                return (op.done)(Outcome { buffer: None, result: Err(io::Error::other("this one was to fail")) });
            }
            Fate::Done => {}
        }
        let mut bytes = self.bytes.lock();
        let buffer = match op.request {
            Request::Read { at, mut into } => {
                let len = into.len();
                into.copy_from_slice(&bytes[at as usize..at as usize + len]);
                Some(into)
            }
            Request::Write { at, from, part } => {
                bytes[at as usize..at as usize + part.len()].copy_from_slice(&from[part]);
                None
            }
            Request::Sync => None,
        };
        drop(bytes);
        (op.done)(Outcome { buffer, result: Ok(()) });
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn stop(&self) {
        for op in self.stalled.lock().drain(..) {
            (op.done)(Outcome { buffer: None, result: Err(io::Error::other("stopped")) });
        }
    }
}

/// A store over such a disk; `Err` when it cannot even be read.
pub fn open(disk: Arc<Disk>) -> Result<Cache, String> {
    let secret = Secret::from_bytes([7; 32]);
    let stamp = Stamp { seed: secret.seed() };
    let options = HashCacheLog::plan(DISK_BYTES as u64, BASE, 4096, 4096, stamp).unwrap();
    let engine = HashCacheLog::open(disk, &options)?;
    Ok(Cache::over(Arc::new(engine), secret, 0).unwrap())
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
