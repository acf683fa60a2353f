//! The `tinaja` binary.
fn main() {}
