//! Unfinished writes: what has arrived so far, where it is kept, and who reads along.

mod fill;
mod follower;
mod gather;
mod groups;
pub(crate) mod limits;
mod list;
mod objects;
mod relay;
mod sink;
mod tail;

pub(crate) use fill::Fill;
pub(crate) use gather::Gather;
pub(crate) use objects::{Objects, add};
pub(crate) use sink::FillSink;
