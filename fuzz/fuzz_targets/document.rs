//! Fuzz target for `document::check`.

#![no_main]

#[path = "../checks/document.rs"]
mod document;

libfuzzer_sys::fuzz_target!(|data: &[u8]| document::check(data));
