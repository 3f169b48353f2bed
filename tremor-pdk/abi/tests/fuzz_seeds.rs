//! Runs the check of the fuzz target `frame` on its seeds, so that inputs that once failed are tested without a fuzzer.

use std::{fs, path::Path};

#[path = "../../../fuzz/checks/frame.rs"]
mod frame;

#[test]
fn frame_seeds_are_valid_or_safely_rejected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/frame");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the target has seeds") {
        let seed = fs::read(entry.expect("an entry of the folder").path()).expect("a seed");
        (0..=seed.len()).for_each(|end| frame::check(&seed[..end]));
        count += 1;
    }
    assert!(count > 5, "there are {count} seeds");
}
