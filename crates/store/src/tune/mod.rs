//! The right parameters by themselves (HashCache, section 4.4): measure the disk, look at the objects, and choose.
//!
//! A Disk Table has three: how large a bin is, how many a set has, and how many bits of an object's hash memory keeps. The
//! paper chooses them from two tables, and says that this can be done when a system is set up:
//!
//! - [`DiskSpeed`], its Table 6: how long a read of each size takes, and how many there are in a second. The largest size
//!   that costs little more than a small one is what a set may have: it is read in one seek.
//! - [`Sizes`], its Table 5: how many objects are smaller than what. Of the bins that let a set have enough ways, the
//!   smallest that holds most objects whole wastes least.
//!
//! Which engine suits a budget of memory is another question: [`within`].
//!
//! [`choose`] does that and no more: it is a function of the two tables, and says why. [`DiskSpeed::measure`] and
//! [`Sizes::of_cache`] find out the tables.
//!
//! ```
//! use tinaja_store::tune::{choose, DiskSpeed, Sizes};
//!
//! // The paper's disks and objects lead to the paper's choice: 8 blocks of 8 KiB to a set, 8 bits of hash.
//! let choice = choose(&DiskSpeed::of_the_paper(), &Sizes::of_the_paper());
//! assert_eq!((choice.bin_bytes, choice.ways, choice.hash_bits), (8192, 8, 8));
//! ```

mod choose;
mod disk;
mod paper;
mod scratch;
pub(crate) mod sizes;

pub use crate::cache::{Within, within};
pub use choose::{Choice, choose, choose_for};
pub use disk::{DiskSpeed, ReadSpeed, TuneError};
pub use sizes::{BESIDE_BODY_BYTES, Sizes};
