//! A file an object, in a tree of directories (Maltzahn, Richardson, Grunwald, USENIX 1999, sections 2.3.2 and 2.4.1): how
//! real proxies kept their caches, and how they could do better.
//!
//! One engine, five ways to name a file ([`naming`]), and small objects in a mapped file in two ways (2.4.2 to 2.4.4), with LRU or FBC to
//! make room there (3.5, 3.6). What is known of objects is in memory, so whether one is there costs no
//! I/O; to read one opens its file, reads it in one go and closes it. Numbers of files that are gone are used again.
//!
//! Invariants:
//! - A place names a file by a number that is used once, so bytes of another object, or of another version, never verify,
//!   however often a file of the same name has come and gone.
//! - A number is free again only once its file is removed.
//! - A new version goes into a file of its own, and the older one's file stays until a sync has made the new one last.
//! - A removal takes every file of the object, and lasts with the next sync.
//! - Versions of an object are removed in the order of their age, and none before the removal of the one before it lasts: the kernel
//!   writes what changed in any order, and an older version must not be what a cut of the power leaves.
//! - No byte of a client's is in a path: there is nothing to escape. The tree by URL is the exception ([`urls`]): it escapes.
//!
//! CERN's way (2.3.1) has a list in each directory and a lock beside what is being written, and asks the list for each
//! object that it serves. The paper's has nothing but these, each request a process of its own. Ours keeps its table of files in memory as well, as for the
//! other ways: the promises above need it.
//!
//! # Decisions
//!
//! What the paper leaves open, and our answer:
//!
//! - **Who leaves when the cache is full?** What was asked for least recently: the paper's caches never fill. A file that
//!   somebody reads stays for them until they are done, 30 seconds at most.
//! - **What is small?** What fits into a page with its name, its head and 120 bytes of ours. The paper's objects have none of these.
//! - **What replaces what in the mapped file?** An object one of the same size of segment, as in section 3.3: a size keeps the segments
//!   that it had when the file became full. A size without any is given the next larger one that there is, else a file.
//! - **What does a file take?** Whole blocks of 4 KiB. Inodes and directories are not counted.
//! - **When does something last?** When `syncfs` has returned. One call for each file would commit the journal of ext4 for
//!   each. After a sync that failed, what was written since the one before is given up.
//! - **What does a stop leave?** The files. To open the cache again, the end of each is read: there is no list of them that
//!   could be wrong. Squid keeps one, and trusts it.
//! - **What if somebody else changes the directory?** A file that is gone, cut or replaced is a miss, and counted. Links are
//!   never followed. Files that have no name of ours are left alone.

mod body;
mod directory;
mod engine;
mod figures;
mod files;
mod format;
mod limits;
pub mod lists;
pub mod naming;
mod record;
mod recover;
mod segments;
mod settings;
pub mod urls;

pub(crate) use directory::NAMES;
pub use engine::{FileTree, TreeOptions};
pub use limits::{MAX_SUPERSEDED_SHARE, MAX_UNSYNCED_FILES};
pub use record::{CERN, SQUID, SQUID2, SQUIDL, SQUIDL_K, SQUIDM, SQUIDML, SQUIDMLA};
pub use segments::{Mapped, Replacement, Segments};
pub use settings::{
    CYCLIC_REPLACEMENT, FILES_PER_DIRECTORY, FIRST_LEVEL, MAPPED_PERCENT, OVERLAPPING_MASKS, PAGE_SIZE, SECOND_LEVEL,
};
