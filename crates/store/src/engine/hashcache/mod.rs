//! HashCache (Badam, Park, Pai, Peterson, NSDI 2009): sets of slots so small that memory no longer bounds the disk.
//!
//! Two engines in several policies, made of the same parts:
//!
//! | room | holds |
//! |---|---|
//! | `table` | with a Disk Table (sections 3.1 to 3.3): Basic, Set, SetMem, SetMemLRU |
//! | `log` | a circular log and no table (section 3.4): Log, LogN, and LogLRU over the next room's index |
//! | `loglru` | an index some of whose positions lie in a file |
//! | `places` | what a place means where some are not in the log |
//! | `laps` | what the four bits of a slot's lap mean |
//! | `live` | how many slots lead into each region of a log |

mod laps;
mod live;
pub(crate) mod log;
pub(crate) mod loglru;
mod places;
mod records;
pub mod settings;
pub(crate) mod table;

pub use log::{HashCacheLog, HashCacheLogOptions};
pub use loglru::LruCut;
pub use records::{LOG, LOGLRU, LOGN};
pub use table::{BASIC, Bins, HashCacheTable, SET, SETMEM, SETMEMLRU, TableOptions, TablePolicy};
