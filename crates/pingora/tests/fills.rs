//! Unfinished writes: readers that follow, aborts, several writers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod common;

use std::time::Duration;

use common::*;
use pingora_cache::CacheKey;
use pingora_cache::PurgeType;
use pingora_cache::storage::{HitHandler, MissFinishType, MissHandler, PurgeTarget, Storage};
use tinaja_pingora::TinajaStorage;

async fn begin(storage: &'static TinajaStorage, key: &CacheKey) -> MissHandler {
    storage.get_miss_handler(key, &plain(), &span()).await.unwrap()
}

async fn own(storage: &'static TinajaStorage, key: &CacheKey, miss: &MissHandler) -> HitHandler {
    let tag = miss.streaming_write_tag().map(<[u8]>::to_vec);
    storage.lookup_streaming_write(key, tag.as_deref(), &span()).await.unwrap().unwrap().1
}

async fn nothing_yet(hit: &mut HitHandler) -> bool {
    tokio::time::timeout(Duration::from_millis(20), hit.read_body()).await.is_err()
}

#[tokio::test]
async fn readers_follow_a_write_from_its_first_byte() {
    let (storage, key) = (storage(), key("/f"));
    let mut miss = begin(storage, &key).await;
    let mut own = own(storage, &key, &miss).await;
    let (_, mut early) = found(storage, &key).await.unwrap();
    assert!(!own.can_seek() && !own.should_count_access() && !early.should_count_access());
    assert!(nothing_yet(&mut own).await && nothing_yet(&mut early).await);

    miss.write_body("the rain ".into(), false).await.unwrap();
    assert_eq!(own.read_body().await.unwrap().unwrap(), "the rain ");
    let (_, mut late) = found(storage, &key).await.unwrap();
    miss.write_body("it keeps".into(), true).await.unwrap();
    assert_eq!(own.read_body().await.unwrap().unwrap(), "it keeps");
    assert!(nothing_yet(&mut own).await, "only finish says that the body is whole");
    let MissFinishType::Created(bytes) = miss.finish().await.unwrap() else { panic!() };
    assert!(bytes > 17);
    assert_eq!(rest(&mut own).await.unwrap(), b"");
    assert_eq!(rest(&mut early).await.unwrap(), b"the rain it keeps");
    assert_eq!(rest(&mut late).await.unwrap(), b"the rain it keeps");
}

#[tokio::test]
async fn a_follower_may_seek_ahead_of_the_writer() {
    let (storage, key) = (storage(), key("/s"));
    let mut miss = begin(storage, &key).await;
    let (_, mut hit) = found(storage, &key).await.unwrap();
    hit.seek(4, Some(8)).unwrap();
    miss.write_body("0123".into(), false).await.unwrap();
    assert!(nothing_yet(&mut hit).await);
    miss.write_body("456789".into(), false).await.unwrap();
    assert_eq!(rest(&mut hit).await.unwrap(), b"4567");
    miss.finish().await.unwrap();
}

#[tokio::test]
async fn an_abort_is_an_error_to_followers_and_undoes_the_write() {
    let (storage, key) = (storage(), key("/a"));
    fill(storage, &key, &plain(), &body(1, 10)).await;
    let mut miss = begin(storage, &key).await;
    let mut own = own(storage, &key, &miss).await;
    let (_, mut other) = found(storage, &key).await.unwrap();
    miss.write_body(body(2, 100), true).await.unwrap();
    own.read_body().await.unwrap();
    drop(miss);
    assert!(own.read_body().await.is_err() && own.read_body().await.is_err());
    assert!(rest(&mut other).await.is_err());
    assert_eq!(stored_body(storage, &key).await.unwrap(), body(1, 10));
}

#[tokio::test]
async fn a_reader_is_woken_by_the_abort_it_waits_for() {
    let (storage, key) = (storage(), key("/w"));
    let miss = begin(storage, &key).await;
    let mut own = own(storage, &key, &miss).await;
    let reading = tokio::spawn(async move { own.read_body().await.map(|_| ()) });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(miss);
    assert!(tokio::time::timeout(Duration::from_secs(5), reading).await.unwrap().unwrap().is_err());
}

#[tokio::test]
async fn of_two_writers_each_client_gets_its_own_body_and_the_last_commit_stays() {
    let (storage, key) = (storage(), key("/2"));
    let (mut one, mut two) = (begin(storage, &key).await, begin(storage, &key).await);
    let (mut own_one, mut own_two) = (own(storage, &key, &one).await, own(storage, &key, &two).await);
    one.write_body(body(1, 1000), false).await.unwrap();
    two.write_body(body(2, 1000), false).await.unwrap();
    two.finish().await.unwrap();
    one.finish().await.unwrap();
    assert_eq!(rest(&mut own_one).await.unwrap(), body(1, 1000));
    assert_eq!(rest(&mut own_two).await.unwrap(), body(2, 1000));
    assert_eq!(stored_body(storage, &key).await.unwrap(), body(1, 1000));
}

#[tokio::test]
async fn a_tag_names_its_own_write_or_is_an_error() {
    let (storage, key) = (storage(), key("/t"));
    fill(storage, &key, &plain(), &body(1, 10)).await;
    let miss = begin(storage, &key).await;
    let tag = miss.streaming_write_tag().unwrap().to_vec();
    for strange in [&b""[..], b"short", &[0xFF; 8], &[0; 9]] {
        assert!(storage.lookup_streaming_write(&key, Some(strange), &span()).await.is_err());
    }
    // Twice is two readers, not a fault.
    let mut first = own(storage, &key, &miss).await;
    let mut second = own(storage, &key, &miss).await;
    miss.finish().await.unwrap();
    assert_eq!((rest(&mut first).await.unwrap(), rest(&mut second).await.unwrap()), (vec![], vec![]));
    assert!(storage.lookup_streaming_write(&key, Some(&tag), &span()).await.is_err(), "ended");
    assert!(storage.lookup_streaming_write(&key, None, &span()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_purge_in_mid_fill_is_final_and_the_client_gets_its_body() {
    let (storage, key) = (storage(), key("/p"));
    let mut miss = begin(storage, &key).await;
    let mut own_hit = own(storage, &key, &miss).await;
    let compact = key.to_compact();
    storage.purge(PurgeTarget::Active(&compact), PurgeType::Invalidation, &span()).await.unwrap();
    let tag = miss.streaming_write_tag().unwrap().to_vec();
    assert!(storage.lookup_streaming_write(&key, Some(&tag), &span()).await.is_err());
    miss.write_body(body(1, 50), true).await.unwrap();
    miss.finish().await.unwrap();
    assert_eq!(rest(&mut own_hit).await.unwrap(), body(1, 50));
    assert!(found(storage, &key).await.is_none());
}

#[tokio::test]
async fn a_large_body_streams_to_a_reader_that_keeps_up() {
    let (storage, key) = (storage(), key("/large"));
    let mut miss = begin(storage, &key).await;
    let mut own = own(storage, &key, &miss).await;
    let piece = body(1, 64 * 1024);
    let (pieces, sent) = (1600, piece.clone());
    let writing = tokio::spawn(async move {
        for _ in 0..pieces {
            miss.write_body(sent.clone(), false).await.unwrap();
        }
        miss.finish().await.unwrap();
    });
    let mut read = 0;
    while let Some(got) = own.read_body().await.unwrap() {
        for part in got.chunks(1) {
            assert_eq!(part[0], piece[read % piece.len()]);
            read += 1;
        }
    }
    writing.await.unwrap();
    assert_eq!(read, pieces * piece.len());
    let (_, mut hit) = found(storage, &key).await.unwrap();
    hit.seek(read - 5, None).unwrap();
    assert_eq!(rest(&mut hit).await.unwrap(), piece[piece.len() - 5..]);
}
