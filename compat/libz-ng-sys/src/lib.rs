//! Plain zlib under the name of zlib-ng.
//!
//! Pingora asks flate2 for zlib-ng, whose build needs cmake and a C++ compiler. Plain zlib needs the C compiler that
//! Rust needs anyway, and flate2 uses both through the same names and types. So a machine with Rust builds Tinaja.

pub use libz_sys::*;
