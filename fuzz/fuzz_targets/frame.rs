//! Fuzz target for `frame::check`.

#![no_main]

#[path = "../checks/frame.rs"]
mod frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frame::check(data));
