//! Which URLs an operator's rules fit: by host and by path, all rules as one matcher.
//!
//! # Decisions
//!
//! - Hosts are looked up in maps, and all paths are one set of regular expressions, which is matched once, in time that is linear
//!   in the path. So a thousand rules cost a request little more than one.
//! - What is too large is refused when it is read, with what is allowed.

mod matcher;
mod patterns;

pub use matcher::BadUrls;
pub(crate) use matcher::{UrlMatcher, check, compiled};
pub use patterns::{BadPattern, HostPattern, PathPattern};
pub(crate) use patterns::{Hosts, covers, has_dot_segments};
