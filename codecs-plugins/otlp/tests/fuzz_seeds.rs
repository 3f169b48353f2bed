//! Runs the check of the fuzz target on its seeds, so that inputs that once failed are tested
//! without a fuzzer.

use std::{fs, path::Path};

#[path = "../../../fuzz/checks/otlp.rs"]
mod otlp;

#[test]
fn seeds_and_their_prefixes_are_unchanged_by_a_round_trip() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/otlp");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the target has seeds") {
        let seed = fs::read(entry.expect("an entry of the folder").path()).expect("a seed");
        (0..=seed.len()).for_each(|end| otlp::check(&seed[..end]));
        count += 1;
    }
    assert!(count > 2, "there are {count} seeds");
}
