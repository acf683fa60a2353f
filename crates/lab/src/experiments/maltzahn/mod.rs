//! Maltzahn, Richardson and Grunwald (USENIX 1999): layouts of a proxy's disk.

mod cern;
mod claims;
mod finite;
mod future;
mod ground;
mod layouts;
mod load;
mod locality;
mod measured;
mod replacement;
mod squid;

pub use layouts::EXPERIMENT as LAYOUTS;
pub use locality::EXPERIMENT as LOCALITY;
pub use replacement::EXPERIMENT as REPLACEMENT;
pub use squid::EXPERIMENT as BESIDE_SQUID;
