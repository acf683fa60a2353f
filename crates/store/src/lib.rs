//! A cache's storage engine: objects in, objects out, every byte checked on the way back.
//!
//! The crate has two levels. [`Store`] is what programs use: streaming objects of any size, readers that follow
//! a write, aborts, removal, limits. It is implemented once, by [`Cache`], over any `engine::Engine`: the small
//! trait that each published organisation of a cache disk implements. Nothing in here knows HTTP, a network or an
//! async runtime; futures are woken from the store's own threads.
//!
//! The second level, `engine` and the rooms below it, is public only with the feature `unstable`, and so is what needs it, as
//! `Cache::over`. **What is behind that feature may change with any version**, a patch too. Whoever builds on it names one
//! version exactly.
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

#![cfg_attr(
    not(feature = "unstable"),
    allow(dead_code, unused_imports, reason = "what only tests and the laboratory use is there for `unstable`")
)]

mod cache;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod engines;
mod extents;
pub mod external;
mod fuse;
mod hot;
pub mod limits;
mod reference;
mod reuse;
mod store;
mod terms;
pub mod tune;
mod write;

// The rooms below the store.
#[cfg(feature = "unstable")]
pub mod device;
#[cfg(feature = "unstable")]
pub mod engine;
#[cfg(feature = "unstable")]
pub mod index;
#[cfg(feature = "unstable")]
pub mod layout;
#[cfg(feature = "unstable")]
pub mod memory;
#[cfg(feature = "unstable")]
pub mod replace;
#[cfg(feature = "unstable")]
pub mod wait;

#[cfg(not(feature = "unstable"))]
mod device;
#[cfg(not(feature = "unstable"))]
mod engine;
#[cfg(not(feature = "unstable"))]
mod index;
#[cfg(not(feature = "unstable"))]
mod layout;
#[cfg(not(feature = "unstable"))]
mod memory;
#[cfg(not(feature = "unstable"))]
mod replace;
#[cfg(not(feature = "unstable"))]
mod wait;

/// Dámelo by its paper's own interface: groups of whole objects that are read without a copy.
pub mod damelo {
    pub use crate::engine::damelo::files::{FileSystem, FileSystemError, FileSystemOptions, Object};
}

pub use cache::{Cache, CacheOptions, DEFAULT_DISK_BYTES, DEFAULT_MEAN_BYTES, OpenError, Remade};
pub use device::file::existing;
pub use device::{IoEngine, OpenDiskError, TIME_BOUNDS_US, Times, is_block_device};
pub use engine::spread::MAX_DISKS;
pub use engine::{EngineRef, Registry, Settings};
pub use layout::SuperblockError;
pub use memory::AlignedBuf;
pub use memory::heap::trim_heap;
pub use memory::machine::memory_bytes;
pub use reference::Reference;
pub use store::{
    Body, BodySource, Commit, Cursor, FIND_DEADLINE, FillId, HeadEdit, Hint, Hit, Judge, Lookup, Removed, Reuse,
    ScanEntry, ScanPage, Sink, Source, State, Store, Swept, Updated, Writer,
};
pub use terms::{
    Amount, Digest, EngineFigures, Figure, FigureKind, Key, Larger, MAX_NAME_BYTES, Pending, ReadError, Secret, Stats,
    StoreError, WhyNot,
};
pub use tinaja_clock::{Clock, ManualClock};
pub use wait::block_on;
