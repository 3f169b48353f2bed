//! Fuzz target for `otlp::check`.

#![no_main]

#[path = "../checks/otlp.rs"]
mod otlp;

libfuzzer_sys::fuzz_target!(|data: &[u8]| otlp::check(data));
