//! The checks of the fuzz targets over their seeds: what was found once is found again without a
//! fuzzer, and the checks keep compiling.

use std::{fs, path::Path};

#[path = "../../fuzz/checks/document.rs"]
mod document;
#[path = "../../fuzz/checks/json.rs"]
mod json;
#[path = "../../fuzz/checks/msgpack.rs"]
mod msgpack;

/// Checks every seed of a target, and every beginning of it.
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
fn any_bytes_are_read_as_the_judge_of_json_reads_them() {
    seeds("json", json::check);
}

#[test]
fn any_bytes_are_read_as_the_judge_of_msgpack_reads_them() {
    seeds("msgpack", msgpack::check);
}

#[test]
fn any_nodes_are_a_document_or_harmless() {
    seeds("document", document::check);
}
