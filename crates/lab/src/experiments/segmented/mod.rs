//! The experiments of the paper on the log-structured cache.

mod breakeven;
mod hits;
mod latency;
mod load;
mod runs;

pub use breakeven::EXPERIMENT as BREAK_EVEN;
pub use hits::EXPERIMENT as HITS;
pub use latency::EXPERIMENT as LATENCY;

const MIB: u64 = 1 << 20;

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}
