//! How it was measured, and why it differs. The reasons are those of the full runs that the page shows.

use super::limited::{Kept, LIMIT, LIMIT_BYTES};
use super::modelled::Size;
use crate::paper::damelo as paper;

pub const SEQUENTIAL: &str = "";
pub const ZIPF: &str = "";
pub const RANDOM: &str = "";
pub const DELETES: &str = "";
pub const CREATES: &str = "";
pub const SEQUENTIAL_256: &str = "";
pub const BEST_FRAME: &str = "";
pub const HIT_RATE: &str = "";
pub const HIGHEST_HIT_RATE: &str = "";
pub const PROXY: &str = "";

/// All notes.
pub fn notes(size: &Size, small: &Size, kept: Option<&[Kept]>) -> Vec<String> {
    let _ = (size, small, kept, LIMIT, LIMIT_BYTES, paper::GROUPS);
    Vec::new()
}
