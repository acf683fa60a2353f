//! The words that all rooms share: what objects and records are called, where they lie, what went wrong, what is counted.

mod counters;
mod errors;
mod figures;
mod key;
mod larger;
pub(crate) mod limits;
mod place;
mod placement;
mod record;
mod stats;

use std::future::Future;
use std::pin::Pin;

pub use counters::{Counters, TIME_BOUNDS_US, Times};
pub use errors::{ReadError, StoreError, WhyNot};
pub use figures::{EngineFigures, Figure, FigureKind};
pub use key::{Digest, Key, MAX_NAME_BYTES, Secret};
pub use larger::{Amount, Larger};
pub(crate) use place::{DISK_SHIFT, inside};
pub use place::{MAX_WAYS, Place, Places};
pub use placement::{Placement, Reuse};
pub use record::{Fetched, Found, Kind, Part, Record, SyncDone};
pub use stats::Stats;

/// A future of the store's: it may be awaited on any runtime and is woken from the store's own threads.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;
