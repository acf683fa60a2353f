//! Reading large objects: their extents, one at a time or several in one request, as far as a reader surely wants them.
//!
//! Where the extents lie says a table ([`crate::layout::table`]).

mod body;
mod collect;
pub(crate) mod limits;
mod reader;
mod wanted;

pub(crate) use body::LargeBody;
pub(crate) use collect::WhenRead;
pub(crate) use reader::{ExtentReader, turn};
pub(crate) use wanted::Wanted;
