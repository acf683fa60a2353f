//! A disk fault must not break a client's download (rule 9), and once did.
//!
//! The parts of a large object go to the disk while it is being fetched, and whoever reads along reads them from there.
//! When a batch could not be written, the parts in it were dropped with it; and those written well but in the same
//! region, or since the last sync when a sync had failed, were not read any more. Clients were cut off amid a body of
//! which every byte had arrived: all those who read along, and the one for whom it was fetched if it was a piece behind.
//!
//! The one write that fails was any write at first. On a busy machine it was the snapshot's that is taken when a store is
//! opened, so that nothing of the object was lost, and it was found. Now it is a batch of the object's bytes: summaries are of one block here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::Request;
use tinaja_store::device::wrap::Fault;
use tinaja_store::{Commit, Hint, Store, block_on};

use crate::support::{blank, disk, is_sync, is_write, key, log_at, open};

const PIECE: usize = 100_000;
const PIECES: usize = 15;

#[test]
fn every_byte_reaches_those_who_read_along_when_the_disk_fails() {
    for failing in ["writes", "one write", "syncs"] {
        let (broken, bytes) = (Arc::new(AtomicBool::new(false)), blank());
        let now = broken.clone();
        let plan = move |_, request: &Request| {
            let is_batch = request.extent().is_some_and(|(at, bytes)| at >= log_at() && bytes > 8192);
            let hit = match failing {
                "syncs" => is_sync(request),
                "writes" => is_write(request),
                _ => is_write(request) && is_batch,
            };
            let fails = hit && now.load(SeqCst);
            if failing == "one write" && fails {
                now.store(false, SeqCst);
            }
            fails.then_some(Fault::Error)
        };
        let store = open(disk(&bytes, plan)).unwrap();
        let body = bytes_of(1, PIECE * PIECES);
        let mut writer = store.put(&key(1), Bytes::from_static(b"head"), Hint::default());
        let mut readers: Vec<_> = (0..3).map(|_| writer.follow()).collect();
        for (number, piece) in body.chunks(PIECE).enumerate() {
            if number == PIECES / 3 {
                broken.store(true, SeqCst);
            }
            block_on(writer.write(Bytes::copy_from_slice(piece)));
            if number == PIECES / 2 {
                // Told or not, it has failed by now.
                let _ = block_on(store.flush());
            }
        }
        // One has read nothing yet, when everything that could fail has.
        let late = readers.pop().unwrap();
        // The disk may take the head that is written last.
        let _: Commit = block_on(writer.commit());
        for mut reader in readers.into_iter().chain([late]) {
            let read = block_on(reader.body.collect(usize::MAX));
            assert!(read.is_ok_and(|read| read == body), "{failing}: cut off");
        }
        assert!(block_on(store.find(&key(1))).is_none(), "{failing}: found, though parts of it are lost");
    }
}
