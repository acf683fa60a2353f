//! A disk cache for Pingora: [`pingora_cache::storage::Storage`] over any [`tinaja_store::Store`].
//!
//! Pingora brings a cache's logic and leaves the storage to others; only a map in memory comes with it. This crate
//! puts a Tinaja store there. Hand the storage to `session.cache.enable` and pass no eviction manager: the store
//! evicts by itself, and Pingora's managers would spend about a hundred bytes of memory on every object.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use pingora_cache::storage::Storage;
//! use tinaja_pingora::TinajaStorage;
//! use tinaja_store::{Reference, Store};
//!
//! let store: Arc<dyn Store> = Arc::new(Reference::new());
//! let storage = TinajaStorage::new(store);
//! // One request fetches and the others follow.
//! let lock = storage.lock(Duration::from_secs(10));
//! // In ProxyHttp::request_cache_filter:
//! //     session.cache.enable(storage, None, None, Some(lock), None);
//! assert!(storage.support_streaming_partial_write());
//! ```
//!
//! `examples/plain_proxy.rs` is a whole reverse proxy.
//!
//! # What to expect
//!
//! - **Readers follow writers.** A request that finds its object half-fetched reads along. If the origin fails, the
//!   readers get an error, never a body that ends short, and what was stored before is served again.
//! - **A failing disk never fails a download.** The object is passed on and not stored.
//! - **Nothing half is stored.** A body whose length is not its `Content-Length` is dropped at the end. Pingora
//!   itself aborts a fill whose connection closed early, wherever the protocol lets it tell.
//! - **Nothing of another URL is served.** Pingora names objects by a 128-bit hash. The whole primary key and the
//!   variance are stored along and compared, so two keys with one hash are two misses, not one wrong answer.
//!   This holds for `CacheKey::set_primary_bin_override` too: share an object by sharing the primary key.
//! - **An object that cannot be read is a miss.** The first piece of a body is read before the hit is reported.
//! - **`user_tag` is no part of an object's name**, as in Pingora's own storage.
//!
//! Worst-case memory for each reader: one piece of [`READ_PIECE_BYTES`] besides what the store holds. For each
//! fill: nothing while the store accepts it; [`RELAY_MOST_BYTES`] when it no longer does (too large, or its disk
//! failed) and the client is slower than the origin.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod fault;
mod head;
mod hit;
mod lock;
mod meta;
mod miss;
mod name;
mod relay;
mod storage;

pub use head::{MAX_HEADER_BYTES, MAX_HEADERS, MAX_PRIMARY_KEY_BYTES, StoredHead, primary_key};
pub use hit::{READ_PIECE_BYTES, StartsLater, prefetch};
pub use miss::announced_bytes;
pub use relay::RELAY_MOST_BYTES;
pub use storage::TinajaStorage;
