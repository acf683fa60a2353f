//! What the store's tests share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

pub mod bits;
pub mod parking;
pub mod random;
pub mod reading;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Device, Medium, Memory, Request};
use tinaja_store::engine::hashcache::{HashCacheLog, HashCacheLogOptions};
use tinaja_store::engine::registry::{Ask, Cut, Opening};
use tinaja_store::layout::{LogSection, Stamp};
use tinaja_store::{Cache, Clock, Commit, EngineRef, Hint, Key, Secret, Settings, Source, Store, block_on, engines};

pub const DISK_BYTES: usize = 8 << 20;
pub const BASE: u64 = 4096;

/// An empty disk.
pub fn blank() -> Medium {
    Medium::zeroed(DISK_BYTES)
}

/// A disk whose requests end at once, as the plan says. What the medium holds outlives the store over it.
pub fn disk(medium: &Medium, plan: impl Fn(u64, &Request) -> Option<Fault> + Send + Sync + 'static) -> Arc<Faulty> {
    disk_by(Clock::system(), medium, plan)
}

/// The same by another clock. If that stands still, nothing is flushed but what the test asks for.
pub fn disk_by(
    clock: Clock,
    medium: &Medium,
    plan: impl Fn(u64, &Request) -> Option<Fault> + Send + Sync + 'static,
) -> Arc<Faulty> {
    Arc::new(Faulty::new(Arc::new(Memory::by(clock, medium)), plan))
}

/// A disk without a fault.
pub fn sound(medium: &Medium) -> Arc<Memory> {
    Arc::new(Memory::over(medium))
}

/// One test for each engine that there is of each function named, which takes an engine; and for some with prefetching.
#[macro_export]
macro_rules! for_every_engine {
    ($($test:ident),* $(,)?) => {
        $(mod $test {
            tinaja_store::for_built_in_engines!($crate::test_of_each, $test);

            #[test]
            fn hashcache_set_with_prefetching() {
                $crate::support::with_prefetching(|| super::$test(tinaja_store::engines::HASHCACHE_SET));
            }
            #[test]
            fn hashcache_log_with_prefetching() {
                $crate::support::with_prefetching(|| super::$test(tinaja_store::engines::HASHCACHE_LOG));
            }
            #[test]
            fn generational_with_its_index_on_disk() {
                $crate::support::with_index_on_disk(|| super::$test(tinaja_store::engines::GENERATIONAL));
            }
        })*
    };
}

/// The tests of one function: see [`tinaja_store::for_built_in_engines`].
#[macro_export]
macro_rules! test_of_each {
    (($test:ident) $($name:ident: $engine:ident = $folder:ident::$record:ident,)*) => {
        $(#[test]
        fn $name() {
            super::$test(tinaja_store::engines::$engine);
        })*
    };
}

thread_local! {
    static PREFETCHES: Cell<bool> = const { Cell::new(false) };
    static GROUPS: Cell<bool> = const { Cell::new(false) };
    static ON_DISK: Cell<bool> = const { Cell::new(false) };
}

/// What is put from this thread from now on belongs to one of a few groups, if the test's stores read these together.
pub fn put_in_groups() {
    GROUPS.set(true);
}

/// Whether what is put from this thread belongs to groups: a removal then makes nothing last but itself.
pub fn puts_in_groups() -> bool {
    PREFETCHES.get() && GROUPS.get()
}

/// Run a test whose stores read related objects together.
pub fn with_prefetching(test: impl FnOnce()) {
    PREFETCHES.set(true);
    test();
    PREFETCHES.set(false);
}

/// Run a test whose stores have their index on the disk, and no memory for it but what it cannot do without.
pub fn with_index_on_disk(test: impl FnOnce()) {
    ON_DISK.set(true);
    test();
    ON_DISK.set(false);
}

/// Whether this is such a test.
pub fn has_index_on_disk() -> bool {
    ON_DISK.get()
}

/// Whether this is a test with prefetching.
pub fn prefetches() -> bool {
    PREFETCHES.get()
}

/// Whether an engine keeps objects in a Disk Table: what a new version is written over is gone from then on.
pub fn has_table(engine: EngineRef) -> bool {
    engine.has(&engines::BIN_SIZE)
}

/// How [`open_as`] cuts a disk of so many bytes.
pub fn plan_as(engine: EngineRef, disk_bytes: u64) -> Box<dyn Cut> {
    plan_with(engine, &asked(), disk_bytes)
}

/// Settings of this test's stores: whether related objects are read together, and whether the index is on the disk.
pub fn asked() -> Settings {
    let settings = if prefetches() { Settings::new().with(&engines::PREFETCH, 1) } else { Settings::new() };
    if has_index_on_disk() { settings.with(&engines::INDEX_MEMORY, 0) } else { settings }
}

/// [`plan_as`] with other settings.
pub fn plan_with(engine: EngineRef, settings: &Settings, bytes: u64) -> Box<dyn Cut> {
    let stamp = Stamp { seed: Secret::from_bytes(SECRET).seed() };
    engine.cut(&Ask { bytes, reserved: BASE, mean_object_bytes: 4096, stamp, settings }).unwrap()
}

/// What the superblock says of a disk that is cut so.
pub fn section_of(plan: &dyn Cut) -> LogSection {
    LogSection::read(&plan.section()).unwrap()
}

/// A store of this engine over the whole of a disk; `Err` when it cannot even be read.
pub fn open_as(engine: EngineRef, disk: Arc<dyn Device>) -> Result<Cache, String> {
    open_planned(&*plan_as(engine, disk.geometry().bytes), disk)
}

/// A store over the whole of a disk, as planned.
pub fn open_planned(plan: &dyn Cut, disk: Arc<dyn Device>) -> Result<Cache, String> {
    open_over(plan, Opening::of(disk))
}

/// The same, with the device that has the positions alone.
pub fn open_beside(plan: &dyn Cut, disk: Arc<dyn Device>, positions: Arc<dyn Device>) -> Result<Cache, String> {
    open_over(plan, Opening { beside: Some(positions), ..Opening::of(disk) })
}

fn open_over(plan: &dyn Cut, opening: Opening) -> Result<Cache, String> {
    let clock = opening.device.clock().clone();
    Ok(Cache::over_by(clock, plan.open(opening)?, Secret::from_bytes(SECRET), 0).unwrap())
}

/// How [`open`] cuts a disk of so many bytes.
pub fn plan(disk_bytes: u64) -> HashCacheLogOptions {
    let stamp = Stamp { seed: Secret::from_bytes(SECRET).seed() };
    HashCacheLog::plan(disk_bytes, BASE, 4096, 4096, stamp, false).unwrap()
}

const SECRET: [u8; 32] = [7; 32];

/// A store over the whole of a disk; `Err` when it cannot even be read.
pub fn open(disk: Arc<dyn Device>) -> Result<Cache, String> {
    open_hot(disk, 0)
}

/// [`open`] without snapshots of the index, and so without the thread that takes them.
pub fn open_without_snapshots(disk: Arc<dyn Device>) -> Result<Cache, String> {
    let options = HashCacheLogOptions { snapshots: None, ..plan(disk.geometry().bytes) };
    let engine = HashCacheLog::open(disk.clone(), &options)?;
    Ok(Cache::over(Arc::new(engine), Secret::from_bytes(SECRET), 0).unwrap())
}

/// [`open`] with a budget for hot objects.
pub fn open_hot(disk: Arc<dyn Device>, memory_bytes: u64) -> Result<Cache, String> {
    let engine = HashCacheLog::open(disk.clone(), &plan(disk.geometry().bytes))?;
    Ok(Cache::over(Arc::new(engine), Secret::from_bytes(SECRET), memory_bytes).unwrap())
}

pub fn key(n: u64) -> Key {
    Key::from_name(&n.to_le_bytes())
}

/// Bodies are a function of key and version, so that a reader can tell what it was given.
pub fn put(store: &Cache, n: u64, version: u64, size: usize) -> Commit {
    let group = puts_in_groups().then_some(n % 3);
    let hint = Hint { expected_bytes: Some(size as u64), group, ..Hint::default() };
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

/// Poll a future once, with nobody to wake.
pub fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

pub fn is_write(request: &Request) -> bool {
    matches!(request, Request::Write { .. })
}

pub fn is_read(request: &Request) -> bool {
    matches!(request, Request::Read { .. })
}

pub fn is_sync(request: &Request) -> bool {
    matches!(request, Request::Sync)
}

/// Wait until something is so that a thread of the store's makes so by itself, however busy the machine; a minute at
/// most.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether an object is there and has left the log's memory for the disk.
pub fn is_on_disk(store: &Cache, n: u64) -> bool {
    block_on(store.find(&key(n))).is_some_and(|hit| hit.source == Source::Disk)
}

/// Until a disk has been asked for nothing for a while: what engines do by themselves they do some times a second.
pub fn settle(disk: &dyn Device) {
    let requests = || disk.counters().reads + disk.counters().writes;
    let (mut before, mut quiet) = (requests(), 0);
    while quiet < 5 {
        std::thread::sleep(Duration::from_millis(120));
        quiet = if requests() == before { quiet + 1 } else { 0 };
        before = requests();
    }
}

/// Where the log begins on a disk of [`DISK_BYTES`].
pub fn log_at() -> u64 {
    plan(DISK_BYTES as u64).layout.base
}
