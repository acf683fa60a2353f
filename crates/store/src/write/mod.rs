//! Unfinished writes: what has arrived so far, where it is kept, and who reads along.

mod fill;
mod follower;
mod list;
mod relay;
mod sink;
mod tail;

pub(crate) use fill::Fill;
pub(crate) use list::Fills;
pub(crate) use sink::FillSink;
