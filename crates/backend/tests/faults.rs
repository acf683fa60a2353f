//! Disks that fail under a backend: whatever fails, the answer is a miss or an error, never a wrong byte, an older version or a
//! hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bytes::Bytes;
use tinaja_backend::{Backend, BackendError, EngineBackend, EngineBackendOptions};
use tinaja_store::block_on;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::wrap::{Fault, Rule, Rules, Tear};
use tinaja_store::device::{Device, Request};

use crate::support::entries::{create, get, keep, open_backend, open_entry, read, with_files, write};
use crate::support::{blank, disk, is_write, sound};

fn streams(n: u64, version: u64) -> [Bytes; 3] {
    let body = if n == 7 { 120_000 } else { 500 + (n * 977) as usize % 9000 };
    [version.to_le_bytes().to_vec().into(), bytes_of(n * 1000 + version, body), Bytes::new()]
}

/// The version found, with every byte compared.
fn version(backend: &EngineBackend, n: u64) -> Option<u64> {
    let all = get(backend, &n.to_le_bytes()).ok()?;
    let version = u64::from_le_bytes(all[0][..8].try_into().unwrap());
    assert!(all == streams(n, version), "wrong bytes for entry {n}");
    Some(version)
}

/// The Nth request fails, for every N: no version is found but the newest.
#[test]
fn every_request_may_fail() {
    let (mut requests, mut n) = (0, 0);
    while n <= requests {
        let (bytes, directory) = (blank(), tempfile::tempdir().unwrap());
        let options = with_files(directory.path(), 16 << 20);
        let failing = disk(&bytes, move |call, _: &Request| (call == n).then_some(Fault::Error));
        if let Ok(backend) = open_backend(failing.clone(), &options) {
            for entry in 0..12_u64 {
                drop(keep(&backend, &entry.to_le_bytes(), streams(entry, 1)));
                let kept = keep(&backend, &entry.to_le_bytes(), streams(entry, 2));
                let found = version(&backend, entry);
                assert!(found.is_none() || found == Some(2), "request {n}: entry {entry} is {found:?}, {kept:?}");
            }
            if let Ok(entry) = open_entry(&backend, &3_u64.to_le_bytes()) {
                entry.doom();
            }
            let _ = block_on(backend.flush());
            for entry in 0..12 {
                let found = version(&backend, entry);
                assert!(found != Some(1) && (entry != 3 || found.is_none()), "request {n}: entry {entry} is {found:?}");
            }
            let _ = block_on(backend.stop());
        }
        requests = requests.max(failing.calls());
        let backend = open_backend(sound(&bytes), &options).unwrap();
        for entry in 0..12 {
            version(&backend, entry);
        }
        n += 1;
    }
    println!("{requests} requests");
    assert!(requests > 20);
}

/// A disk that takes no more writes: closes fail and say so, what was there is read on, and what a dropped entry had is told
/// by the next flush.
#[test]
fn a_disk_that_takes_no_more_writes_is_read_on() {
    let (broken, bytes) = (Arc::new(AtomicBool::new(false)), blank());
    let now = broken.clone();
    let failing =
        disk(&bytes, move |_, request: &Request| (is_write(request) && now.load(SeqCst)).then_some(Fault::Error));
    let backend = open_backend(failing, &EngineBackendOptions::default()).unwrap();
    (0..400_u64).for_each(|n| keep(&backend, &n.to_le_bytes(), streams(n % 5, 1)).unwrap());
    block_on(backend.flush()).unwrap();
    broken.store(true, SeqCst);
    let body = |n| [Bytes::new(), bytes_of(n, 30_000), Bytes::new()];
    let refused = (1000..2000_u64)
        .filter(|n| matches!(keep(&backend, &n.to_le_bytes(), body(*n)), Err(BackendError::NotKept(_))));
    assert!(refused.count() > 500);
    let left = |n: &u64| get(&backend, &n.to_le_bytes()).is_ok_and(|all| all == streams(n % 5, 1));
    let found = (0..400).filter(left).count();
    assert!(found > 250, "all but those of the segment that was open");
    let older = (0..400_u64).find(left).unwrap().to_le_bytes();
    let entry = open_entry(&backend, &older).unwrap();
    write(&entry, 0, 0, "newer".into(), true).unwrap();
    assert!(matches!(block_on(entry.close()), Err(BackendError::NotKept(_))));
    assert!(matches!(open_entry(&backend, &older), Err(BackendError::NotFound)), "nor is the version before found");
    let entry = create(&backend, b"dropped").unwrap();
    write(&entry, 0, 0, "lost".into(), false).unwrap();
    drop(entry);
    assert!(matches!(block_on(backend.flush()), Err(BackendError::NotKept(_))));
    assert!(matches!(open_entry(&backend, b"dropped"), Err(BackendError::NotFound)));
}

/// Reads that fail while an entry is open: an error, and the next try may succeed.
#[test]
fn a_read_that_fails_is_an_error() {
    let (broken, bytes) = (Arc::new(AtomicBool::new(false)), blank());
    let now = broken.clone();
    let is_read = |request: &Request| matches!(request, Request::Read { .. });
    let failing =
        disk(&bytes, move |_, request: &Request| (is_read(request) && now.load(SeqCst)).then_some(Fault::Error));
    let backend =
        open_backend(failing, &EngineBackendOptions { held_bytes: 0, ..EngineBackendOptions::default() }).unwrap();
    keep(&backend, b"key", streams(1, 1)).unwrap();
    block_on(backend.flush()).unwrap();
    let entry = open_entry(&backend, b"key").unwrap();
    broken.store(true, SeqCst);
    assert!(matches!(read(&entry, 1), Err(BackendError::Unreadable(_))));
    assert!(
        matches!(write(&entry, 0, 0, "x".into(), true), Err(BackendError::Unreadable(_))),
        "the body is not to be copied"
    );
    block_on(entry.close()).unwrap();
    assert!(open_entry(&backend, b"key").is_err());
    let made = create(&backend, b"key");
    broken.store(false, SeqCst);
    // What could not be read is not there beside what is made now, nor once that is doomed.
    if let Ok(entry) = made {
        block_on(entry.close()).unwrap();
        assert_eq!(get(&backend, b"key").unwrap()[0].len(), 0);
        open_entry(&backend, b"key").unwrap().doom();
        assert!(matches!(open_entry(&backend, b"key"), Err(BackendError::NotFound)));
    }
}

/// All faults at random: what is found is whole, and not older than what was kept last.
#[test]
fn faults_at_random_never_show() {
    let (mut found, mut asked) = (0, 0);
    for run in 0..10 {
        let faults = [
            Fault::Error,
            Fault::Short,
            Fault::Torn(Tear::Prefix(3)),
            Fault::Torn(Tear::Alternating),
            Fault::Lost,
            Fault::Held,
            Fault::Misdirected(1 << 20),
            Fault::Flipped(run * 77 + 13),
            Fault::Full,
        ];
        let rules = Rules::new(run, faults.map(|fault| Rule { probability: 0.01, ..Rule::always(fault) }).to_vec());
        let (medium, directory) = (blank(), tempfile::tempdir().unwrap());
        let options = EngineBackendOptions { held_bytes: 20_000, ..with_files(directory.path(), 16 << 20) };
        let failing = disk(&medium, move |call, request| rules.pick(call, request));
        let Ok(backend) = open_backend(failing.clone(), &options) else { continue };
        let mut floor = [0_u64; 24];
        for now in 1..20_u64 {
            for n in (0..24_u64).filter(|n| !(n + now).is_multiple_of(3)) {
                if keep(&backend, &n.to_le_bytes(), streams(n, now)).is_ok() {
                    floor[n as usize] = now;
                }
            }
            let _ = block_on(backend.flush());
            for n in 0..24 {
                let version = version(&backend, n);
                assert!(version.is_none_or(|version| version >= floor[n as usize]), "run {run}: {n} is {version:?}");
                found += u64::from(version.is_some());
                asked += 1;
            }
        }
        let _ = block_on(backend.stop());
        failing.stop();
        drop(backend);
        let backend = open_backend(sound(&medium), &options).unwrap();
        (0..24).for_each(|n| assert!(version(&backend, n).is_none_or(|version| version < 20)));
    }
    println!("{found} of {asked} found");
    assert!(asked > 2000 && found > asked / 10);
}
