//! The policy by itself.
