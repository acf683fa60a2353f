//! A cache's backend as a browser uses one: entries made of numbered streams, opened by key (Log-structured cache,
//! section 3.1, Figure 2).
//!
//! Where [`tinaja_store::Store`] keeps objects that are written once from front to back, a backend keeps *entries*: each has a
//! few streams that are read and written anywhere, and one stream may be rewritten alone, as a browser does with an
//! answer's head when it has asked the server whether its body is still right. Every call is asynchronous, and several
//! readers may have the same entry open.
//!
//! The traits are what programs, and the laboratory's replay, are written against. [`EngineBackend`] is the paper's cache:
//! each entry is one record of an engine, made in memory until all have closed it, and appended whole (3.2.2). An entry that
//! is written to again is written anew, with the streams that were not touched copied (3.2.5). Streams that no record holds go
//! into files of their own.
//!
//! ```
//! use std::sync::Arc;
//! use tinaja_backend::{Backend, BackendError, EngineBackend, EngineBackendOptions};
//! use tinaja_store::device::{Medium, Memory};
//! use tinaja_store::engine::registry::{Ask, Opening};
//! use tinaja_store::layout::Stamp;
//! use tinaja_store::{Secret, Settings, block_on, engines};
//!
//! let (secret, disk) = (Secret::from_bytes([7; 32]), Memory::over(&Medium::zeroed(8 << 20)));
//! let (stamp, settings) = (Stamp { seed: secret.seed() }, Settings::new());
//! let ask = Ask { bytes: 8 << 20, reserved: 4096, mean_object_bytes: 4096, stamp, settings: &settings };
//! let engine = engines::HASHCACHE_LOG.cut(&ask).unwrap().open(Opening::of(Arc::new(disk))).unwrap();
//! let cache = EngineBackend::over(engine, secret, EngineBackendOptions::default()).unwrap();
//!
//! block_on(async {
//!     let entry = cache.create_entry(b"http://example.net/").await?;
//!     entry.write_data(0, 0, "200 OK".into(), false).await?;
//!     entry.write_data(1, 0, "the rain ".into(), false).await?;
//!     entry.write_data(1, 9, "it keeps".into(), false).await?;
//!     entry.close().await?;
//!
//!     let entry = cache.open_entry(b"http://example.net/").await?;
//!     assert_eq!(entry.read_data(1, 4, 100).await?, "rain it keeps");
//!     entry.doom();
//!     entry.close().await?;
//!     assert!(matches!(cache.open_entry(b"http://example.net/").await, Err(BackendError::NotFound)));
//!     cache.stop().await
//! })?;
//! # Ok::<(), BackendError>(())
//! ```
#![forbid(unsafe_code)]

mod calls;
mod close;
#[cfg(feature = "contract")]
pub mod contract;
mod counted;
mod entry;
mod error;
mod files;
mod format;
pub mod limits;
mod open;
mod options;
mod over;
mod shared;
mod tasks;
mod write;

pub use calls::{Answer, Backend, Entry};
pub use error::{BackendError, STREAMS};
pub use options::{EngineBackendOptions, StreamFiles};
pub use over::EngineBackend;
