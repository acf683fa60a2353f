//! Purges are forgotten once nothing that they name is left: then no object is compared with them any more.
//!
//! - `arriving`: the store as the exchange has it, into which nothing comes that was asked for before a purge which is forgotten
//! - `walk`: the walk through all that is stored
//!
//! # Decisions
//!
//! - A walk begins with a line that is drawn under what may come ([`crate::bans::Bans::begin_walk`]). What is older and is being stored at that moment holds the
//!   line back; what is older and comes later is not stored. So a walk need not go on until nothing comes any more: all that was there when it began is
//!   looked at once, all that came since is younger, and it ends on a busy cache too.
//! - Everything that is stored goes by its stamp, whoever stores it: answers, pieces and their lists, beginnings, heads after a 304. The line is drawn around
//!   the store, not at each of those places, so that none can be overlooked. What says only how others hang together, or is found by others alone, has no stamp of its own.
//! - What is purged hard is dropped from the store's index, and nothing is written: for a million objects a removal each would be 64 to 512 MB. It may be back after a restart,
//!   and so are the purges, from their file, until an index is saved that has nothing of it.
//! - What is purged softly stays: it may be served stale for as long as its origin is away. Its purge stays until it was validated, replaced or evicted; a
//!   walk an hour looks whether it was.
//! - Whoever looked an object up before it was dropped may still be reading it. So purges are forgotten only when every lookup that had begun by then has
//!   ended, by its deadline.

mod arriving;
mod walk;

pub(crate) use arriving::only_what_may_come;
pub(crate) use walk::keep_forgetting;
