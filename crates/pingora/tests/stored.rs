//! Whole objects: stored, found, cut into ranges, changed, removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod common;

use std::time::SystemTime;

use bytes::Bytes;
use common::*;
use pingora_cache::eviction::{CacheEntryId, CacheEntryKey};
use pingora_cache::key::CacheHashKey;
use pingora_cache::storage::{PurgeOutcome, PurgeTarget, Storage};
use pingora_cache::{CacheMeta, PurgeType};
use tinaja_pingora::primary_key;
use tinaja_store::Cursor;

#[tokio::test]
async fn what_was_stored_is_found_byte_for_byte() {
    let storage = storage();
    for (at, len) in [0, 1, 9_999, 128 * 1024, 128 * 1024 + 1, 3_000_000].into_iter().enumerate() {
        let (key, sent) = (key(&format!("/{len}")), body(at as u64, len));
        let meta = meta(&[("content-length", len.to_string()), ("etag", format!("\"{at}\""))]);
        assert!(found(storage, &key).await.is_none());
        fill(storage, &key, &meta, &sent).await;

        let (got, mut hit) = found(storage, &key).await.unwrap();
        assert_eq!(got.headers().get("etag"), meta.headers().get("etag"));
        assert_eq!((got.created(), got.fresh_until()), (meta.created(), meta.fresh_until()));
        assert!(rest(&mut hit).await.unwrap() == sent);
        assert!(hit.read_body().await.unwrap().is_none());
        hit.finish(storage, &key, &span()).await.unwrap();
    }
}

#[tokio::test]
async fn a_body_of_another_length_than_announced_is_not_stored() {
    let storage = storage();
    let old = body(1, 500);
    fill(storage, &key("/a"), &plain(), &old).await;
    for sent in [0, 499, 501] {
        let announced = meta(&[("content-length", "500".into())]);
        fill(storage, &key("/a"), &announced, &body(2, sent)).await;
        assert!(stored_body(storage, &key("/a")).await.unwrap() == old);
    }
    // Lengths that say nothing are not held against the body.
    for odd in ["5, 5", "-1", "+3", "", "99999999999999999999999"] {
        fill(storage, &key(odd), &meta(&[("content-length", odd.into())]), &old).await;
        assert!(stored_body(storage, &key(odd)).await.unwrap() == old, "{odd}");
    }
}

#[tokio::test]
async fn ranges_are_cut_as_pingora_asks_for_them() {
    let storage = storage();
    for len in [1000, 1_000_000] {
        let sent = body(3, len);
        fill(storage, &key("/r"), &plain(), &sent).await;
        let (_, mut hit) = found(storage, &key("/r")).await.unwrap();
        assert!(hit.can_seek() && hit.can_seek_multipart());
        hit.read_body().await.unwrap();
        let last = len - 1;
        for (start, end) in
            [(5, Some(10)), (0, None), (last, None), (last, Some(len + 9)), (100, Some(900)), (7, Some(7))]
        {
            hit.seek(start, end).unwrap();
            let expected = &sent[start..end.unwrap_or(len).min(len)];
            assert!(rest(&mut hit).await.unwrap() == expected, "{start} {end:?} of {len}");
        }
        assert!(hit.seek(len, None).is_err());
        assert!(hit.seek(10, Some(9)).is_err());
        // A refused range leaves the reader usable.
        hit.seek_multipart(0, Some(3)).unwrap();
        assert_eq!(rest(&mut hit).await.unwrap(), sent[..3]);
    }
}

#[tokio::test]
async fn variants_are_objects_of_their_own() {
    let storage = storage();
    let (plain_key, mut gzip, mut other) = (key("/v"), key("/v"), key("/v"));
    gzip.set_variance_key([1; 16]);
    other.set_variance_key([2; 16]);
    fill(storage, &plain_key, &plain(), &body(1, 10)).await;
    fill(storage, &gzip, &plain(), &body(2, 20)).await;
    assert_eq!(stored_body(storage, &plain_key).await.unwrap(), body(1, 10));
    assert_eq!(stored_body(storage, &gzip).await.unwrap(), body(2, 20));
    assert!(stored_body(storage, &other).await.is_none());

    // Even under one hash: the variance itself is compared.
    let mut same_hash = key("/v");
    same_hash.set_primary_bin_override(gzip.combined_bin());
    assert!(stored_body(storage, &same_hash).await.is_none());
}

#[tokio::test]
async fn keys_that_share_a_hash_never_get_each_others_object() {
    let storage = storage();
    let (mut mine, mut theirs) = (key("/mine"), key("/theirs"));
    mine.set_primary_bin_override([7; 16]);
    theirs.set_primary_bin_override([7; 16]);
    fill(storage, &mine, &plain(), &body(1, 10)).await;
    assert!(found(storage, &theirs).await.is_none());
    assert!(!storage.update_meta(&theirs, &plain(), &span()).await.unwrap());
    assert_eq!(stored_body(storage, &mine).await.unwrap(), body(1, 10));

    let mut miss = storage.get_miss_handler(&theirs, &plain(), &span()).await.unwrap();
    miss.write_body(body(2, 10), true).await.unwrap();
    assert!(found(storage, &mine).await.is_none(), "an unfinished write of another key");
    let tag = miss.streaming_write_tag().unwrap().to_vec();
    assert!(storage.lookup_streaming_write(&mine, Some(&tag), &span()).await.is_err());
    miss.finish().await.unwrap();
    assert!(found(storage, &mine).await.is_none());
    assert_eq!(stored_body(storage, &theirs).await.unwrap(), body(2, 10));
}

/// Metadata as a revalidation leaves them: other headers, the same `created`.
fn revalidated(old: &CacheMeta, etag: &str) -> CacheMeta {
    let mut header = old.response_header_copy();
    header.insert_header("etag", etag).unwrap();
    CacheMeta::new(old.fresh_until(), old.created(), 0, 0, header)
}

#[tokio::test]
async fn metadata_change_and_the_body_stays() {
    let storage = storage();
    let old = plain();
    assert!(!storage.update_meta(&key("/m"), &old, &span()).await.unwrap());
    fill(storage, &key("/m"), &old, &body(1, 300_000)).await;
    assert!(storage.update_meta(&key("/m"), &revalidated(&old, "\"new\""), &span()).await.unwrap());
    let (got, mut hit) = found(storage, &key("/m")).await.unwrap();
    assert_eq!(got.headers().get("etag").unwrap(), "\"new\"");
    assert!(rest(&mut hit).await.unwrap() == body(1, 300_000));
}

#[tokio::test]
async fn metadata_never_move_to_another_body() {
    let storage = storage();
    let first = plain();
    fill(storage, &key("/m"), &first, &body(1, 10)).await;
    fill(storage, &key("/m"), &plain(), &body(2, 10)).await;
    assert!(!storage.update_meta(&key("/m"), &revalidated(&first, "\"first\""), &span()).await.unwrap());
    let (got, _) = found(storage, &key("/m")).await.unwrap();
    assert!(got.headers().get("etag").is_none());
}

#[tokio::test]
async fn purging_removes_and_expiring_makes_stale() {
    let storage = storage();
    let compact = key("/p").to_compact();
    let purge = |target| storage.purge(target, PurgeType::Invalidation, Box::leak(Box::new(span())));
    let active = PurgeTarget::Active(&compact);
    assert_eq!(purge(active).await.unwrap(), PurgeOutcome::NotFound);
    assert_eq!(storage.expire(active, &span()).await.unwrap(), PurgeOutcome::NotFound);

    fill(storage, &key("/p"), &plain(), &body(1, 10)).await;
    assert_eq!(storage.expire(active, &span()).await.unwrap(), PurgeOutcome::Expired);
    let (stale, mut hit) = found(storage, &key("/p")).await.unwrap();
    assert!(!stale.is_fresh(SystemTime::now()) && stale.stale_while_revalidate_sec() == 30);
    assert_eq!(rest(&mut hit).await.unwrap(), body(1, 10));

    let generation = CacheEntryKey::identified(compact.clone(), CacheEntryId::new(1));
    assert_eq!(purge(PurgeTarget::Exact(&generation)).await.unwrap(), PurgeOutcome::NotFound);
    assert!(found(storage, &key("/p")).await.is_some());
    assert_eq!(purge(active).await.unwrap(), PurgeOutcome::Purged(None));
    assert!(found(storage, &key("/p")).await.is_none());

    fill(storage, &key("/p"), &plain(), &body(1, 10)).await;
    let exact = CacheEntryKey::key_only(compact.clone());
    assert_eq!(purge(PurgeTarget::Exact(&exact)).await.unwrap(), PurgeOutcome::Purged(None));
    assert!(found(storage, &key("/p")).await.is_none());
}

#[tokio::test]
async fn listings_show_the_primary_key() {
    let storage = storage();
    fill(storage, &key("http://example.net/list"), &plain(), &Bytes::new()).await;
    let page = storage.store().scan(Cursor::default(), 10).await.unwrap();
    assert_eq!(primary_key(&page.entries[0].head).unwrap(), b"http://example.net/list");
}
