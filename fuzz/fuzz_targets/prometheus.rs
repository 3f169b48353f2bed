//! See the check of the same name.

#![no_main]

#[path = "../checks/prometheus.rs"]
mod prometheus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| prometheus::check(data));
