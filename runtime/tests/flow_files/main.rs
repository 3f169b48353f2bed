//! Every folder in the workspace's `tests/fixtures/flow_files` is a case: a `flow.yaml`, and in
//! `expected` what a user gets to see for it: the errors, or the graph and the warnings.
//!
//! `UPDATE_EXPECT=1 cargo test -p tremor-runtime --test flow_files` writes the expectations anew;
//! read the difference before you commit it.

mod artefacts;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use tremor_runtime::flow::{self, Draft, Error, Limits};

use artefacts::Artefacts;

/// What `tremor check` has to say about a flow.
fn outcome(draft: Result<Draft, Error>) -> String {
    let flow = match draft.and_then(|draft| draft.check(&Artefacts)) {
        Ok(flow) => flow,
        Err(error) => return error.to_string(),
    };
    let mut out = format!("flow {}\n{}", flow.name(), flow.graph);
    for warning in &flow.warnings {
        out += "\n";
        out += &warning.to_string();
    }
    out
}

fn check(case: &Path) -> Result<(), String> {
    let found = outcome(flow::read(case.join("flow.yaml")));
    let file = case.join("expected");
    if env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(&file, found).map_err(|error| format!("{}: {error}", file.display()));
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(format!("{}\n--- expected\n{expected}--- found\n{found}", case.display()))
}

fn cases() -> Vec<PathBuf> {
    // Tests run in the folder of their package, so paths in messages are the same everywhere.
    let mut cases: Vec<PathBuf> = fs::read_dir("../tests/fixtures/flow_files")
        .expect("the folder of the cases")
        .map(|entry| entry.expect("a case").path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "there are no cases");
    cases
}

#[test]
fn flow_files() {
    let cases = cases();
    let failed: Vec<_> = cases.iter().filter_map(|case| check(case).err()).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// A flow file that ends anywhere, or lacks any character, is refused or accepted but nothing else.
#[test]
fn damaged_flow_files() {
    let limits = Limits { max_expanded_bytes: 1 << 14, ..Limits::default() };
    for case in cases() {
        let Ok(text) = fs::read_to_string(case.join("flow.yaml")) else { continue };
        // One long line takes long and shows nothing that the others do not.
        for (at, c) in text.char_indices().filter(|_| text.len() < 2_000) {
            let (before, after) = (&text[..at], &text[at + c.len_utf8()..]);
            // By turns, for the sake of time: schemas are slow to prepare in a debug build.
            let damaged = if at % 2 == 0 { before.to_owned() } else { format!("{before}{after}") };
            outcome(flow::parse("flow.yaml", damaged, &limits));
        }
    }
}
