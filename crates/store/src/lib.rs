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
pub mod external;
mod fuse;
mod hit;
pub mod index;
mod key;
pub mod layout;
pub mod limits;
pub mod memory;
mod reference;
pub mod replace;
mod stats;
mod store;
pub mod tune;
#[cfg(not(feature = "unstable"))]
mod wait;
#[cfg(feature = "unstable")]
pub mod wait;
mod write;
mod writer;

pub use cache::{Cache, CacheOptions, EngineName, NameOnDisk, OpenError, Plan, Tuning};
pub use engine::hashcache::Bins;
pub use hit::{Body, BodySource, Hit, ReadError, Source, State};
pub use key::{Digest, Key, MAX_NAME_BYTES, Secret};
pub use reference::Reference;
pub use stats::Stats;
pub use store::{
    Cursor, FIND_DEADLINE, HeadEdit, Lookup, Pending, Removed, ScanEntry, ScanPage, Store, StoreError, Updated,
};
pub use wait::block_on;
pub use writer::{Commit, FillId, Hint, Reuse, Sink, WhyNot, Writer};
