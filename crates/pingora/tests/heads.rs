//! Heads: large ones, too large ones, and bytes that are no head.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod common;

use bytes::Bytes;
use common::*;
use pingora_cache::CacheKey;
use pingora_cache::storage::Storage;
use tinaja_pingora::{MAX_HEADER_BYTES, MAX_HEADERS, MAX_PRIMARY_KEY_BYTES, TinajaStorage, primary_key};
use tinaja_store::{Commit, Hint};

/// Text that does not compress much.
fn noise(seed: u64, len: usize) -> String {
    body(seed, len).iter().map(|byte| char::from(b'0' + byte % 64)).collect()
}

#[tokio::test]
async fn heads_up_to_the_limits_come_back() {
    let storage = storage();
    let long_key = CacheKey::new(noise(1, MAX_PRIMARY_KEY_BYTES), "");
    let most = noise(2, MAX_HEADER_BYTES - "x-a".len() - 4);
    for value in [noise(3, 64 * 1024), most] {
        fill(storage, &long_key, &meta(&[("x-a", value.clone())]), &body(1, 10)).await;
        let (got, mut hit) = found(storage, &long_key).await.unwrap();
        assert!(got.headers().get("x-a").unwrap() == value.as_str());
        assert_eq!(rest(&mut hit).await.unwrap(), body(1, 10));
    }
    let many: Vec<_> = (0..MAX_HEADERS).map(|at| ("x-many", at.to_string())).collect();
    fill(storage, &key("/many"), &meta(&many), &body(1, 10)).await;
    assert_eq!(found(storage, &key("/many")).await.unwrap().0.headers().len(), MAX_HEADERS);
}

#[tokio::test]
async fn heads_beyond_the_limits_are_refused_before_anything_is_sent() {
    let storage = storage();
    let many: Vec<_> = (0..=MAX_HEADERS).map(|at| ("x-many", at.to_string())).collect();
    let large = meta(&[("x-a", noise(1, MAX_HEADER_BYTES))]);
    let long_key = CacheKey::new(noise(1, MAX_PRIMARY_KEY_BYTES + 1), "");
    for (key, meta, what) in [
        (key("/a"), meta(&many), "header lines"),
        (key("/a"), large, "bytes of header"),
        (long_key, plain(), "bytes of primary key"),
    ] {
        let refused = storage.get_miss_handler(&key, &meta, &span()).await.err().unwrap();
        assert!(refused.to_string().contains(what), "{refused}");
        assert!(found(storage, &key).await.is_none());
    }
}

async fn put_raw(storage: &TinajaStorage, key: &CacheKey, head: Bytes) {
    let mut writer = storage.store().put(&TinajaStorage::store_key(key), head, Hint::default());
    writer.write("body".into()).await;
    assert!(matches!(writer.commit().await, Commit::Stored { .. }));
}

#[tokio::test]
async fn bytes_that_are_no_head_are_a_miss_and_removed() {
    let storage = storage();
    let mut varied = key("/x");
    varied.set_variance_key([9; 16]);
    fill(storage, &varied, &plain(), &body(1, 10)).await;
    let good = storage.store().find(&TinajaStorage::store_key(&varied)).await.unwrap().head;
    assert_eq!(primary_key(&good), Some(&b"/x"[..]));

    let mut bad: Vec<Bytes> = (0..good.len()).map(|len| good.slice(..len)).collect();
    bad.push([&good[..], b"!"].concat().into());
    bad.push([&[3], &good[1..]].concat().into());
    bad.push([&good[..66], &[0xFF; 8], &good[74..]].concat().into());
    bad.push(body(5, 1000));
    for head in bad {
        put_raw(storage, &varied, head.clone()).await;
        assert!(found(storage, &varied).await.is_none(), "{}", head.escape_ascii());
        assert!(storage.store().find(&TinajaStorage::store_key(&varied)).await.is_none(), "removed");
    }
}

#[tokio::test]
async fn a_changed_byte_in_a_head_panics_nowhere() {
    let storage = storage();
    let key = key("/flip");
    fill(storage, &key, &meta(&[("etag", "\"a\"".into())]), &body(1, 10)).await;
    let good = storage.store().find(&TinajaStorage::store_key(&key)).await.unwrap().head;
    let mut misses = 0;
    for at in 0..good.len() {
        for flip in [1, 0x80, 0xFF] {
            let mut head = good.to_vec();
            head[at] ^= flip;
            put_raw(storage, &key, head.into()).await;
            misses += usize::from(found(storage, &key).await.is_none());
        }
    }
    // The frame, the lengths and the key are told; what only the store's checksum can tell is the text itself.
    assert!(misses >= 3 * 20, "{misses} of {}", good.len() * 3);
}
