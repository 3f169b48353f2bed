//! Fuzz target for `msgpack::check`.

#![no_main]

#[path = "../checks/msgpack.rs"]
mod msgpack;

libfuzzer_sys::fuzz_target!(|data: &[u8]| msgpack::check(data));
