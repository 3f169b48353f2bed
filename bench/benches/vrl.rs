//! x
#![allow(unused_crate_dependencies)]
fn main() {}
