//! The `tremor` binary.
fn main() {}
