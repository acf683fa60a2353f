//! Faults of the store's, as Pingora is told of them.

use pingora_error::{BError, Error, ErrorType};

/// Pingora's error for a fault of the store's.
pub(crate) fn fault(doing: &'static str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BError {
    Error::because(ErrorType::InternalError, doing, cause)
}
