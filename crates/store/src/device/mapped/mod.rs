//! A mapped file in segments, beside the files of a tree (Maltzahn, Richardson, Grunwald, USENIX 1999, section 2.4.2).
//!
//! [`WithMapped`] is a tree in which what lies beneath `mapped/` is no file but a segment of one file that is allocated once and mapped
//! into memory. So it composes as any tree does: what counts, fails or keeps files in memory does so with segments.
//!
//! # Decisions
//!
//! - **How are bytes read?** By `process_vm_readv` from the mapping: the kernel copies. A file that was cut is an error then, where
//!   a plain copy would end the process by `SIGBUS`; a handler for that signal is not a library's to install.
//! - **How are they written?** By `pwrite`, which changes the same pages of the page cache as a store to the mapping does. A full
//!   disk is an error, and a page that is written whole is not read first.
//! - **No read-ahead** (`MADV_RANDOM`): the neighbours of an object were missed at the same time, and may have been asked for by
//!   somebody else.

mod map;
mod pack;
mod segment;
mod tree;

pub use pack::{Packer, Packing};
pub use segment::{CLASSES, HEADER_BYTES, Segment};
pub use tree::WithMapped;
