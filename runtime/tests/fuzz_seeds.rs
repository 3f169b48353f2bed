//! Runs the checks of the fuzz targets on their seeds. These tests find earlier faults again without a fuzzer, and
//! ensure that the checks compile.

use std::{fs, path::Path};

#[path = "../../fuzz/checks/document.rs"]
mod document;
#[path = "../../fuzz/checks/json.rs"]
mod json;
#[path = "../../fuzz/checks/msgpack.rs"]
mod msgpack;

/// Checks every seed of a target, and every prefix of each seed.
fn seeds(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the target has seeds") {
        let seed = fs::read(entry.expect("an entry of the folder").path()).expect("a seed");
        (0..=seed.len()).for_each(|end| check(&seed[..end]));
        count += 1;
    }
    assert!(count > 5, "there are {count} seeds");
}

#[test]
fn json_seeds_are_decoded_like_serde_json() {
    seeds("json", json::check);
}

#[test]
fn msgpack_seeds_are_decoded_like_rmpv() {
    seeds("msgpack", msgpack::check);
}

#[test]
fn document_seeds_are_valid_or_safely_rejected() {
    seeds("document", document::check);
}
