//! A cache's storage engine: objects in, objects out, every byte checked on the way back.
//!
//! The crate has two levels. [`Store`] is what programs use: streaming objects of any size, readers that follow
//! a write, aborts, removal, limits. It is implemented once, by [`Cache`], over any [`engine::Engine`]: the small
//! trait that each published organisation of a cache disk implements. Nothing in here knows HTTP, a network or an
//! async runtime; futures are woken from the store's own threads.
//!
//! ```
//! use tinaja_store::{block_on, Commit, Hint, Key, Reference, Store};
//!
//! let store = Reference::new();
//! let key = Key::from_name(b"http://example.net/");
//! let mut writer = store.put(&key, "text/plain".into(), Hint::default());
//! block_on(writer.write("the rain ".into()));
//! block_on(writer.write("it keeps".into()));
//! assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
//!
//! let mut hit = block_on(store.find(&key)).unwrap();
//! assert_eq!(&hit.head[..], b"text/plain");
//! assert_eq!(block_on(hit.body.collect(1024)).unwrap(), "the rain it keeps");
//! ```

pub mod cache;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod device;
pub mod engine;
pub mod engines;
mod extents;
pub mod external;
mod fuse;
pub mod hot;
pub mod index;
pub mod layout;
pub mod limits;
pub mod memory;
mod reference;
pub mod replace;
mod store;
mod terms;
pub mod tune;
#[cfg(not(feature = "unstable"))]
mod wait;
#[cfg(feature = "unstable")]
pub mod wait;
mod write;

pub use cache::{Cache, CacheOptions, OpenError};
pub use engine::{EngineRef, Registry, Settings};
pub use reference::Reference;
pub use store::{
    Body, BodySource, Commit, Cursor, FIND_DEADLINE, FillId, HeadEdit, Hint, Hit, Lookup, Removed, Reuse, ScanEntry,
    ScanPage, Sink, Source, State, Store, Updated, Writer,
};
pub use terms::{Digest, Key, MAX_NAME_BYTES, Pending, ReadError, Secret, Stats, StoreError, WhyNot};
pub use wait::block_on;
