//! The cache as the proxy has it: a store, which may be another process's for a while.
//!
//! - `switch`: a store that can be exchanged while it is used; `nothing`: what stands in its place before that

mod nothing;
mod switch;

use std::sync::Arc;

pub(crate) use nothing::Nothing;
pub use switch::Switch;
use tinaja_store::{OpenError, Store};

/// What the proxy caches in.
pub type Storage = Arc<dyn Store>;

/// Opens a cache that another process has left. Errors: [`OpenError`], also that the other process still has it.
pub type Opener = Arc<dyn Fn() -> Result<Storage, OpenError> + Send + Sync>;
