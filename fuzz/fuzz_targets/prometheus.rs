//! Fuzz target for `prometheus::check`.

#![no_main]

#[path = "../checks/prometheus.rs"]
mod prometheus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| prometheus::check(data));
