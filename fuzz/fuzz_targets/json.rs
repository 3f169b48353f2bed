//! See the check of the same name.

#![no_main]

#[path = "../checks/json.rs"]
mod json;

libfuzzer_sys::fuzz_target!(|data: &[u8]| json::check(data));
