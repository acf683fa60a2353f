//! What leaves a cache that is several logs, and what of it is written again: by class of size and generation, by what each has
//! earned at each age, as far as tokens allow.
//!
//! An object is stored in the log of its class. A log is cut into segments, and only its oldest can leave. Of all logs' oldest
//! segments the one leaves that is worth least: its live objects times the hits that one of its class, generation and age will
//! bring, as it was learned. What was hit there and is worth more than what leaves is written again, one generation up for each
//! hit; so each generation holds objects of one popularity, and they leave together. Rewriting is paid with tokens, which each
//! stored byte earns a few of: the less are left, the more an object must be worth.
//!
//! Large objects take several segments and are not written again. They have classes and generations all the same: one that returns soon
//! after it has left is stored a generation higher, among others that did. In one log, in the order of writing, those that are asked
//! for again and again left with those that nobody wants.
//!
//! Everything here is pure: no I/O, no clock, no randomness. Time is bytes stored by clients; a *lap* is as many as the disk has.
//! So the laboratory simulates what ships. A call allocates nothing. Many threads may call at once; [`Generations::hit`] is two
//! atomic additions.
//!
//! | file | what |
//! |---|---|
//! | `shape` | classes, generations, the number of a log |
//! | `ages` | how ages are cut into buckets |
//! | `learned` | hits and exposure by log and age, and the worth that follows |
//! | `tokens` | what may be written again |
//! | `saved` | what was learned, in bytes, for after a stop |
//! | `policy` | the decisions |

mod ages;
mod learned;
mod policy;
mod saved;
mod shape;
mod tokens;

#[cfg(test)]
mod tests;

pub use policy::{Generations, Parts, Segment, Value};
pub use shape::{Log, Shape};
