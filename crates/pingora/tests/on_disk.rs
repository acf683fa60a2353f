//! Over the store on disk: what was stored is there after a restart, what is too large is passed on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod common;

use std::path::Path;

use bytes::Bytes;
use common::*;
use pingora_cache::storage::Storage;
use tinaja_pingora::TinajaStorage;
use tinaja_store::{Cache, CacheOptions};

fn open(dir: &Path, disk_bytes: u64) -> &'static TinajaStorage {
    let options = CacheOptions::new(dir).disk_bytes(disk_bytes).memory_bytes(0);
    over(Cache::open(options).unwrap())
}

const SIZES: [usize; 6] = [0, 1, 9_999, 128 * 1024, 300_000, 3_000_000];

#[tokio::test]
async fn what_was_stored_is_found_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let storage = open(dir.path(), 64 << 20);
        for (at, len) in SIZES.into_iter().enumerate() {
            let (key, sent) = (key(&format!("/{len}")), body(at as u64, len));
            if round == 0 {
                fill(storage, &key, &meta(&[("etag", format!("\"{at}\""))]), &sent).await;
            }
            let (got, mut hit) = found(storage, &key).await.unwrap();
            assert_eq!(got.headers().get("etag").unwrap(), &format!("\"{at}\""));
            assert!(rest(&mut hit).await.unwrap() == sent, "{len} bytes in round {round}");
            if len > 10 {
                hit.seek(len - 10, None).unwrap();
                assert!(rest(&mut hit).await.unwrap() == sent[len - 10..]);
            }
        }
        storage.store().close().await.unwrap();
    }
}

#[tokio::test]
async fn an_object_larger_than_the_disk_is_passed_on_by_one_task() {
    let dir = tempfile::tempdir().unwrap();
    let storage = open(dir.path(), 16 << 20);
    let mut miss = storage.get_miss_handler(&key("/huge"), &plain(), &span()).await.unwrap();
    let tag = miss.streaming_write_tag().map(<[u8]>::to_vec);
    let (key, span) = (key("/huge"), span());
    let follow = storage.lookup_streaming_write(&key, tag.as_deref(), &span);
    let (_, mut own) = follow.await.unwrap().unwrap();
    let piece = body(1, 64 * 1024);
    let (pieces, mut got) = (1024, 0);
    let mut check = |read: Bytes| {
        assert!(read.iter().enumerate().all(|(at, byte)| *byte == piece[(got + at) % piece.len()]));
        got += read.len();
        got
    };
    let mut taken = 0;
    for written in 1..=pieces {
        miss.write_body(piece.clone(), false).await.unwrap();
        // Always further behind than the store itself waits for anybody.
        while taken + (4 << 20) < written * piece.len() {
            taken = check(own.read_body().await.unwrap().unwrap());
        }
    }
    miss.finish().await.unwrap();
    while let Some(read) = own.read_body().await.unwrap() {
        taken = check(read);
    }
    assert_eq!(taken, pieces * piece.len());
    assert!(found(storage, &key).await.is_none());
    storage.store().close().await.unwrap();
}
