//! The power of its disk is cut at every request of a run, as `power` has it for the engines that come with Tinaja: what a flush
//! acknowledged is there afterwards, or a newer version of it, and nothing that was never written.

use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::wrap::{Fault, Faulty, Tear};
use tinaja_store::device::{Device, Medium, Memory};
use tinaja_store::engine::registry::{Ask, Opening};
use tinaja_store::layout::Stamp;
use tinaja_store::{Cache, Commit, Hint, Key, Secret, Settings, Store, block_on};

use super::grouped::GROUPED;

const OBJECTS: u64 = 12;
const ROUNDS: u64 = 4;
const DISK_BYTES: u64 = 16 << 20;

fn opened(disk: Arc<dyn Device>) -> Result<Cache, String> {
    let secret = Secret::from_bytes([7; 32]);
    let (stamp, settings) = (Stamp { seed: secret.seed() }, Settings::new());
    let ask = Ask { bytes: DISK_BYTES, reserved: 4096, mean_object_bytes: 8192, stamp, settings: &settings };
    let engine = GROUPED.cut(&ask).unwrap().open(Opening::of(disk))?;
    Ok(Cache::over(engine, secret, 0).unwrap())
}

fn key(n: u64) -> Key {
    Key::from_name(&n.to_le_bytes())
}

/// One body is long, and is streamed into the engine.
fn size(n: u64, version: u64) -> usize {
    if n == 7 { 300_000 } else { (n * 977 + version * 331) as usize % 9000 }
}

/// Put all objects and flush, round by round, until the disk fails. The last round that was flushed.
fn run(store: &Cache) -> u64 {
    for round in 1..=ROUNDS {
        for n in 0..OBJECTS {
            let hint = Hint { group: Some(n % 3), ..Hint::default() };
            let mut writer = store.put(&key(n), Bytes::from(round.to_string()), hint);
            block_on(writer.write(bytes_of(n * 100 + round, size(n, round))));
            let is_stored = matches!(block_on(writer.commit()), Commit::Stored { .. });
            if !is_stored {
                return round - 1;
            }
        }
        if block_on(store.flush()).is_err() {
            return round - 1;
        }
    }
    ROUNDS
}

#[test]
fn whatever_a_power_cut_leaves_what_was_flushed_is_there() {
    for call in 0.. {
        let medium = Medium::zeroed(DISK_BYTES as usize);
        let fails = move |now, _: &_| (now >= call).then_some(Fault::Error);
        let disk = Arc::new(Faulty::volatile(Arc::new(Memory::over(&medium)), fails));
        let flushed = opened(disk.clone()).map_or(0, |store| run(&store));
        let was_whole = disk.calls() < call;
        // Of what the disk had not been told to keep, half is lost and half is torn.
        disk.cut(|write| (write as u64 % 2 == call % 2).then_some(Tear::Alternating));
        let store = opened(Arc::new(Memory::over(&medium))).unwrap();
        for n in 0..OBJECTS {
            let found = block_on(store.find(&key(n)));
            assert!(found.is_some() || flushed == 0, "cut at request {call}: object {n} of round {flushed} is lost");
            let Some(mut hit) = found else { continue };
            let version: u64 = std::str::from_utf8(&hit.head).unwrap().parse().unwrap();
            assert!((flushed..=ROUNDS).contains(&version), "cut at request {call}: object {n} is of round {version}");
            let body = block_on(hit.body.collect(usize::MAX)).unwrap();
            assert!(body == bytes_of(n * 100 + version, size(n, version)), "cut at request {call}: object {n}");
        }
        if was_whole {
            assert_eq!(flushed, ROUNDS);
            return println!("cut at each of {call} requests");
        }
    }
}
