//! The cache as the proxy has it.

use std::sync::Arc;

use tinaja_store::{OpenError, Store};

/// What the proxy caches in.
pub type Storage = Arc<dyn Store>;

/// Opens a cache that another process has left. Errors: [`OpenError`], also that the other process still has it.
pub type Opener = Arc<dyn Fn() -> Result<Storage, OpenError> + Send + Sync>;
