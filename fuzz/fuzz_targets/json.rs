//! Fuzz target for `json::check`.

#![no_main]

#[path = "../checks/json.rs"]
mod json;

libfuzzer_sys::fuzz_target!(|data: &[u8]| json::check(data));
