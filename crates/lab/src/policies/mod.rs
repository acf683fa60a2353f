//! What leaves a cache that is full: policies at equal bytes, simulated without a disk.
//!
//! Published ones keep whole objects and nothing else in so many bytes. The engine's own, [`Generational`], is simulated as its engine
//! runs it: segments, headers, padding and all, by the very code that the engine calls. `sequence` is a load ready to be replayed,
//! `replay` does so and counts.

mod belady;
mod engine;
mod fifo;
mod gdsf;
mod generational;
mod lhd;
mod lru;
mod ordered;
mod replay;
mod s3fifo;
mod sequence;
mod sieve;
mod wtinylfu;

pub use belady::Belady;
pub use engine::Engine;
pub use fifo::Fifo;
pub use gdsf::Gdsf;
pub use generational::{Budget, Generational, Reads, Settings};
pub use lhd::Lhd;
pub use lru::Lru;
pub use replay::{Outcome, Replay, replay};
pub use s3fifo::S3Fifo;
pub use sequence::{Asked, Sequence};
pub use sieve::Sieve;
pub use wtinylfu::WTinyLfu;

/// A cache that keeps whole objects in so many bytes.
pub trait Policy {
    /// Ask for an object, and store it if it is not there. Whether it was there.
    fn ask(&mut self, asked: &Asked) -> bool;

    /// Bytes written to a disk and bytes of records that were stored, if the policy knows of one.
    fn written(&self) -> Option<(u64, u64)> {
        None
    }
}

/// A policy by its name.
pub struct Reference {
    /// As tables name it.
    pub name: &'static str,
    /// A cache of so many bytes that goes by it.
    pub new: fn(capacity_bytes: u64) -> Box<dyn Policy>,
}

/// All references, in the order of tables.
pub const REFERENCES: [Reference; 9] = [
    Reference { name: "FIFO", new: |bytes| Box::new(Fifo::new(bytes)) },
    Reference { name: "LRU", new: |bytes| Box::new(Lru::new(bytes)) },
    Reference { name: "S3-FIFO", new: |bytes| Box::new(S3Fifo::new(bytes)) },
    Reference { name: "SIEVE", new: |bytes| Box::new(Sieve::new(bytes)) },
    Reference { name: "W-TinyLFU", new: |bytes| Box::new(WTinyLfu::new(bytes)) },
    Reference { name: "GDSF", new: |bytes| Box::new(Gdsf::new(bytes)) },
    Reference { name: "LHD", new: |bytes| Box::new(Lhd::new(bytes)) },
    Reference { name: "Belady", new: |bytes| Box::new(Belady::new(bytes, false)) },
    Reference { name: "Belady, sizes", new: |bytes| Box::new(Belady::new(bytes, true)) },
];
