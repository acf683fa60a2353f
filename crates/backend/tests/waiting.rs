//! A backend whose engine takes nothing for a while: who waits, who does not, and what follows in which order.

use std::sync::Arc;

use tinaja_backend::{Backend, BackendError, EngineBackend, EngineBackendOptions};
use tinaja_store::contract::bytes_of;
use tinaja_store::{block_on, engines};

use crate::support::entries::{create, get, keep, open_entry, over, read, write};
use crate::support::watched::Watched;
use crate::support::{blank, open_as, poll, sound};

fn watched(open_entries: usize) -> (Arc<Watched>, EngineBackend) {
    let engine = Watched::over(open_as(engines::SEGMENTED, sound(&blank())).unwrap());
    let options = EngineBackendOptions { open_entries, ..EngineBackendOptions::default() };
    (engine.clone(), over(engine, &options))
}

/// A disk that takes nothing: who closes waits, nobody else does; what is closed is found meanwhile, and kept even if nobody
/// waits any more.
#[test]
fn a_close_that_nobody_waits_for_ends_when_the_disk_goes_on() {
    let (engine, backend) = watched(100);
    let entry = create(&backend, b"key").unwrap();
    write(&entry, 0, 0, "one".into(), false).unwrap();
    engine.push_back(true);
    let mut closing = entry.close();
    assert!(poll(&mut closing).is_pending());
    drop(closing);
    let dropped = create(&backend, b"dropped").unwrap();
    write(&dropped, 0, 0, "two".into(), false).unwrap();
    drop(dropped);
    let mut flushing = backend.flush();
    assert!(poll(&mut flushing).is_pending(), "a flush waits for what was closed before");
    let again = open_entry(&backend, b"key").unwrap();
    assert_eq!(read(&again, 0).unwrap(), "one");
    assert!(matches!(create(&backend, b"key"), Err(BackendError::Exists)));
    drop(again);
    engine.push_back(false);
    block_on(flushing).unwrap();
    assert_eq!(engine.count().0, 2);
    assert_eq!(get(&backend, b"key").unwrap()[0], "one");
    assert_eq!(get(&backend, b"dropped").unwrap()[0], "two");
}

/// Doomed while its record waits for the disk, an entry never gets there; and a key is not made anew before its removal is in
/// the log, or that would remove the new one.
#[test]
fn a_removal_and_what_follows_it_keep_their_order() {
    let (engine, backend) = watched(100);
    let entry = create(&backend, b"never").unwrap();
    engine.push_back(true);
    let mut closing = entry.close();
    assert!(poll(&mut closing).is_pending());
    let again = open_entry(&backend, b"never").unwrap();
    again.doom();
    engine.push_back(false);
    block_on(closing).unwrap();
    assert!(matches!(open_entry(&backend, b"never"), Err(BackendError::NotFound)));
    assert_eq!(engine.count(), (0, 0, 0));

    keep(&backend, b"key", [bytes_of(1, 300), bytes_of(2, 5000), bytes_of(3, 0)]).unwrap();
    let entry = open_entry(&backend, b"key").unwrap();
    engine.push_back(true);
    entry.doom();
    let mut making = backend.create_entry(b"key");
    assert!(poll(&mut making).is_pending());
    engine.push_back(false);
    let new = block_on(making).unwrap();
    write(&new, 0, 0, "new".into(), false).unwrap();
    block_on(new.close()).unwrap();
    assert_eq!(get(&backend, b"key").unwrap()[0], "new");
    assert_eq!(engine.count().1, 1);
}

/// How many may be open is a setting; those that are doomed or wait to be written count until they are done.
#[test]
fn those_that_wait_to_be_written_count_as_open() {
    let (engine, backend) = watched(3);
    let open: Vec<_> = (0..3_u64).map(|n| create(&backend, &n.to_le_bytes()).unwrap()).collect();
    assert!(matches!(create(&backend, b"4th"), Err(BackendError::Full(_))));
    engine.push_back(true);
    drop(open);
    assert!(matches!(create(&backend, b"4th"), Err(BackendError::Full(_))));
    engine.push_back(false);
    block_on(backend.flush()).unwrap();
    drop(create(&backend, b"4th").unwrap());
}
