//! Maltzahn, Richardson and Grunwald (USENIX 1999): layouts of a proxy's disk.

mod layouts;
mod load;
mod locality;

pub use layouts::EXPERIMENT as LAYOUTS;
pub use locality::EXPERIMENT as LOCALITY;
