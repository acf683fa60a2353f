//! What an operator may choose about storing.

use http::header::HeaderName;

use crate::limits::MAX_HEURISTIC_SECONDS;

/// What an operator may choose. The default is what the RFCs say, for a cache that speaks for nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The targeted fields this cache heeds, the most special first (RFC 9213). None by default: a reverse proxy sets
    /// [`crate::targeted::CDN_CACHE_CONTROL`].
    pub targets: Vec<HeaderName>,
    /// The longest guessed lifetime, in seconds; [`MAX_HEURISTIC_SECONDS`] by default, which is also the most.
    pub max_heuristic_seconds: u64,
    /// A lifetime for 404 and 410 that come without one, in seconds. 0 by default: what appears at its origin is
    /// seen that much later.
    pub negative_seconds: u64,
    /// Whether 206 may be stored, by a caller that stores parts as parts (RFC 9111 3.3). Off by default.
    pub parts: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { targets: Vec::new(), max_heuristic_seconds: MAX_HEURISTIC_SECONDS, negative_seconds: 0, parts: false }
    }
}
