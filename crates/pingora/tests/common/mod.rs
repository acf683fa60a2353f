//! What the tests share: storages, metadata, and bodies that are a function of a number.
#![allow(dead_code)] // Each test file is a program of its own and uses a part.

pub mod altered;
pub mod narrow;
pub mod origin;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pingora_cache::storage::{HitHandler, Storage};
use pingora_cache::trace::{Span, SpanHandle};
use pingora_cache::{CacheKey, CacheMeta};
use pingora_http::ResponseHeader;
use tinaja_pingora::TinajaStorage;
use tinaja_store::{Reference, Store};

pub fn storage() -> &'static TinajaStorage {
    over(Reference::new())
}

pub fn over(store: impl Store) -> &'static TinajaStorage {
    TinajaStorage::new(Arc::new(store))
}

pub fn span() -> SpanHandle {
    Span::inactive().handle()
}

pub fn key(name: &str) -> CacheKey {
    CacheKey::new(name, "")
}

/// A fresh response with these headers.
pub fn meta(headers: &[(&'static str, String)]) -> CacheMeta {
    let mut header = ResponseHeader::build(200, None).unwrap();
    for (name, value) in headers {
        header.append_header(*name, value).unwrap();
    }
    let now = SystemTime::now();
    CacheMeta::new(now + Duration::from_secs(60), now, 30, 40, header)
}

pub fn plain() -> CacheMeta {
    meta(&[("content-type", "text/plain".into())])
}

/// A body that no other seed has.
pub fn body(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let byte = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..len).map(byte).collect()
}

pub async fn fill(storage: &'static TinajaStorage, key: &CacheKey, meta: &CacheMeta, body: &Bytes) {
    let mut miss = storage.get_miss_handler(key, meta, &span()).await.unwrap();
    for piece in body.chunks(10_000) {
        miss.write_body(Bytes::copy_from_slice(piece), false).await.unwrap();
    }
    miss.finish().await.unwrap();
}

pub async fn found(storage: &'static TinajaStorage, key: &CacheKey) -> Option<(CacheMeta, HitHandler)> {
    storage.lookup(key, &span()).await.unwrap()
}

/// All that is left to read.
pub async fn rest(hit: &mut HitHandler) -> pingora_error::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(piece) = hit.read_body().await? {
        assert!(!piece.is_empty() && piece.len() <= tinaja_pingora::READ_PIECE_BYTES, "{}", piece.len());
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

pub async fn stored_body(storage: &'static TinajaStorage, key: &CacheKey) -> Option<Vec<u8>> {
    let (_, mut hit) = found(storage, key).await?;
    Some(rest(&mut hit).await.unwrap())
}
