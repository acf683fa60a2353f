//! HashCache-LogLRU's index (section 3.4): the positions of some slots of each set in memory, of the others in a small file.
//!
//! The engine is HashCache-Log over this index.
//!
//! # Decisions
//!
//! What sections 3.4 and 5.4 leave open, and our answer; `set`, `index` and `offsets` have more:
//!
//! - **23 bits a slot at the least?** With prefetching and `k` of eight positions in memory we have 15 + 40k/8: 20 with one
//!   position, 35 with half of them, 55 with all. The paper's 23 are 15 + 8, which would be a length without its position.
//! - **The disk of positions fails.** After 8 failed requests in a row we give it up until a restart, and forget what only it
//!   knew. All else goes on, and the next start finds everything in the log: the file is a hint.
//! - **The disk of positions stalls.** A write waits for it for 5 seconds, and the others then no more; a lookup that needs
//!   it ends by its deadline. It is the same as if the cache's own disk stalled.
//! - **The positions lie apart, and nobody says where.** The cache is refused, since memory has no room for them. With all
//!   eight positions of each set in memory no file is needed, and `tinaja purge` opens the cache so. The name in the
//!   superblock says that they lie apart (`hc-loglru+apart`), so that a program that does not know the name leaves the disk
//!   alone.
//! - **What is left of the file after a crash?** Nothing is needed: each opening writes it anew from the log. In exchange
//!   there are no snapshots. Opening reads every region's summary, and takes 32 bytes of memory a record.

mod cut;
mod index;
pub(crate) mod limits;
mod offsets;
mod set;

pub use cut::LruCut;
pub use index::{LruIndex, Said};
pub use offsets::OffsetLayout;
pub use set::WAYS;
